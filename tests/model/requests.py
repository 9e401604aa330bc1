"""The requests of the model, and their responses as far as the model predicts them."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faults.scene import TerminalSeed
from model.world import Op, Response
from paydesk.core.money import minor_units
from service import approved, order_body

NO_ANSWER = 0
BY_APPLICATIONS = ("create", "get", "cancel", "cancel_at_terminal", "refund", "refund_part")
CARDS = {"approved": "visa_approved", "declined": "insufficient_amount", "canceled": "late", "unknown": "no_answer"}
"""The card for each drawn content; the last two are approved without a response."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: the status, 0 without one, the relevant header, and the body."""

    status: int = NO_ANSWER
    raw: bytes = b""
    replayed: bool = False

    @property
    def unknown(self) -> bool:
        """Return whether it is unknown that the request was handled."""
        return self.status in (NO_ANSWER, 423) or self.status >= 500

    @property
    def body(self) -> Any:
        """Return the parsed body."""
        return json.loads(self.raw) if self.raw else {}


def request_of(op: Op, seed: TerminalSeed) -> tuple[str, str, Any, str]:
    """Return the method, path, body and token."""
    if op.kind in BY_APPLICATIONS:
        return *_of_application(op, seed), seed.access_token
    method, path, body = _of_terminal(op, {"boot_id": uuid_of(op.terminal, op.session)})
    return method, f"/device/v1{path}", body, seed.device_token


def _of_application(op: Op, seed: TerminalSeed) -> tuple[str, str, Any]:
    path = f"/v1/orders/{op.order_id}"
    if op.kind == "create":
        fields = {"external_reference": f"ref-{op.number}", "expiration_time": f"PT{op.seconds}S"}
        return "POST", "/v1/orders", order_body(seed.terminal_id, amount_of(op.amount_minor), **fields)
    if op.kind in ("refund", "refund_part"):
        part = {"id": f"PAY{op.order_id[3:]}", "amount": amount_of(op.amount_minor)}
        return "POST", f"{path}/refund", {"transactions": [part]} if op.amount_minor else None
    return ("GET", path, None) if op.kind == "get" else ("POST", f"{path}/cancel", None)


def _of_terminal(op: Op, boot: dict[str, Any]) -> tuple[str, str, Any]:
    lease = f"/leases/{op.order_id[3:]}"
    if op.kind == "hello":
        journal = [{"lease_id": op.order_id[3:], "last_step": op.last_step}] if op.order_id else []
        return "POST", "/hello", {**boot, "app_version": "1", "journal": journal}
    if op.kind == "result":
        return "PUT", f"{lease}/results/{uuid_of(9, op.number)}", {**boot, **content_of(op)}
    if op.kind == "ack":
        return "POST", f"{lease}/ack", boot
    if op.kind == "release":
        return "POST", f"{lease}/cancel-result", {**boot, "done": True}
    step = "card_requested" if op.kind == "step" else "authorizing"
    return "POST", f"{lease}/progress", {**boot, "seq": op.number, "step": step}


def amount_of(amount_minor: int) -> str:
    """Return the decimal string."""
    return f"{amount_minor / 100:.2f}"


def uuid_of(kind: int, number: int) -> str:
    """Return a distinct id for each number of a kind."""
    return str(uuid.UUID(int=(kind << 64) + number + 1))


def content_of(op: Op) -> dict[str, Any]:
    """Return the content of a result."""
    match op.content:
        case "approved" | "approved_less":
            paid_minor = op.amount_minor - (0 if op.content == "approved" else 90)
            return {**approved(amount_of(paid_minor)), "reference_id": op.reference}
        case "declined":
            return {"outcome": "declined", "status_detail": op.detail}
        case "canceled":
            return {"outcome": "canceled", "status_detail": "canceled_on_terminal"}
        case "unknown":
            return {"outcome": "unknown"}


def response_of(op: Op, answer: Answer) -> Response:
    """Return the response as the model predicts it."""
    body = answer.body
    if answer.status >= 400:
        return _refused(op, answer)
    if "config" in body:
        shown = shown_in(body)
        if op.kind != "create":
            return Response(answer.status, shown=shown)
        created_ms = round(datetime.fromisoformat(body["created_date"]).timestamp() * 1000)
        return Response(answer.status, shown=shown, names=(body["id"],), created_ms=created_ms)
    if "leases" in body:
        verdicts = tuple(f"{lease['lease_id'].upper()}:{lease['verdict']}" for lease in body["leases"])
        return Response(answer.status, names=verdicts)
    if "transactions" in body:
        return Response(answer.status, names=(body["transactions"]["refunds"][0]["status"],))
    order = body.get("order", {})
    return Response(answer.status, shown=(order["status"], order["status_detail"]) if order else ())


def _refused(op: Op, answer: Answer) -> Response:
    """Return the refusal, with the conflicting order's id or whether the acquirer declined."""
    body = answer.body
    details = [detail for error in body["errors"] for detail in error["details"]]
    names: tuple[str, ...] = ()
    if body["error"] == "already_queued_order_on_terminal" and details:
        names = (details[0].split()[0],)
    elif was_declined(op, answer):
        names = ("declined",)
    return Response(answer.status, body["error"], names=names)


def was_declined(op: Op, answer: Answer) -> bool:
    """Return whether the acquirer declined the refund, which is stored under its key."""
    return op.kind in ("refund", "refund_part") and b"the acquirer declined the refund" in answer.raw


def shown_in(document: dict[str, Any]) -> tuple[str, ...]:
    """Return the order in a response: status, details, version and refunded amount."""
    payment = document["transactions"]["payments"][0]
    refunded = str(minor_units(payment.get("refunded_amount", "0"), 2))
    return document["status"], document["status_detail"], payment["status_detail"], str(document["version"]), refunded
