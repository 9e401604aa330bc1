"""The key in the link with which `paydesk dev` opens the console: random, valid while the process runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from paydesk.console.request import PATH as CONSOLE
from paydesk.console.request import ConsoleRequest
from paydesk.console.sessions import OPERATORS
from paydesk.core.errors import NOT_FOUND, TOO_MANY_REQUESTS, UNAUTHORIZED
from paydesk.core.secrets import new_hex, same
from paydesk.operators.sign_in.page import signed_in
from paydesk.platform.http.rate_limit import BearerRates
from paydesk.platform.operation import Answer, Call, Operation, Query
from paydesk.platform.rows import Rows
from paydesk.platform.web import html

PATH = "/console/enter"
PARAMETER = "key"


@dataclass(frozen=True, slots=True)
class ConsoleKey:
    """A key that signs in as one operator."""

    operator_id: str
    value: str = field(default_factory=lambda: new_hex(160), repr=False)

    def is_valid(self, text: str) -> bool:
        """Return whether the text is the key."""
        return same(text, self.value)

    def url(self, base_url: str) -> str:
        """Return the address that leads to the console."""
        return f"{base_url}{PATH}?{PARAMETER}={self.value}"


async def enter(call: Call) -> Answer:
    """Sign in by the key of the link that `paydesk dev` prints. The address of the answer has no key."""
    key, sent = call.shared.objects.get(ConsoleKey), call.query.get(PARAMETER, "")
    if key is None or not key.is_valid(sent):
        guess = UNAUTHORIZED.with_reason("wrong key of the console")
        counted = call.shared.objects[BearerRates].failed(guess, sent or None, call.address)
        raise NOT_FOUND.with_reason("wrong key") if counted is guess else counted
    request = ConsoleRequest(call)
    token = await OPERATORS.open_session(call, key.operator_id, previous=request.token, password_hash="")
    if token is None:
        raise NOT_FOUND.with_reason("the operator is revoked")
    return signed_in(request, token, CONSOLE)


OPERATIONS: tuple[Operation, ...] = (
    Rows("console", development=True, transaction="none", media_type=html.HTML).get(
        PATH,
        "console_enter",
        enter,
        status=303,
        query=(Query(PARAMETER, {"type": "string"}, "The key of the link.", required=True),),
        errors=(NOT_FOUND, TOO_MANY_REQUESTS),
    ),
)
