"""The handlers of the token endpoints. The order of the lines is the order of the checks."""

from __future__ import annotations

from typing import Protocol

from paydesk.core import conflict_keys
from paydesk.core.conflict_keys import ConflictKey
from paydesk.core.errors import Refusal
from paydesk.oauth import presented, schemas
from paydesk.oauth.clients import authentication
from paydesk.oauth.clients.application import Application
from paydesk.oauth.errors import INVALID_REQUEST, UNSUPPORTED_GRANT_TYPE
from paydesk.oauth.grants import authorization_code, refresh_token
from paydesk.oauth.schemas import PresentedToken, TokenRequest
from paydesk.operation import Answer, Call


class GrantType(Protocol):
    """The interface of a grant type: a module of `grants`."""

    def check_parameters(self, request: TokenRequest) -> None:
        """Refuse a request without the parameters of this grant type, or with those of the other."""

    async def redeem(self, call: Call, request: TokenRequest, application: Application) -> Answer | Refusal:
        """Return the tokens."""


GRANTS: dict[str, GrantType] = {"authorization_code": authorization_code, "refresh_token": refresh_token}


REDEEMED = {"code": conflict_keys.code, "refresh_token": conflict_keys.refresh_token}


def redeemed_credential(call: Call) -> tuple[ConflictKey, ...]:
    """Return the conflict key of a token request: the code or refresh token that it redeems."""
    return tuple(key(call.body[name]) for name, key in REDEEMED.items() if name in call.body)


async def token(call: Call) -> Answer | Refusal:
    """Exchange a code for tokens, or refresh them (RFC 6749 sections 4.1.3 and 6)."""
    request = schemas.read(TokenRequest, call.body)
    grant = GRANTS.get(request.grant_type)
    if grant is None:
        raise UNSUPPORTED_GRANT_TYPE.with_reason("grant_type is unknown")
    grant.check_parameters(request)
    return await authentication.as_client(call, request, lambda application: grant.redeem(call, request, application))


def presented_token(call: Call) -> tuple[ConflictKey, ...]:
    """Return the conflict key of a request about a token: that of a refresh with it."""
    return (conflict_keys.refresh_token(call.body.get("token")),)


async def revoke(call: Call) -> Answer | Refusal:
    """Revoke a token of the calling application (RFC 7009)."""
    request = _presented(call)
    return await authentication.as_client(
        call, request, lambda application: presented.revoke(call, request.token, application)
    )


async def introspect(call: Call) -> Answer | Refusal:
    """Describe a token of the calling application, if it is valid (RFC 7662)."""
    request = _presented(call)
    return await authentication.as_client(
        call, request, lambda application: presented.introspect(call, request.token, application)
    )


def _presented(call: Call) -> PresentedToken:
    request = schemas.read(PresentedToken, call.body)
    if not request.token:
        raise INVALID_REQUEST.with_reason("token is missing")
    return request
