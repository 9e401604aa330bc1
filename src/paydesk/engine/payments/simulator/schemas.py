"""The request that moves a test order to a status."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from paydesk.core.model import Model, property_fault, rule_beside
from paydesk.engine.orders.schemas import PaymentType
from paydesk.engine.orders.status import FAILED_DETAILS

SIMULATED_DETAILS: dict[str, tuple[str, ...]] = {
    "processed": ("accredited",),
    "failed": FAILED_DETAILS,
    "canceled": ("canceled_on_terminal", "canceled_by_api"),
    "refunded": ("refunded",),
    "expired": ("expired",),
    "action_required": ("check_on_terminal",),
}
_EVERY_SIMULATED_DETAIL = [detail for details in SIMULATED_DETAILS.values() for detail in details]


# An invalid status is missing from the fields and has its own fault.
_ONLY_OF_PAYMENTS = rule_beside(
    "is only for the statuses processed and failed",
    lambda _, fields: fields.get("status", "processed") in ("processed", "failed"),
)


def _simulated_detail(text: str, info: ValidationInfo) -> str:
    details = SIMULATED_DETAILS.get(info.data.get("status", ""))
    if details is not None and text not in details:
        raise property_fault(f"must be one of {', '.join(details)} with this status")
    return text


class SimulatedRequest(Model):
    """`POST /v1/orders/{order_id}/events`: the status to bring a test order to, and the payment method."""

    status: Literal["processed", "failed", "canceled", "refunded", "expired", "action_required"]
    payment_method_type: Annotated[PaymentType, _ONLY_OF_PAYMENTS] | None = None
    payment_method_id: (
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$", examples=["visa"]), _ONLY_OF_PAYMENTS] | None
    ) = None
    installments: (
        Annotated[
            int,
            Field(ge=1, le=48),
            _ONLY_OF_PAYMENTS,
            rule_beside(
                "is only for the payment_method_type credit_card",
                lambda _, fields: fields.get("payment_method_type") in (None, "credit_card"),
            ),
        ]
        | None
    ) = None
    status_detail: (
        Annotated[
            str,
            AfterValidator(_simulated_detail),
            Field(examples=["accredited"], json_schema_extra={"enum": _EVERY_SIMULATED_DETAIL}),
        ]
        | None
    ) = None
