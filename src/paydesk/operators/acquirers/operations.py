"""What operators do about acquirers: their list, and a test of the connection."""

from __future__ import annotations

from paydesk.operators import errors
from paydesk.operators.acquirers import handlers
from paydesk.operators.lists import Pages, paging
from paydesk.operators.noun import Noun
from paydesk.operators.words import Column, Words

ACQUIRER = Noun(
    "acquirers/{name}",
    "acquirer",
    handlers.NAME_PATTERN,
    handlers.AcquirerDocument,
    errors.ACQUIRER_NOT_FOUND,
    page="/acquirers",
    pages="/acquirers",
)

LIST = ACQUIRER.listing(
    Pages(
        handlers.AcquirerPage,
        handlers.find_all,
        paging(handlers.FIRST),
        "Those of the `acquirers_file`, by name, as the node that answers has them: with its circuit breaker.",
    ),
    words=Words(
        "Acquirers",
        says="Of live orders: which orders each takes, and whether the node that answers can reach it.",
        columns=(
            Column("name", "Name", style="what", at=1),
            Column("breaker", "Connection", "breaker", at=2),
            Column("takes", "Orders", "takes", label="takes", at=3),
            Column("address", "Address", style="mono", at=4),
            Column("adapter", "Adapter", label="adapter", at=5),
            Column("node", "Node", style="mono", label="node", at=7),
            Column("reason", at=6),
        ),
        examples=("", "--json"),
    ),
)
OPERATIONS = (
    LIST,
    ACQUIRER.acting(
        "test",
        handlers.test,
        answer=handlers.TestedAcquirer,
        role="resend",
        transaction="none",
        description="Sends an echo, whatever the circuit breaker's state is. It charges nothing; a good"
        " answer closes the breaker of the node.",
        words=Words("Test {name}", did="Tested", form=None, command=None),
    ),
)
