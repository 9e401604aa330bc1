"""The rows that requests add to the simulator ledger, and the answers that rows stand for. Pure: no I/O."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace

import msgspec

from paydesk.engine.payments.acquirer import Approved, Card, Declined, Outcome, Payment, Unknown
from paydesk.engine.payments.simulator.faults import Plan
from paydesk.engine.payments.simulator.ledger import OTHER_AMOUNT, LedgerPayment, Movement

PROCESSING_ERROR = "processing_error"
ISSUER_DATA = bytes.fromhex("8a023030")
"""With a provisional approval: the authorization response code 00."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its key, how it is handled, and its time."""

    key: str
    plan: Plan
    now_ms: int

    def declined_unless(self, is_allowed: bool) -> Request:  # noqa: FBT001  # read as a sentence
        """Return the request; where it is not allowed, declined whatever its faults are."""
        if is_allowed:
            return self
        detail = self.plan.decline_detail or PROCESSING_ERROR
        return replace(self, plan=replace(self.plan, decline_detail=detail))


def ledger_payment(payment: Payment, plan: Plan, now_ms: int, *, live: int, card: Card | None = None) -> LedgerPayment:
    """Return the row of a payment that is final, or declined or of another amount as the plan says."""
    is_other = plan.is_other_amount and not plan.decline_detail
    return LedgerPayment(
        payment.merchant_id,
        payment.payment_id,
        payment.terminal_id,
        live,
        # Less, because a little more could be a tip.
        payment.amount_minor * 9 // 10 or 2 if is_other else payment.amount_minor,
        payment.currency,
        "declined" if plan.decline_detail else "approved",
        OTHER_AMOUNT if is_other else plan.decline_detail or None,
        _digits("payment", payment.payment_id, 14),
        None if plan.decline_detail else _digits("code", payment.payment_id, 6),
        msgspec.json.encode(asdict(card)).decode() if card is not None else None,
        payment.installments,
        now_ms + plan.late_ms,
        now_ms,
    )


def movement_of(kind: str, payment: Payment, request: Request, amount_minor: int) -> Movement:
    """Return the row of a refund, a reversal or a confirmation."""
    detail = request.plan.decline_detail
    return Movement(
        payment.merchant_id,
        request.key,
        kind,
        payment.payment_id,
        amount_minor,
        "declined" if detail else "approved",
        detail or None,
        _digits(kind, request.key, 14),
        request.now_ms + request.plan.late_ms,
        request.now_ms,
    )


def payment_outcome(row: LedgerPayment, now_ms: int) -> Approved | Declined:
    """Return the outcome of a payment."""
    state = row.state(now_ms)
    if state == "void":
        return Declined(PROCESSING_ERROR if row.detail in (None, OTHER_AMOUNT) else row.detail)
    return Approved(
        row.reference_id,
        row.amount_minor,
        row.authorization_code,
        msgspec.json.decode(row.card, type=Card) if row.card is not None else None,
        row.installments,
        currency=row.currency,
        key=row.payment_id,
        needs_confirmation=state == "provisional",
        issuer_data=ISSUER_DATA if state == "provisional" else b"",
    )


def movement_outcome(row: Movement, now_ms: int, currency: str) -> Outcome:
    """Return the outcome of a refund, a reversal or a confirmation, or `Unknown` where the answer is late."""
    if row.visible_ms > now_ms:
        return Unknown("the answer is late")
    if row.outcome != "approved":
        return Declined(row.detail or PROCESSING_ERROR)
    return Approved(row.reference_id, row.amount_minor, currency=currency, key=row.movement_key)


def _digits(kind: str, key: str, count: int) -> str:
    """Derive a number of `count` digits from the key. References have 14: no card number has that length."""
    number = int.from_bytes(hashlib.sha256(f"{kind}:{key}".encode()).digest()[:8], "big")
    least = 10 ** (count - 1) if count > 6 else 0
    return f"{least + number % (10**count - least):0{count}d}"
