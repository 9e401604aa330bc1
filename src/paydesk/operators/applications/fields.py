"""The fields of applications and their secrets: request bodies with what people see of them, closed to unknown ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from paydesk.core.model import NO_CARD_NUMBER, Model, property_fault, rule
from paydesk.core.text.durations import PATTERN, TYPED_PATTERN, typed_seconds
from paydesk.engine.oauth import scopes
from paydesk.engine.oauth.clients import redirect_uris
from paydesk.engine.oauth.lifecycle import OnReplay
from paydesk.operators.schemas import Change, Name, Scopes
from paydesk.operators.words import Shown

LOOPBACK_ALLOWED = "loopback_allowed"
"""The key of the validation context that permits http redirect URIs to this machine."""
OVERLAP_SECONDS_MAX = 90 * 86_400
SCOPES: Mapping[str, str] = {
    scopes.READ: "see orders, payments and terminals",
    scopes.WRITE: "create, cancel and refund orders, and set up terminals",
    scopes.OFFLINE_ACCESS: "get refresh tokens, and so act while the seller is away",
}
"""The permissions of each scope."""
ON_REPLAY: Mapping[str, str] = {
    "revoke": "revoke all tokens of its family",
    "refuse": "refuse only that request",
}
"""The policies for a used refresh token that is presented again, later than a retry."""


def _redirect_uri(text: str, info: ValidationInfo) -> str:
    fault = redirect_uris.fault(text, loopback_allowed=bool(info.context and info.context.get(LOOPBACK_ALLOWED)))
    if fault is not None:
        raise property_fault(fault)
    return text


RedirectUri = Annotated[
    str,
    Field(max_length=redirect_uris.CHARACTERS_MAX),
    AfterValidator(_redirect_uri),
    NO_CARD_NUMBER,
]
_OVERLAP = rule(
    "must be a duration such as 0s, 30m, 24h or 7d, at most 90d",
    lambda text: (seconds := typed_seconds(text)) is not None and seconds <= OVERLAP_SECONDS_MAX,
)
# For the OpenAPI document; the validators' messages are written for people.
_TYPED = Field(json_schema_extra={"pattern": f"^({TYPED_PATTERN}|{PATTERN})$"})

_NAME = Shown("Name", "Sellers see it when they authorize it.")
_URIS = Shown(
    "Redirect URIs",
    "Where codes are sent. One per line, https, compared character for character. In development also http to this"
    " machine.",
    noun="list of redirect URIs",
    option="--redirect-uri",
    help="Where codes are sent: https, or in `paydesk dev` http to this machine; may be given several times.",
)
_SCOPES = Shown(
    "Scopes",
    noun="list of scopes",
    group="Scopes that it may request",
    widget="words",
    labels={name: f"{name}: {meaning}" for name, meaning in SCOPES.items()},
    option="--scope",
    help="The scopes that it may request, separated by spaces.",
)
_URIS_OF_CHANGE = replace(_URIS, help="Where codes are sent; replaces all registered URIs; may be given several times.")
_SCOPES_OF_NEW = replace(_SCOPES, help=f"{_SCOPES.help} [default: {' '.join(scopes.SCOPES)}]")
_PKCE = Shown(
    "PKCE is required",
    "Without it, only a challenge that is sent is verified.",
    group="Codes and tokens",
    option="--pkce-required",
    help="Require PKCE.",
)
_TEST_TOKENS = Shown(
    "Test tokens unless it asks for live ones",
    "For an application that cannot send test_token. Not for one with live sellers.",
    group="Codes and tokens",
    option="--test-tokens",
    help="Return test tokens to a client that does not send `test_token`.",
)
_PKCE_OF_CHANGE = replace(_PKCE, option="--pkce-required/--pkce-optional", help="Whether PKCE is required.")
_TEST_TOKENS_OF_CHANGE = replace(
    _TEST_TOKENS, metavar="on|off", help="Whether a client that does not send `test_token` gets test tokens."
)
_ON_REPLAY = Shown(
    "When a used refresh token is presented again",
    "Revoking also stops an attacker who has a token; the seller must authorize the application again. A retry within"
    " the grace period gets the same tokens as before.",
    noun="choice",
    labels={choice: meaning[:1].upper() + meaning[1:] for choice, meaning in ON_REPLAY.items()},
    metavar="revoke|refuse",
    help="On a replayed refresh token: revoke its family, or only refuse it.",
)
RedirectUris = Annotated[
    list[RedirectUri],
    Field(min_length=1, max_length=20),
    rule("must name each address once", lambda uris: len(set(uris)) == len(uris)),
]
_UNLESS_SENT = (
    "Whether an exchange without `test_token` returns test tokens. For clients that cannot send this parameter."
)


class ApplicationRequest(Model):
    """`POST /operator/v1/applications`."""

    name: Annotated[Name, _NAME] = Field(examples=["Corner shop"])
    redirect_uris: Annotated[RedirectUris, _URIS] = Field(examples=[["https://shop.example/callback"]])
    scopes: Annotated[Scopes, _SCOPES_OF_NEW] = "offline_access read write"
    pkce_required: Annotated[bool, _PKCE] = False
    on_replay: Annotated[OnReplay, replace(_ON_REPLAY, default="revoke")] = "revoke"
    test_tokens: Annotated[bool, _TEST_TOKENS] = Field(False, description=_UNLESS_SENT)


class ApplicationChange(Change):
    """`PATCH /operator/v1/applications/{client_id}`. Only the fields sent change; a list is replaced as a whole."""

    name: Annotated[Name, _NAME] | None = None
    redirect_uris: Annotated[RedirectUris, _URIS_OF_CHANGE] | None = None
    scopes: Annotated[Scopes, _SCOPES] | None = None
    pkce_required: Annotated[bool, _PKCE_OF_CHANGE] | None = None
    on_replay: Annotated[OnReplay, _ON_REPLAY] | None = None
    test_tokens: Annotated[bool, _TEST_TOKENS_OF_CHANGE] | None = Field(None, description=_UNLESS_SENT)


KEPT = "kept"
"""The choice that sends nothing."""


_OthersExpireIn = Annotated[
    str,
    _OVERLAP,
    _TYPED,
    Shown(
        "The other secrets",
        "One that expires earlier already is not extended. At most five are valid at a time.",
        noun="time",
        labels={
            KEPT: "Valid until you remove them",
            "24h": "Valid for 24 hours",
            "7d": "Valid for 7 days",
            "0s": "Invalid at once: use this if one has leaked",
        },
        value=lambda _: "24h",
        only=("has_valid", (True,)),
        metavar="TIME",
        help="How long the other secrets stay valid: 24h, 30m, 7d, 0s. [default: until they are removed]",
    ),
]


class SecretRequest(Model):
    """`POST /operator/v1/applications/{client_id}/secrets`."""

    others_expire_in: _OthersExpireIn | None = Field(
        None,
        description="How long the other secrets stay valid: `24h`, `30m`, `0s`; if absent, until they are removed.",
        examples=["24h"],
    )
