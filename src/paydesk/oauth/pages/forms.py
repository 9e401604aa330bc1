"""The forms of the pages, closed to further fields."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Form(BaseModel):
    """What every form carries: a token that shows it is ours, and where to go on afterwards."""

    model_config = ConfigDict(extra="forbid")

    form_token: str = Field(max_length=100, description="From the page that shows the form.")
    return_to: str = Field("", description="The page of this service to go on with.")


class SignIn(_Form):
    """Who signs in."""

    INVISIBLE_ALLOWED: ClassVar[frozenset[str]] = frozenset({"password"})
    """A password that was set before invisible characters were refused must still be accepted."""

    email: str = Field(max_length=320)
    password: str = Field(max_length=4096)


class SignOut(_Form):
    """Where the seller is signed out."""

    everywhere: Literal["", "yes"] = Field("", description="`yes` ends all sessions of the seller, not this one alone.")


class Consent(_Form):
    """What the seller decided."""

    request: str = Field(max_length=100, description="What was asked, from the page that asks it.")
    decision: Literal["agree", "refuse"]


class Withdrawal(_Form):
    """Whose consent is taken back."""

    grant: str = Field(max_length=100, description="The authorization's id, from the page.")
