"""Request bodies of the operator interface, closed to unknown fields."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationInfo

from paydesk.core.durations import PATTERN, TYPED_PATTERN, typed_seconds
from paydesk.core.model import IDENTIFIER, NO_CARD_NUMBER, Model, property_fault, rule
from paydesk.core.text import CHARACTER, FORBIDDEN_CLASS, VISIBLE, is_blank
from paydesk.oauth import scopes
from paydesk.oauth.clients import redirect_uris
from paydesk.oauth.lifecycle import OnReplay
from paydesk.operators.words import Shown

LOOPBACK_ALLOWED = "loopback_allowed"
"""The key of the validation context that permits http redirect URIs to this machine."""
OVERLAP_SECONDS_MAX = 90 * 86_400

_EMAIL_PART = rf"[^\s@{FORBIDDEN_CLASS}]+"
_EMAIL = re.compile(f"{_EMAIL_PART}@{_EMAIL_PART}")


class Change(Model):
    """A request body with at least one field."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})


def _digits(value: Any) -> Any:
    """Accept ids as numbers and as text of digits."""
    return int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,18}", value, re.ASCII) else value


def _redirect_uri(text: str, info: ValidationInfo) -> str:
    fault = redirect_uris.fault(text, loopback_allowed=bool(info.context and info.context.get(LOOPBACK_ALLOWED)))
    if fault is not None:
        raise property_fault(fault)
    return text


def _scopes(text: str) -> str:
    try:
        return scopes.canonical(text)
    except scopes.ScopeError:
        raise property_fault(f"must be out of {' '.join(scopes.SCOPES)}, separated by single spaces") from None


# The upper bound is the largest BIGINT.
Id = Annotated[int, Field(ge=1, le=2**63 - 1), BeforeValidator(_digits)]
_VISIBLE = {"pattern": f"^{CHARACTER}*{VISIBLE}{CHARACTER}*$"}
_NOT_BLANK = rule("must not be blank", lambda text: not is_blank(text))
Name = Annotated[
    str,
    Field(min_length=1, max_length=100, json_schema_extra=_VISIBLE),
    _NOT_BLANK,
    NO_CARD_NUMBER,
    Shown("Name"),
]
RedirectUri = Annotated[
    str,
    Field(max_length=redirect_uris.CHARACTERS_MAX),
    AfterValidator(_redirect_uri),
    NO_CARD_NUMBER,
]
RedirectUris = Annotated[
    list[RedirectUri],
    Field(min_length=1, max_length=20),
    rule("must name each address once", lambda uris: len(set(uris)) == len(uris)),
]
Scopes = Annotated[str, AfterValidator(_scopes), Field(json_schema_extra={"pattern": scopes.PATTERN})]
_OVERLAP = rule(
    "must be a duration such as 0s, 30m, 24h or 7d, at most 90d",
    lambda text: (seconds := typed_seconds(text)) is not None and seconds <= OVERLAP_SECONDS_MAX,
)
# For the OpenAPI document; the validators' messages are written for people.
_TYPED = Field(json_schema_extra={"pattern": f"^({TYPED_PATTERN}|{PATTERN})$"})
Email = Annotated[
    str,
    Field(max_length=254, json_schema_extra={"pattern": f"^{_EMAIL_PART}@{_EMAIL_PART}$"}),
    rule("must be an e-mail address, such as ana@shop.example", _EMAIL.fullmatch),
    IDENTIFIER,
    Shown("E-mail address", "To sign in with. No e-mail is sent to it.", widget="email"),
]
PASSWORD_CHARACTERS_MIN, PASSWORD_CHARACTERS_MAX = 12, 200

Password = Annotated[
    str,
    Field(
        min_length=PASSWORD_CHARACTERS_MIN,
        max_length=PASSWORD_CHARACTERS_MAX,
        description=(
            "Not a common word or name, also not with digits or symbols around it, and without the part of the e-mail"
            " address before the @."
        ),
        examples=["seven-lanterns-over-a-harbour"],
    ),
    Shown(
        "Password",
        f"Empty: one is generated, and shown once. Your own needs at least {PASSWORD_CHARACTERS_MIN} characters, best"
        " several unrelated words.",
        widget="password",
        help="Read the password from standard input. [default: generate one and show it once]",
        option="--password-stdin",
    ),
]
Reason = Annotated[
    str,
    Field(min_length=1, max_length=500, examples=["Seen in the acquirer's portal."], json_schema_extra=_VISIBLE),
    _NOT_BLANK,
    NO_CARD_NUMBER,
    Shown("Reason", "Kept in the audit trail with your name. At most 500 characters."),
]


_TEST_TOKENS = (
    "Whether an exchange without `test_token` returns test tokens. For clients that cannot send this parameter."
)


class ApplicationRequest(Model):
    """`POST /operator/v1/applications`."""

    name: Name = Field(examples=["Corner shop"])
    redirect_uris: RedirectUris = Field(examples=[["https://shop.example/callback"]])
    scopes: Scopes = "offline_access read write"
    pkce_required: bool = False
    on_replay: OnReplay = "revoke"
    test_tokens: bool = Field(False, description=_TEST_TOKENS)


class ApplicationChange(Change):
    """`PATCH /operator/v1/applications/{client_id}`. Only the fields sent change; a list is replaced as a whole."""

    name: Name | None = None
    redirect_uris: RedirectUris | None = None
    scopes: Scopes | None = None
    pkce_required: bool | None = None
    on_replay: OnReplay | None = None
    test_tokens: bool | None = Field(None, description=_TEST_TOKENS)


class SecretRequest(Model):
    """`POST /operator/v1/applications/{client_id}/secrets`."""

    others_expire_in: Annotated[str, _OVERLAP, _TYPED] | None = Field(
        None,
        description="How long the other secrets stay valid: `24h`, `30m`, `0s`; if absent, until they are removed.",
        examples=["24h"],
    )


class CodeRequest(Model):
    """`POST /operator/v1/codes`."""

    client_id: Id = Field(examples=[3676047501096810])
    user_id: Id = Field(examples=[1160535239])
    redirect_uri: Annotated[str, Field(max_length=2000)] | None = None
    scope: Scopes | None = None
    code_challenge: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{43}$"), NO_CARD_NUMBER] | None = None
    code_challenge_method: Annotated[str, Field(pattern="^[Ss]256$")] | None = None
    test_token: bool | None = Field(
        None,
        description=(
            "Whether the code can only be exchanged for test tokens, or only for live ones. If it is missing, the"
            " exchange decides."
        ),
    )
