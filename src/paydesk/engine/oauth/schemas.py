"""The request and response bodies of the token endpoints."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, ValidationError

from paydesk.core.errors import INVALID_REQUEST, Refusal
from paydesk.core.ids import PUBLIC_KEY_PATTERN
from paydesk.core.response import Closed, Count, Response, constant
from paydesk.core.text import characters as text
from paydesk.engine.oauth import tokens
from paydesk.engine.oauth.errors import UNSUPPORTED_GRANT_TYPE, invalid_parameter

GRANT_TYPES = {
    "authorization_code": (["code", "redirect_uri"], ["refresh_token"]),
    "refresh_token": (["refresh_token"], ["code", "code_verifier"]),
}
"""The parameters that each grant type requires, and those of the other grant type alone."""


def _digits(value: Any) -> Any:
    """Return an integer as its digits; a boolean is not an integer here."""
    return str(value) if type(value) is int else value


def _closed(schema: dict[str, Any]) -> None:
    """Describe that a parameter is left out or has a value: remove defaults and null."""
    for name, field in schema["properties"].items():
        field.pop("default", None)
        kinds = [kind for kind in field.pop("anyOf", ()) if kind != {"type": "null"}]
        schema["properties"][name] = {**field, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {})}


def _token_required(schema: dict[str, Any]) -> None:
    """Describe that `token` is required and not empty."""
    _closed(schema)
    schema["required"].append("token")
    schema["properties"]["token"]["minLength"] = 1


def _one_of_two_grant_types(schema: dict[str, Any]) -> None:
    """Describe that each grant type requires its own parameters and refuses the other's."""
    _closed(schema)
    schema["examples"] = [
        {
            "client_id": "3676047501096810",
            "client_secret": "…",
            "grant_type": "refresh_token",
            "refresh_token": "TG-6500883a5f70750001bc46d26500883a5f707500-1160535239",
        }
    ]
    fields, required = schema.pop("properties"), schema.pop("required")
    for key in ("type", "additionalProperties"):
        schema.pop(key, None)
    schema["oneOf"] = [
        {
            "type": "object",
            "title": f"{grant_type.title().replace('_', '')}Request",
            "properties": {
                **{name: field for name, field in fields.items() if name not in others},
                "grant_type": {"const": grant_type, "description": f"`{grant_type}`."},
                **{name: {**fields[name], "minLength": 1} for name in needed},
            },
            "required": [*required, *needed],
            "additionalProperties": False,
        }
        for grant_type, (needed, others) in GRANT_TYPES.items()
    ]


Text = Annotated[str, Field(pattern=text.PATTERN)]
Required = Annotated[str, Field(pattern=f"^{text.CHARACTER}+$")]


