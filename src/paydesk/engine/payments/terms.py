"""The terms of an order's payment: the tips that its terminal offers, and the authorization that the service requested.

A terminal of kind `terminal` asks its acquirer itself, so only the approval says whether the buyer gave a tip. For a
terminal of kind `service` the service asks the acquirer, and what it requested is stored before.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import msgspec

from paydesk.engine.orders.order import Order
from paydesk.engine.payments.acquirer import Payment
from paydesk.engine.terminals.schemas import Kind
from paydesk.platform.storage.database import Transaction

# An order outlives its terminal, so the terminal may be missing.
FIND = """
SELECT t.kind, t.tip_percentages, t.store_id, t.pos_id, a.repeated_ms, a.needs_confirmation, a.digest, a.key_version,
       a.tip_minor, a.payment_method, a.card
  FROM orders o
  LEFT JOIN terminals t ON t.seller_id = o.seller_id AND t.terminal_id = o.terminal_id
  LEFT JOIN lease_authorizations a ON a.seller_id = o.seller_id AND a.lease_id = $3
 WHERE o.seller_id = $1 AND o.order_id = $2"""

REQUEST = """
INSERT INTO lease_authorizations (seller_id, lease_id, digest, key_version, tip_minor, payment_method, card, created_ms,
                                  needs_confirmation)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"""

REPEAT = """
UPDATE lease_authorizations SET repeated_ms = COALESCE(repeated_ms, $3) WHERE seller_id = $1 AND lease_id = $2"""

# The rules of other nodes may name another: later calls go where the payment is.
KEEP_ACQUIRER = "UPDATE orders SET acquirer = $3 WHERE seller_id = $1 AND order_id = $2 AND acquirer IS NULL"


@dataclass(frozen=True, slots=True)
class Requested:
    """The authorization that the service requested for a lease; `payment_method` and `card` are JSON.

    `digest` is keyed, and of the terminal's request without its session.
    """

    digest: bytes
    key_version: int
    tip_minor: int
    payment_method: str
    card: str


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one order's payment. `requested`: None if the service requested no authorization.

    `is_repeated`: more than one call to the acquirer was started for it, perhaps by several nodes.
    """

    kind: Kind = "terminal"
    tip_percentages: tuple[int, ...] = ()
    requested: Requested | None = None
    is_repeated: bool = False
    needs_confirmation: bool = False
    """The acquirer declared, at the request, that its approvals may be provisional."""
    store_id: str = ""
    """The terminal's store, and below its point of sale; "" if the terminal is gone."""
    pos_id: str = ""

    @property
    def requested_tip_minor(self) -> int:
        """Return the tip in the requested authorization; 0 without one."""
        return self.requested.tip_minor if self.requested is not None else 0

    def tip_minor_max(self, amount_minor: int) -> int:
        """Return the largest tip that the terminal offers for the amount, rounded up to a minor unit."""
        return -(-amount_minor * max(self.tip_percentages, default=0) // 100)

    def tip_of(self, order: Order, approved_minor: int) -> int | None:
        """Return the tip in an approved amount; None if the order does not allow the amount."""
        tip_minor = approved_minor - order.amount_minor
        if self.requested is not None:
            return tip_minor if tip_minor == self.requested.tip_minor else None
        return tip_minor if 0 <= tip_minor <= self.tip_minor_max(order.amount_minor) else None


NO_TERMS = Terms()


async def find(tx: Transaction, order: Order) -> Terms:
    """Return the terms of the order's payment."""
    row = await tx.one(FIND, order.seller_id, order.order_id, order.ulid)
    assert row is not None, "orders are never deleted"
    kind, percentages, store_id, pos_id, repeated_ms, needs_confirmation, digest, *requested = row
    return Terms(
        kind or "terminal",
        tuple(percentages_of(percentages)),
        None if digest is None else Requested(bytes(digest), *requested),
        is_repeated=repeated_ms is not None,
        needs_confirmation=bool(needs_confirmation),
        store_id=str(store_id or ""),
        pos_id=str(pos_id or ""),
    )


def payment_of(order: Order, terms: Terms = NO_TERMS) -> Payment:
    """Return the order's payment as the acquirer knows it.

    It has the amount and the method that were paid; before that those that the service requested, or the amount due.
    """
    method, tip_minor = order.payment_method, order.tip_minor or 0
    if order.paid_minor is None and terms.requested is not None:
        method, tip_minor = terms.requested.payment_method, terms.requested.tip_minor
    paid_by = {} if method is None else msgspec.json.decode(method)
    preferred = msgspec.json.decode(order.config).get("payment_method", {})
    return Payment(
        merchant_id=order.seller_id,
        terminal_id=order.terminal_id,
        payment_id=order.payment_id,
        amount_minor=order.amount_minor + tip_minor if order.paid_minor is None else order.paid_minor,
        currency=order.currency,
        installments=paid_by.get("installments") or 1,
        tip_minor=tip_minor,
        installments_cost=preferred.get("installments_cost"),
        external_reference=order.external_reference,
        method=paid_by.get("id", ""),
        method_type=paid_by.get("type", ""),
    )


async def request(
    tx: Transaction, order: Order, requested: Requested, now_ms: int, *, needs_confirmation: bool
) -> None:
    """Insert the authorization that is about to be requested. The order's row is locked and has none.

    `needs_confirmation`: the acquirer declares that its approvals may be provisional.
    """
    values = *astuple(requested), now_ms, int(needs_confirmation)
    await tx.run(REQUEST, order.seller_id, order.ulid, *values)


async def repeat(tx: Transaction, order: Order, now_ms: int) -> None:
    """Record that a further call to the acquirer is about to be started."""
    await tx.run(REPEAT, order.seller_id, order.ulid, now_ms)


async def keep_acquirer(tx: Transaction, order: Order, name: str) -> None:
    """Let the order keep this acquirer, unless it has one."""
    await tx.run(KEEP_ACQUIRER, order.seller_id, order.order_id, name)


def percentages_of(tip_percentages: str | None) -> list[int]:
    """Return the percentages in a terminal's column `tip_percentages`."""
    return msgspec.json.decode(tip_percentages, type=list[int]) if tip_percentages else []
