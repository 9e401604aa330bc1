"""The request that moves a test order to a status."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from paydesk.core.model import Model, property_fault
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


def _only_of_payments(value: Any, info: ValidationInfo) -> Any:
    # An invalid status is missing from the data and has its own fault.
    if info.data.get("status", "processed") not in ("processed", "failed"):
        raise property_fault("is only for the statuses processed and failed")
    return value


def _simulated_installments(count: int, info: ValidationInfo) -> int:
    if info.data.get("payment_method_type") not in (None, "credit_card"):
        raise property_fault("is only for the payment_method_type credit_card")
    return count


def _simulated_detail(text: str, info: ValidationInfo) -> str:
    details = SIMULATED_DETAILS.get(info.data.get("status", ""))
    if details is not None and text not in details:
        raise property_fault(f"must be one of {', '.join(details)} with this status")
    return text


class SimulatedRequest(Model):
    """`POST /v1/orders/{order_id}/events`: the status to bring a test order to, and the payment method."""

    status: Literal["processed", "failed", "canceled", "refunded", "expired", "action_required"]
    payment_method_type: Annotated[PaymentType, AfterValidator(_only_of_payments)] | None = None
    payment_method_id: (
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$", examples=["visa"]), AfterValidator(_only_of_payments)]
        | None
    ) = None
    installments: (
        Annotated[
            int,
            Field(ge=1, le=48),
            AfterValidator(_only_of_payments),
            AfterValidator(_simulated_installments),
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
