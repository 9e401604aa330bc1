"""The token endpoints' bodies at the wire: they check and describe their fields, and are used nowhere inside."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, ValidationError

from paydesk.core import text
from paydesk.oauth import tokens
from paydesk.oauth.errors import INVALID_REQUEST


def _digits(value: Any) -> Any:
    """A JSON number is taken for its digits; a boolean is no number here."""
    return str(value) if type(value) is int else value


def _closed(schema: dict[str, Any]) -> None:
    """On the wire a parameter is left out or has a value: no defaults, no null."""
    for name, field in schema["properties"].items():
        field.pop("default", None)
        kinds = [kind for kind in field.pop("anyOf", ()) if kind != {"type": "null"}]
        schema["properties"][name] = {**field, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {})}


def _with_a_token(schema: dict[str, Any]) -> None:
    """An empty token is none."""
    _closed(schema)
    schema["required"].append("token")
    schema["properties"]["token"]["minLength"] = 1


def _one_of_two_flows(schema: dict[str, Any]) -> None:
    """Each grant type needs parameters of its own, and takes none of the other's."""
    _closed(schema)
    schema["examples"] = [
        {
            "client_id": "3676047501096810",
            "client_secret": "…",
            "grant_type": "refresh_token",
            "refresh_token": "TG-6500883a5f70750001bc46d26500883a5f707500-1160535239",
        }
    ]
    there, empty = {"minLength": 1}, {"maxLength": 0}
    schema["oneOf"] = [
        {
            "properties": {
                "grant_type": {"const": grant_type},
                **dict.fromkeys(needed, there),
                **dict.fromkeys(others, empty),
            },
            "required": needed,
        }
        for grant_type, needed, others in (
            ("authorization_code", ["code", "redirect_uri"], ["refresh_token"]),
            ("refresh_token", ["refresh_token"], ["code", "code_verifier"]),
        )
    ]


Text = Annotated[str, Field(pattern=text.PATTERN)]
Required = Annotated[str, Field(pattern=f"^{text.CHARACTER}+$")]


class Credentials(BaseModel):
    """Who asks. An empty string stands for a parameter left out (RFC 6749 section 3.2)."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, json_schema_extra=_closed)

    client_id: Annotated[Required, BeforeValidator(_digits, json_schema_input_type=Required | int)] = Field(
        description="The application, in digits.", examples=["3676047501096810"]
    )
    client_secret: Required = Field(repr=False, description="The application's private credential.")


class TokenRequest(Credentials):
    """What an application asks for."""

    model_config = ConfigDict(json_schema_extra=_one_of_two_flows)

    grant_type: Required = Field(
        description="`authorization_code` for the first tokens, `refresh_token` to renew them.",
        json_schema_extra={"enum": ["authorization_code", "refresh_token"]},
    )
    code: Text = Field("", repr=False, description="With `authorization_code` alone, and required there.")
    redirect_uri: Text = Field("", description="Required with `authorization_code`: where the code was sent to.")
    code_verifier: Annotated[str, Field(pattern=r"^([A-Za-z0-9._~-]{43,128})?$")] = Field(
        "", repr=False, description="With `authorization_code`, when and only when the authorization had a challenge."
    )
    refresh_token: Text = Field("", repr=False, description="With `refresh_token` alone, and required there.")
    scope: Text | None = Field(None, description="The scopes that were granted, or fewer; left out: all of them.")
    test_token: Literal["true", "false"] | StrictBool | None = Field(
        None, description="Whether the tokens are for test orders; a refresh keeps the kind that its family has."
    )

    @property
    def wants_test(self) -> bool | None:
        """Whether test tokens are asked for; None where the request does not say."""
        return None if self.test_token is None else self.test_token in (True, "true")


class PresentedToken(Credentials):
    """A token that its application ends or asks about."""

    model_config = ConfigDict(json_schema_extra=_with_a_token)

    token: Text = Field("", repr=False, description="An access token or a refresh token. Required.")
    token_type_hint: Text = Field(
        "", description="Not needed: a token's shape says which kind it is. Any value is accepted."
    )


class TokenAnswer(BaseModel):
    """The tokens of one generation, as `body` writes them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_closed)

    access_token: str = Field(pattern=tokens.ACCESS_TOKEN_PATTERN)
    token_type: Literal["bearer"]
    expires_in: int = Field(ge=0, description="Seconds that the access token has left.")
    scope: str = Field(
        description="In alphabetical order; without those that an operator has taken from the application."
    )
    user_id: int = Field(description="The seller that the tokens act for.")
    refresh_token: str | None = Field(
        None, pattern=tokens.REFRESH_TOKEN_PATTERN, description="Only where `offline_access` was granted."
    )
    public_key: str = Field(pattern=tokens.PUBLIC_KEY_PATTERN)
    live_mode: bool = Field(description="False for tokens of test orders.")


class Introspection(BaseModel):
    """What is said of a token; of one that is not good nothing but that."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_closed)

    active: bool = Field(description="Whether it is good now. A used refresh token is not, though it may be repeated.")
    scope: str | None = Field(
        None,
        description=(
            "In alphabetical order; of a refresh token what its family was granted. Without those that an operator has"
            " taken from the application."
        ),
    )
    client_id: str | None = Field(None, description="The application, in digits.")
    token_type: Literal["bearer"] | None = Field(None, description="Of an access token alone.")
    exp: int | None = Field(None, description="When it expires, in seconds since 1970.")
    iat: int | None = Field(None, description="When it was issued, in seconds since 1970.")
    sub: str | None = Field(None, description="The seller, as `user_id`, in digits.")
    iss: str | None = Field(None, description="The address of this service.")
    user_id: int | None = Field(None, description="The seller that the token acts for.")
    live_mode: bool | None = Field(None, description="False for tokens of test orders.")


Model = TypeVar("Model", bound=Credentials)


def read(model: type[Model], body: Any) -> Model:
    """The request in a parsed body. Raises INVALID_REQUEST; its reason names parameters, never their values."""
    if not isinstance(body, dict):
        raise INVALID_REQUEST.with_reason("body is not an object")
    if None in body.values():
        raise INVALID_REQUEST.with_reason("a parameter is null")
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise INVALID_REQUEST.with_reason(_reason(error)) from None


def body(pair: tokens.Pair, scope: str, public_key: str, now_ms: int) -> dict[str, Any]:
    """The answer that carries `pair`, with what is left of the access token's lifetime and what `scope` it has now."""
    generation = pair.generation
    answer: dict[str, Any] = {
        "access_token": pair.access_token,
        "token_type": "bearer",
        "expires_in": max(generation.expires_ms - now_ms, 0) // 1000,
        "scope": scope,
        "user_id": pair.family.seller_id,
    }
    if pair.refresh_token is not None:
        answer["refresh_token"] = pair.refresh_token
    return {**answer, "public_key": public_key, "live_mode": pair.family.live}


def _reason(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = str(fault["loc"][0])
    if fault["type"] == "extra_forbidden":
        return "a parameter is unknown"
    return f"{name} is missing" if fault["type"] == "missing" else f"{name} is malformed"
