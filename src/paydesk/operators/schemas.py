"""Request bodies of the operator interface, closed to unknown fields."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from paydesk.core.model import IDENTIFIER, NO_CARD_NUMBER, Model, property_fault, rule
from paydesk.core.text.characters import FORBIDDEN_CLASS, VISIBLE_PATTERN, is_blank
from paydesk.engine.oauth import scopes
from paydesk.operators.words import Shown

_EMAIL_PART = rf"[^\s@{FORBIDDEN_CLASS}]+"
_DIGITS = re.compile("[0-9]{1,18}", re.ASCII)
_EMAIL = re.compile(f"{_EMAIL_PART}@{_EMAIL_PART}")


class Change(Model):
    """A request body with at least one field."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})


def _scopes(text: str) -> str:
    try:
        return scopes.canonical(text)
    except scopes.ScopeError:
        raise property_fault(f"must be out of {' '.join(scopes.SCOPES)}, separated by single spaces") from None


# The upper bound is the largest BIGINT.
Id = Annotated[
    int,
    Field(ge=1, le=2**63 - 1),
    # A text of digits is accepted too.
    BeforeValidator(lambda one: int(one) if isinstance(one, str) and _DIGITS.fullmatch(one) else one),
]
_NOT_BLANK = rule("must not be blank", lambda text: not is_blank(text))
Name = Annotated[
    str,
    Field(min_length=1, max_length=100, json_schema_extra={"pattern": VISIBLE_PATTERN}),
    _NOT_BLANK,
    NO_CARD_NUMBER,
    Shown("Name"),
]
Scopes = Annotated[str, AfterValidator(_scopes), Field(json_schema_extra={"pattern": scopes.PATTERN})]
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
Role = Literal["owner", "operator", "support", "viewer"]
ROLES: tuple[str, ...] = get_args(Role)
Reason = Annotated[
    str,
    Field(
        min_length=1,
        max_length=500,
        examples=["Seen in the acquirer's portal."],
        json_schema_extra={"pattern": VISIBLE_PATTERN},
    ),
    _NOT_BLANK,
    NO_CARD_NUMBER,
    Shown("Reason", "Kept in the audit trail with your name. At most 500 characters."),
]


class ReasonRequest(Model):
    """The reason of a change that needs nothing else."""

    reason: Annotated[Reason, Field(examples=["The customer has left."])]


class OwnPasswordRequest(Model):
    """`POST /operator/v1/password`."""

    current_password: Annotated[str, Field(min_length=1, max_length=PASSWORD_CHARACTERS_MAX, repr=False)]
    password: Password = Field(repr=False)


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
