"""The functions that recognize the callers of each surface."""

from __future__ import annotations

from dataclasses import replace

from paydesk.core import errors
from paydesk.core.secrets import digest
from paydesk.engine.oauth.bearer import Bearers
from paydesk.engine.oauth.clients import token_body
from paydesk.engine.terminals.bearer import DeviceBearers
from paydesk.operators.accounts.credentials import OperatorBearers
from paydesk.platform.http.surfaces import Authenticate, Callers
from paydesk.platform.metrics.token import ScrapeToken
from paydesk.platform.operation import Caller, Surface


def callers(
    applications: Bearers, terminals: DeviceBearers, operators: OperatorBearers, scrapes: ScrapeToken
) -> Callers:
    """Return the functions that recognize applications, terminals, operators and Prometheus."""

    async def operator_or_test_token(token: str | None, now_ms: int) -> Caller:
        if token is not None and token.startswith(("PDO-", "PDS-")):
            operator = await operators.caller(token, now_ms)
            return replace(operator, scopes=frozenset(("read", "write")), token_digest=digest(token))
        caller = await applications.caller(token, now_ms)
        if caller.live:
            raise errors.FORBIDDEN.with_reason(
                "a live token",
                message=f"Virtual terminals take test orders only; {errors.HOW_TO_GET_TEST_TOKENS}.",
            )
        return caller

    authenticate: dict[Surface, Authenticate] = {
        "application": applications.caller,
        "device": terminals.caller,
        "operator": operators.caller,
        "virtual": operator_or_test_token,
        "metrics": scrapes.caller,
    }
    return Callers(authenticate, {"token": token_body.read})
