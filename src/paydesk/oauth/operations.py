"""The rows of the interface table that this domain answers."""

from __future__ import annotations

from paydesk.oauth import handlers
from paydesk.oauth.errors import OAUTH_ERRORS
from paydesk.oauth.schemas import TokenAnswer, TokenRequest
from paydesk.operation import Operation

TOKEN = Operation(
    method="POST",
    path="/oauth/token",
    name="create_token",
    summary="Exchange an authorization code for tokens, or refresh them",
    surface="token",
    handler=handlers.token,
    transaction="write",
    touches=handlers.code_or_token,
    body=TokenRequest,
    answer=TokenAnswer.model_json_schema(),
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
        "The body may be `application/x-www-form-urlencoded` with the same names. A refresh makes one successor and no"
        " more: redeeming the used token again answers the very same tokens until a minute after that successor was"
        " itself refreshed; after that it is a replay and ends the whole chain."
    ),
)

OPERATIONS: tuple[Operation, ...] = (TOKEN,)
