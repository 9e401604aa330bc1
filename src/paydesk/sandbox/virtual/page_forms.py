"""The forms of the page of a virtual terminal; unknown fields are refused. The key of the page is in each."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from paydesk.sandbox.terminals.actions import Action, ActionName, Key

KEY_CHARACTERS_MAX = 100


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid")

    key: str = Field("", max_length=KEY_CHARACTERS_MAX, repr=False, description="The key of the page.")


class ActionForm(_Form):
    """What a person does at the terminal. Each field but `action` is for some actions only."""

    action: ActionName
    card: str = Field("", max_length=40)
    digits: str = Field("", pattern="^[0-9]{0,12}$", repr=False)
    value: int | None = Field(None, ge=0, le=99)
    press: Key | Literal[""] = ""
    seconds: float | None = Field(None, gt=0, le=3600)
    script: str = Field("", max_length=200)

    def as_action(self) -> Action:
        """Return the action for the terminal."""
        return Action(
            self.action, self.card, self.digits, self.value, self.press or None, self.seconds, self.script.strip()
        )


class OrderForm(_Form):
    """A new test order for the terminal."""

    amount: str = Field(max_length=20)
    description: str = Field("", max_length=200)
