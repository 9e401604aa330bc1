"""What operators do about recorded requests: their list, one with its bodies, and sending one again."""

from __future__ import annotations

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.core.ids import ULID_PATTERN
from paydesk.operators import errors, sent_again
from paydesk.operators.noun import Noun
from paydesk.operators.requests import handlers
from paydesk.operators.words import Words, columns

_REQUEST = Noun(
    "requests/{entry_id}",
    "request",
    f"^{ULID_PATTERN}$",
    handlers.InspectedRequest,
    errors.REQUEST_NOT_FOUND,
    argument={"entry_id": "The request, see `paydesk requests list`."},
)

LIST = _REQUEST.listing(
    handlers.PAGES,
    words=Words(
        "Requests",
        says="The last ones of applications and terminals, newest first.",
        columns=columns(
            *("created_date", "status", "method", "path", "duration_ms", "error", "application", "order_id"),
            "entry_id",
        ),
        form=None,
        examples=("--status failed", "--order ORD01J67CQQH5904WDBVZEM4JMEP3 --json"),
        limit=50,
    ),
)
OPERATIONS = (
    LIST,
    _REQUEST.reading(
        handlers.get,
        words=Words(
            "Show the request", form=None, command="requests show", examples=("01J67CQQH5904WDBVZEM4JMEP3 --json",)
        ),
    ),
    _REQUEST.acting(
        "send",
        sent_again.send,
        body=sent_again.SendRequest,
        answer=sent_again.SentRequest,
        description="With a token of the credentials file. What is not sent here is as in the recorded request.",
        transaction="none",
        development=True,
        errors=(PROPERTY_VALUE, sent_again.CANNOT_SEND_AGAIN),
    ),
)
