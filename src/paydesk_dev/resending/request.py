"""`POST /operator/v1/requests/{entry_id}/send`, in development only: sends a recorded request of an application again.

It is sent with a token of the credentials file, for the same seller, so that no secret needs to be recorded.
"""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import quote, unquote

from msgspec import Meta
from pydantic import Field

from paydesk.core import ids
from paydesk.core.errors import ErrorKind
from paydesk.core.model import Model
from paydesk.core.response import Closed
from paydesk.core.text.redaction import redacted_url
from paydesk.operators import audit
from paydesk.operators.errors import REQUEST_NOT_FOUND
from paydesk.platform.http.in_process import InProcess
from paydesk.platform.http.recording import store as recorded_store
from paydesk.platform.operation import Answer, Call
from paydesk_dev.credentials_file import KeptCredentials

CANNOT_SEND_AGAIN = ErrorKind(
    "cannot_send_again",
    409,
    "This request cannot be sent again from here.",
    advice="Read `details`.",
)
BODY_CHARACTERS_MAX = 65_536
PATH_PATTERN = "^/(?:v1|terminals)/[\\x21-\\x7e]*$"
_TOKEN = re.compile("(?P<kind>APP_USR|TEST)-(?P<application>[0-9]+)-[0-9]{6}-[0-9a-f]{32}-(?P<seller>[0-9]+)")
_PATH_SAFE = "/?%:@!$&'()*+,;=~"


class SendRequest(Model):
    """`POST /operator/v1/requests/{entry_id}/send`: what differs from the recorded request."""

    path: Annotated[str, Field(max_length=500, pattern=PATH_PATTERN)] | None = Field(
        None, description="Another path below `/v1/` or `/terminals/`, with its query.", examples=["/v1/orders"]
    )
    body: Annotated[str, Field(max_length=BODY_CHARACTERS_MAX)] | None = Field(
        None, description="Another body, as text without line ends.", examples=['{"type": "point"}']
    )
    idempotency_key: Annotated[str, Field(max_length=64, pattern="^[\\x21-\\x7e]*$")] | None = Field(
        None,
        description=(
            "The `X-Idempotency-Key`: by default a new one if the recorded request had one. With the recorded key the"
            " same request gets its stored answer; an empty text sends none."
        ),
        examples=["order-1001"],
    )


class SentRequest(Closed, frozen=True, kw_only=True):
    """The response to a request that was sent again. That request is recorded, too."""

    request_id: Annotated[str, Meta(description="Its `X-Request-Id`.")]
    status: int
    replayed: Annotated[bool, Meta(description="Whether the stored response of an earlier request was sent.")]
    body: Annotated[str, Meta(description="The body of the response.")]


async def send(call: Call) -> Answer:
    """Send a recorded request of an application again; return the response.

    Raises `REQUEST_NOT_FOUND`, `CANNOT_SEND_AGAIN`.
    """
    change: SendRequest = call.body
    row = await call.database.read(lambda tx: tx.one(recorded_store.GET_SENT, call.path))
    if row is None:
        raise REQUEST_NOT_FOUND.with_reason("unknown or deleted")
    method, recorded_path, body, key, application_id, seller_id, live = row
    path = quote(change.path or recorded_path, safe=_PATH_SAFE)
    if not re.match(PATH_PATTERN, path):
        raise CANNOT_SEND_AGAIN.with_reason(
            "not of an application", "only requests below /v1/ and /terminals/ have no secrets but the token"
        )
    token = _token(call, application_id, seller_id, live)
    if token is None:
        raise CANNOT_SEND_AGAIN.with_reason(
            "no token", "the credentials file has no access token of this application for this seller"
        )
    new_key = change.idempotency_key if change.idempotency_key is not None else ids.uuid() if key else ""
    content = change.body if change.body is not None else body or ""
    request_id = ids.uuid()
    headers = {
        "authorization": f"Bearer {token}",
        "x-request-id": request_id,
        "user-agent": "paydesk, sent again",
        **({"x-idempotency-key": new_key} if new_key else {}),
        **({"content-type": "application/json"} if content else {}),
    }
    after = {"method": method, "path": redacted_url(unquote(path)), "request_id": request_id}
    await call.database.write(lambda tx: audit.record(call, tx, "requests.send", call.path, after=after))
    reply = await call.shared.objects[InProcess].request(
        method, path, address=call.address, headers=headers, body=content.encode()
    )
    return Answer(
        200,
        SentRequest(
            request_id=request_id,
            status=reply.status,
            replayed="x-idempotent-replayed" in reply.headers,
            body=reply.body.decode("utf-8", "replace"),
        ),
    )


def _token(call: Call, application_id: int | None, seller_id: int | None, live: int | None) -> str | None:
    """Return the token for the sender of a request; the file's test token if no sender was authenticated."""
    credentials = call.shared.objects.get(KeptCredentials)
    texts = credentials.texts() if credentials is not None else set[str]()
    kind = "APP_USR" if live else "TEST"
    for one in filter(None, map(_TOKEN.fullmatch, sorted(texts))):
        is_sender = (int(one["application"]), int(one["seller"])) == (application_id, seller_id)
        if one["kind"] == kind and (is_sender or not application_id):
            return one[0]
    return None