class Credentials(BaseModel):
    """The client's credentials. An empty string counts as a missing parameter (RFC 6749 section 3.2)."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, json_schema_extra=_closed)

    client_id: Annotated[Required, BeforeValidator(_digits, json_schema_input_type=Required | int)] = Field(
        description="The application, in digits.", examples=["3676047501096810"]
    )
    client_secret: Required = Field(repr=False, description="The application's private credential.")


class TokenRequest(Credentials):
    """A token request."""

    model_config = ConfigDict(json_schema_extra=_one_of_two_grant_types)

    grant_type: Required = Field(
        description="`authorization_code` for the first tokens, `refresh_token` to renew them.",
        json_schema_extra={"enum": list(GRANT_TYPES)},
    )
    code: Text = Field("", repr=False, description="Only with `authorization_code`, where it is required.")
    redirect_uri: Text = Field("", description="Required with `authorization_code`: the URI that the code was sent to.")
    code_verifier: Annotated[str, Field(pattern=r"^([A-Za-z0-9._~-]{43,128})?$")] = Field(
        "",
        repr=False,
        description="With `authorization_code`: required if the authorization request had a challenge, else refused.",
    )
    refresh_token: Text = Field("", repr=False, description="Only with `refresh_token`, where it is required.")
    scope: Text | None = Field(None, description="The granted scopes or fewer. Default: all granted scopes.")
    test_token: Literal["true", "false"] | StrictBool | None = Field(
        None,
        description=(
            "Whether the tokens are for test orders. If it is missing, the code decides if it was issued for one mode,"
            " else the application's `test_tokens`. A refresh keeps the mode of its family."
        ),
    )

    @property
    def wants_test(self) -> bool | None:
        """Whether test tokens are requested; None if the parameter is missing."""
        return None if self.test_token is None else self.test_token in (True, "true")


class PresentedToken(Credentials):
    """A request to revoke or introspect a token."""

    model_config = ConfigDict(json_schema_extra=_token_required)

    token: Text = Field("", repr=False, description="An access token or a refresh token. Required.")
    token_type_hint: Text = Field(
        "", description="Ignored, since the format of a token shows its type. Any value is accepted."
    )


BEARER = "bearer"
_INTROSPECTED_SCOPE = (
    "In alphabetical order; for a refresh token the scopes granted to its family. Scopes that an operator has taken"
    " from the application are left out."
)


class TokenAnswer(Closed, frozen=True, kw_only=True):
    """The tokens of one generation (RFC 6749 section 5.1)."""

    access_token: Annotated[str, Meta(pattern=tokens.ACCESS_TOKEN_PATTERN)]
    token_type: Annotated[str, constant(BEARER)]
    expires_in: Annotated[Count, Meta(description="Seconds until the access token expires.")]
    scope: Annotated[
        str,
        Meta(description="In alphabetical order, without scopes that an operator has taken from the application."),
    ]
    user_id: Annotated[int, Meta(description="The seller that the tokens act for.")]
    refresh_token: (
        Annotated[str, Meta(pattern=tokens.REFRESH_TOKEN_PATTERN, description="Only if `offline_access` was granted.")]
        | None
    ) = None
    public_key: Annotated[str, Meta(pattern=PUBLIC_KEY_PATTERN)]
    live_mode: Annotated[bool, Meta(description="False for tokens of test orders.")]


class Introspection(Closed, frozen=True):
    """The description of a token; for one that is not active only that (RFC 7662 section 2.2)."""

    active: Annotated[
        bool,
        Meta(
            description="Whether the token is valid. A used refresh token is not active, even while it can be retried."
        ),
    ]
    scope: Annotated[str, Meta(description=_INTROSPECTED_SCOPE)] | None = None
    client_id: Annotated[str, Meta(description="The application, in digits.")] | None = None
    token_type: Annotated[str, constant(BEARER), Meta(description="Only for an access token.")] | None = None
    exp: Annotated[int, Meta(description="When the token expires, in seconds since 1970.")] | None = None
    iat: Annotated[int, Meta(description="When the token was issued, in seconds since 1970.")] | None = None
    sub: Annotated[str, Meta(description="The seller, as `user_id`, in digits.")] | None = None
    iss: Annotated[str, Meta(description="The address of this service.")] | None = None
    user_id: Annotated[int, Meta(description="The seller that the token acts for.")] | None = None
    live_mode: Annotated[bool, Meta(description="False for tokens of test orders.")] | None = None


class Revoked(Response, frozen=True):
    """The answer to a revocation: an empty object."""


Model = TypeVar("Model", bound=Credentials)

_RULES = {
    "client_id": "must be a string of digits",
    "code_verifier": "must be 43 to 128 characters out of letters, digits and - . _ ~",
    "test_token": "must be true or false",
}
"""The rules of the parameters that are not any text."""


def read(model: type[Model], body: Any) -> Model:
    """Validate a parsed body. Raises INVALID_REQUEST, which names parameters and never their values."""
    if not isinstance(body, dict):
        raise INVALID_REQUEST.with_reason("body is not an object")
    if None in body.values():
        name = next(name for name, value in body.items() if value is None)
        raise invalid_parameter("a parameter is null", name, "must not be null")
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise _refusal(error) from None


def check_grant_type(request: TokenRequest) -> None:
    """Refuse an unknown grant type, and a request that lacks a parameter of its grant type or has the other's."""
    if request.grant_type not in GRANT_TYPES:
        raise UNSUPPORTED_GRANT_TYPE.with_reason("grant_type is unknown")
    required, foreign = GRANT_TYPES[request.grant_type]
    for name in required:
        if not getattr(request, name):
            raise missing(name)
    for name in foreign:
        if getattr(request, name):
            rule = f"must not be sent with grant_type {request.grant_type}"
            raise invalid_parameter(f"{name} is of the other grant type", name, rule)


def token_answer(pair: tokens.Pair, scope: str, public_key: str, now_ms: int) -> TokenAnswer:
    """Return the answer with the tokens of `pair`, their remaining lifetime and their current `scope`."""
    return TokenAnswer(
        access_token=pair.access_token,
        token_type=BEARER,
        expires_in=max(pair.generation.expires_ms - now_ms, 0) // 1000,
        scope=scope,
        user_id=pair.family.seller_id,
        refresh_token=pair.refresh_token,
        public_key=public_key,
        live_mode=pair.family.live,
    )


def missing(name: str) -> Refusal:
    """Return the refusal of a request without a parameter that it needs, or with an empty one."""
    return invalid_parameter(f"{name} is missing", name, "is missing")


def _refusal(error: ValidationError) -> Refusal:
    fault = error.errors(include_url=False, include_context=False)[0]
    name, kind = str(fault["loc"][0]), fault["type"]
    if kind == "extra_forbidden":
        return invalid_parameter("a parameter is unknown", name, "is not a known parameter")
    if kind == "missing":
        return missing(name)
    rule = "is missing"  # An empty parameter counts as missing, too.
    if fault["input"] != "":
        rule = _RULES.get(name, text.RULE if kind == "string_pattern_mismatch" else "must be a string")
    return invalid_parameter(f"{name} is malformed", name, rule)
