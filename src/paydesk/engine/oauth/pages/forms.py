"""The fields of the pages' forms; unknown fields are refused."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Form(BaseModel):
    """The fields of every form."""

    model_config = ConfigDict(extra="forbid")

    form_token: str = Field(max_length=100, description="From the page with the form.")
    return_to: str = Field("", description="The path of this service to redirect to.")


class SignIn(_Form):
    """A sign-in."""

    INVISIBLE_ALLOWED: ClassVar[frozenset[str]] = frozenset({"password"})
    """Passwords set before invisible characters were refused must still be accepted."""

    email: str = Field(max_length=320)
    password: str = Field(max_length=4096)


class SignOut(_Form):
    """A sign-out."""

    everywhere: Literal["", "yes"] = Field("", description="`yes` ends all sessions of the seller, not only this one.")


class Consent(_Form):
    """The seller's decision about an authorization request."""

    request: str = Field(max_length=100, description="The token of the consent request, from the page.")
    decision: Literal["agree", "refuse"]


class Withdrawal(_Form):
    """A withdrawal of one authorization."""

    grant: str = Field(max_length=100, description="The authorization's id, from the page.")
