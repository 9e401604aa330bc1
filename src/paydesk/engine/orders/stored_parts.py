"""Parts of an order that are stored and sent as JSON: only the schemas of these types are used."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from paydesk.core.response import Response
from paydesk.engine.orders.schemas import InstallmentsCost, PayerCondition, PaymentType, PrintOnTerminal


class Tax(Response, frozen=True):
    """The tax condition of the sale."""

    payer_condition: PayerCondition


class OrderPoint(Response, frozen=True):
    """The terminal of an order, and its options."""

    terminal_id: str
    print_on_terminal: PrintOnTerminal
    ticket_number: str | None = None
    screen_time: str | None = None


class OrderPaymentMethod(Response, frozen=True):
    """How the buyer is asked to pay."""

    default_type: PaymentType | None = None
    default_installments: Annotated[int | str, Meta(description="As sent.")] | None = None
    installments_cost: InstallmentsCost | None = None


class OrderConfig(Response, frozen=True):
    """Options of the terminal and the payment method."""

    point: OrderPoint
    payment_method: OrderPaymentMethod | None = None


class Sponsor(Response, frozen=True):
    """The partner that referred the seller."""

    id: str | None = None


class IntegrationData(Response, frozen=True):
    """The application, and the integration that it named."""

    application_id: str
    platform_id: str | None = None
    integrator_id: str | None = None
    corporation_id: str | None = None
    sponsor: Sponsor | None = None


class PaymentMethodDocument(Response, frozen=True):
    """How the buyer paid."""

    id: str | None = None
    type: str | None = None
    installments: int | None = None


class CardDocument(Response, frozen=True):
    """The card, masked, and how it was read."""

    first_digits: str | None = None
    last_digits: str | None = None
    entry_mode: str | None = None
