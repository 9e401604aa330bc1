"""The requests of the model: what is sent for each kind of them, and what its answer says as far as the model knows."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faults.scene import TerminalSeed
from model.world import Op, Told
from paydesk.core.money import minor_units
from service import approved, order_body

NO_ANSWER = 0
BY_APPLICATIONS = ("create", "get", "cancel", "ask_back", "refund", "refund_part")
CARDS = {"approved": "visa_approved", "declined": "insufficient_amount", "canceled": "late", "unknown": "no_answer"}
"""What a terminal takes to the acquirer, by what is drawn; the last two are approved, and nobody hears of it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came: the status, 0 where nothing came, the headers that matter, and the body."""

    status: int = NO_ANSWER
    raw: bytes = b""
    replayed: bool = False

    @property
    def unknown(self) -> bool:
        """Whether it happened or not is not known."""
        return self.status in (NO_ANSWER, 423) or self.status >= 500

    @property
    def body(self) -> Any:
        """The document."""
        return json.loads(self.raw) if self.raw else {}


def request_of(op: Op, seed: TerminalSeed) -> tuple[str, str, Any, str]:
    """Its method, path, body and token."""
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
    if op.kind == "give_back":
        return "POST", f"{lease}/cancel-result", {**boot, "done": True}
    step = "card_requested" if op.kind == "step" else "authorizing"
    return "POST", f"{lease}/progress", {**boot, "seq": op.number, "step": step}


def amount_of(amount_minor: int) -> str:
    """As it is written."""
    return f"{amount_minor / 100:.2f}"


def uuid_of(kind: int, number: int) -> str:
    """An id of its own for each of a kind."""
    return str(uuid.UUID(int=(kind << 64) + number + 1))


def content_of(op: Op) -> dict[str, Any]:
    """What a result says."""
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


def told_by(op: Op, answer: Answer) -> Told:
    """What the model makes of the answer."""
    body = answer.body
    if answer.status >= 400:
        return _refused(op, answer)
    if "config" in body:
        shown = shown_in(body)
        if op.kind != "create":
            return Told(answer.status, shown=shown)
        created_ms = round(datetime.fromisoformat(body["created_date"]).timestamp() * 1000)
        return Told(answer.status, shown=shown, names=(body["id"],), created_ms=created_ms)
    if "leases" in body:
        verdicts = tuple(f"{lease['lease_id'].upper()}:{lease['verdict']}" for lease in body["leases"])
        return Told(answer.status, names=verdicts)
    if "transactions" in body:
        return Told(answer.status, names=(body["transactions"]["refunds"][0]["status"],))
    order = body.get("order", {})
    return Told(answer.status, shown=(order["status"], order["status_detail"]) if order else ())


def _refused(op: Op, answer: Answer) -> Told:
    """Whose order is in the way is told, and whether it was the acquirer who did not want to."""
    body = answer.body
    details = [detail for error in body["errors"] for detail in error["details"]]
    names: tuple[str, ...] = ()
    if body["error"] == "already_queued_order_on_terminal" and details:
        names = (details[0].split()[0],)
    elif was_declined(op, answer):
        names = ("declined",)
    return Told(answer.status, body["error"], names=names)


def was_declined(op: Op, answer: Answer) -> bool:
    """Whether the acquirer declined the refund, which is an effect of its key."""
    return op.kind in ("refund", "refund_part") and b"the acquirer declined the refund" in answer.raw


def shown_in(document: dict[str, Any]) -> tuple[str, ...]:
    """The order in an answer: its status and details, its version, and what was given back."""
    payment = document["transactions"]["payments"][0]
    refunded = str(minor_units(payment.get("refunded_amount", "0"), 2))
    return document["status"], document["status_detail"], payment["status_detail"], str(document["version"]), refunded
