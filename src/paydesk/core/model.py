"""The base of all models of request bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

from paydesk.core import card_numbers


class Model(BaseModel):
    """A closed and strict model: unknown fields are refused, no value is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


def property_fault(rule: str) -> PydanticCustomError:
    """Return the error of a value that breaks the rule; `property_value` answers with it."""
    return PydanticCustomError("property_value", rule)


def rule(text: str, holds: Callable[[Any], object]) -> AfterValidator:
    """Return the annotation of a value for which `holds`; any other breaks the rule in `text`."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise property_fault(text)
        return value

    return AfterValidator(check)


NO_CARD_NUMBER = rule("must not contain a card number", lambda text: not card_numbers.carries(text))
