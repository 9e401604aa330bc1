"""The operations of the token endpoints."""

from __future__ import annotations

from paydesk.core.errors import INVALID_REQUEST
from paydesk.engine.oauth import handlers, metadata
from paydesk.engine.oauth.errors import CLIENT_ERRORS, OAUTH_ERRORS
from paydesk.engine.oauth.schemas import Introspection, PresentedToken, Revoked, TokenAnswer, TokenRequest
from paydesk.platform.operation import Operation
from paydesk.platform.rows import Rows

_BASIC = (
    "`Authorization: Basic` (RFC 6749 section 2.3.1) may stand for `client_id` and `client_secret`, if the body has"
    " neither."
)

_OAUTH = Rows("token")

TOKEN = _OAUTH.post(
    "/oauth/token",
    "create_token",
    handlers.token,
    conflict_keys=handlers.redeemed_credential,
    body=TokenRequest,
    answer=TokenAnswer,
    example={
        "access_token": "APP_USR-3676047501096810-091211-fbad3ab32ad4f89bf1c385141ba5626a-1160535239",
        "token_type": "bearer",
        "expires_in": 15_552_000,
        "scope": "offline_access read write",
        "user_id": 1_160_535_239,
        "refresh_token": "TG-6500883a5f70750001bc46d26500883a5f707500-1160535239",
        "public_key": "APP_USR-2dfd505a-4b30-4403-878b-f8fb618e58b3",
        "live_mode": True,
    },
    errors=OAUTH_ERRORS,
    description=(
        f"The body may be `application/x-www-form-urlencoded` with the same names. {_BASIC} A refresh token has exactly"
        " one successor: using the token again returns the same tokens until one minute after the successor was itself"
        " refreshed. Later reuse is a replay and revokes the token family."
    ),
)

_PRESENTED = _OAUTH.below(conflict_keys=handlers.presented_token, body=PresentedToken, errors=CLIENT_ERRORS)

REVOKE = _PRESENTED.post(
    "/oauth/revoke",
    "revoke_token",
    handlers.revoke,
    answer=Revoked,
    example={},
    description=(
        f"RFC 7009. {_BASIC} Revoking a refresh token, also a used one, revokes its token family; revoking an access"
        " token revokes that token alone. An unknown token and one of another application get the same answer, without"
        " effect."
    ),
)

INTROSPECT = _PRESENTED.post(
    "/oauth/introspect",
    "introspect_token",
    handlers.introspect,
    answer=Introspection,
    example={
        "active": True,
        "scope": "offline_access read write",
        "client_id": "3676047501096810",
        "token_type": "bearer",
        "exp": 1_785_421_602,
        "iat": 1_769_869_602,
        "sub": "1160535239",
        "iss": "https://pay.example",
        "user_id": 1_160_535_239,
        "live_mode": True,
    },
    description=(
        f"RFC 7662, for the application's own tokens. {_BASIC} For a token that is unknown, of another application,"
        " expired, revoked or used, or whose seller is suspended or has withdrawn the authorization, the answer is only"
        " that it is not active. A used refresh token is not active even while it can be retried. Introspection changes"
        " nothing and is never a replay."
    ),
)

_ENDPOINTS = {"token": TOKEN.path, "revocation": REVOKE.path, "introspection": INTROSPECT.path}
_METADATA = metadata.document("https://pay.example", _ENDPOINTS, handlers.GRANTS)

METADATA = _OAUTH.get(
    metadata.PATH,
    "authorization_server_metadata",
    metadata.handler(_ENDPOINTS, handlers.GRANTS),
    transaction="none",
    is_constant=True,
    answer=metadata.answer_type(_METADATA),
    example=_METADATA,
    errors=(INVALID_REQUEST,),
    description="RFC 8414.",
)

OPERATIONS: tuple[Operation, ...] = (TOKEN, REVOKE, INTROSPECT, METADATA)
