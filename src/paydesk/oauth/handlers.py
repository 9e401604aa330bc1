"""The token endpoint. The order of the lines in `token` is the order of the checks, and so of precedence."""

from __future__ import annotations

from typing import Protocol

from paydesk.errors import Refusal
from paydesk.oauth import applications, schemas
from paydesk.oauth.applications import Application
from paydesk.oauth.errors import TOKEN_FORBIDDEN, UNSUPPORTED_GRANT_TYPE
from paydesk.oauth.grants import authorization_code, refresh_token
from paydesk.oauth.proven import ProvenClients
from paydesk.oauth.schemas import TokenRequest
from paydesk.operation import Answer, Call


class Grant(Protocol):
    """What a module of `grants` offers."""

    def check_parameters(self, request: TokenRequest) -> None:
        """Refuse a request that is not one of this grant."""

    async def redeem(self, call: Call, request: TokenRequest, application: Application) -> Answer | Refusal:
        """Answer the tokens."""


GRANTS: dict[str, Grant] = {"authorization_code": authorization_code, "refresh_token": refresh_token}


def code_or_token(call: Call) -> tuple[str, ...]:
    """What a request for tokens touches: the one code or refresh token that it redeems."""
    return tuple(f"{name}:{call.body.get(name)}" for name in ("code", "refresh_token") if name in call.body)


async def token(call: Call) -> Answer | Refusal:
    """Exchange a code for tokens, or refresh them (RFC 6749 sections 4.1.3 and 6)."""
    request = schemas.request(call.body)
    grant = GRANTS.get(request.grant_type)
    if grant is None:
        raise UNSUPPORTED_GRANT_TYPE.because("grant_type is another")
    grant.check_parameters(request)
    proven: ProvenClients | None = call.state.get("proven_clients")
    known = proven.find(request.client_id, request.client_secret, call.now_ms) if proven is not None else None
    if known is not None:
        writes = call.tx.writes
        try:
            return await grant.redeem(call, request, known)
        except Refusal:
            # What this node remembers may be seconds old: nobody is refused for it.
            if call.tx.writes != writes:
                raise
    application = await applications.authenticate(
        call.tx, request.client_id, request.client_secret, call.now_ms, proven
    )
    if isinstance(application, Refusal):
        return application
    if application.suspended_ms is not None:
        raise TOKEN_FORBIDDEN.because("application suspended")
    return await grant.redeem(call, request, application)
