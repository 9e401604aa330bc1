"""Requests and responses about print actions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from paydesk.core.clock import rfc3339
from paydesk.core.model import Model, property_fault
from paydesk.core.response import Response, Time
from paydesk.core.text import card_numbers
from paydesk.engine.orders.schemas import ExternalReference
from paydesk.engine.terminals.print_actions import content as print_content
from paydesk.engine.terminals.print_actions import images as print_images
from paydesk.engine.terminals.print_actions.action import ActionStatus, PrintAction, Subtype
from paydesk.engine.terminals.schemas import EXAMPLE_TERMINAL_ID

CUSTOM_CHARACTERS_MIN, CUSTOM_CHARACTERS_MAX = 100, 4_096
BODY_BYTES_MAX = 1_100_000
EXAMPLE_TEXT = (
    "{center}{b}{w}Corner shop{/w}{/b}{br}Your coupon for the next visit{/center}{br}{br}"
    "10% off on everything until 31 March.{br}{center}{qr}https://shop.example/c/4711{/qr}{/center}"
)


def _content(content: str, info: ValidationInfo) -> str:
    config: ActionConfigRequest | None = info.data.get("config")
    # An invalid config is missing from the data and has its own fault.
    if config is None:
        return content
    try:
        if config.point.subtype == "image":
            print_images.check(content)
        else:
            _check_text(content)
    except (print_images.InvalidImage, print_content.InvalidContent) as error:
        raise property_fault(str(error)) from None
    return content


def _check_text(content: str) -> None:
    if not CUSTOM_CHARACTERS_MIN <= len(content) <= CUSTOM_CHARACTERS_MAX:
        raise property_fault(f"must have {CUSTOM_CHARACTERS_MIN} to {CUSTOM_CHARACTERS_MAX} characters")
    printed = print_content.printed_text(print_content.parse(content))
    if card_numbers.carries(content) or card_numbers.carries(printed):
        raise property_fault("must not contain a card number")


class ActionPointRequest(Model):
    """The terminal, and what kind of content it prints."""

    terminal_id: Annotated[str, Field(min_length=1, max_length=80, examples=[EXAMPLE_TERMINAL_ID])]
    subtype: Subtype


class ActionConfigRequest(Model):
    """Where and how the content is printed."""

    point: ActionPointRequest


class ActionRequest(Model):
    """`POST /terminals/v1/actions`."""

    type: Literal["print"]
    external_reference: ExternalReference
    config: ActionConfigRequest
    content: Annotated[
        str,
        AfterValidator(_content),
        Field(
            repr=False,
            examples=[EXAMPLE_TEXT],
            description=(
                "`custom`: a text of 100 to 4,096 characters with tags. `image`: a PNG or a JPEG in base64, at most"
                " 1,000 pixels wide and 5,000 high."
            ),
        ),
    ]


class ActionPointDocument(Response, frozen=True):
    """The terminal, and what kind of content it prints."""

    terminal_id: str
    subtype: Subtype


class ActionConfigDocument(Response, frozen=True):
    """Where and how the content is printed."""

    point: ActionPointDocument


class ActionDocument(Response, frozen=True):
    """A print action, without its content."""

    id: str
    type: Literal["print"]
    external_reference: str
    status: ActionStatus
    config: ActionConfigDocument
    created_date: Time
    last_updated_date: Time


def action_document(action: PrintAction) -> ActionDocument:
    """Return the action as applications see it."""
    return ActionDocument(
        id=action.action_id,
        type="print",
        external_reference=action.external_reference,
        status=action.status,
        config=ActionConfigDocument(ActionPointDocument(action.terminal_id, action.subtype)),
        created_date=rfc3339(action.created_ms),
        last_updated_date=rfc3339(action.updated_ms),
    )
