"""What operators do about recorded requests: their list, one with its bodies, and sending one again."""

from __future__ import annotations

from paydesk.core.ids import ULID_PATTERN
from paydesk.operators import errors
from paydesk.operators.noun import Noun
from paydesk.operators.requests import handlers
from paydesk.operators.words import Column, Words

REQUEST = Noun(
    "requests/{entry_id}",
    "request",
    f"^{ULID_PATTERN}$",
    handlers.InspectedRequest,
    errors.REQUEST_NOT_FOUND,
    example="01J67CQQH5904WDBVZEM4JMEP3",
    argument={"entry_id": "The request, see `paydesk requests list`."},
)

LIST = REQUEST.listing(
    handlers.PAGES,
    words=Words(
        "Requests",
        says="The last ones of applications and terminals, newest first.",
        columns=(
            Column("created_date", "Time", "time", style="nowrap", at=1),
            Column("path", "Request", "request", style="what cut", at=4),
            Column("status", "Answer", "request_answer", style="nowrap", at=2),
            Column("duration_ms", "Took", "request_took", style="r num wide nowrap", at=5),
            Column("application", "From", "request_from", style="wide from", at=7),
            Column("idempotency_key", "Key", "request_key", style="wide mono nowrap"),
            Column("order_id", "Order", "request_order", style="mono nowrap", at=8),
            Column("method", at=3),
            Column("error", at=6),
            Column("entry_id", at=9),
        ),
        examples=("--status failed", "--order ORD01J67CQQH5904WDBVZEM4JMEP3 --json"),
        limit=50,
    ),
)
OPERATIONS = (
    LIST,
    REQUEST.reading(
        handlers.get,
        words=Words("Show the request"),
    ),
)
