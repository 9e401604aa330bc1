"""The base of all models of request bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import AfterValidator, BaseModel, ConfigDict, GetPydanticSchema, ValidationInfo
from pydantic_core import PydanticCustomError, core_schema

from paydesk.core.text import card_numbers


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


def rule_beside(text: str, holds: Callable[[Any, Mapping[str, Any]], object]) -> AfterValidator:
    """Return the annotation of a value for which `holds` beside the valid fields before it; see `rule`."""

    def check(value: Any, info: ValidationInfo) -> Any:
        if not holds(value, info.data):
            raise property_fault(text)
        return value

    return AfterValidator(check)


CHOICE_FAULT = "choice"


def choice_rule(text: str) -> GetPydanticSchema:
    """Return the annotation of an enumeration of texts whose fault is described by the rule in `text`."""
    return GetPydanticSchema(
        lambda source, handler: core_schema.custom_error_schema(
            handler(source), custom_error_type=CHOICE_FAULT, custom_error_message=text
        )
    )


NO_CARD_NUMBER = rule("must not contain a card number", lambda text: not card_numbers.carries(text))
REFERENCES_CHECKED = "references_checked"
"""The key of the validation context that refuses identifiers that look like a card number."""


def _identifier(text: str, info: ValidationInfo) -> str:
    if info.context and info.context.get(REFERENCES_CHECKED) and card_numbers.carried_by_reference(text):
        raise property_fault("must not contain a card number")
    return text


IDENTIFIER = AfterValidator(_identifier)
"""Refuses what looks like a card number if the setting `card_numbers_refused_in_references` is on."""
