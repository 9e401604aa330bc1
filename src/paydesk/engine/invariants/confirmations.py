"""Provisional approvals: each is decided on, and its payment follows the decision."""

from __future__ import annotations

from paydesk.engine.invariants.rule import ORDERS_OF_PAGE, PAID, STUCK_MS_MAX, Rule
from paydesk.engine.payments.lifecycles import CONFIRMED, CONFIRMING, PROCESSED, PROVISIONAL, REFUSED, REVERSED, UNDONE

_APPROVED = f"(c.{CONFIRMING} OR c.{CONFIRMED} OR c.{REFUSED})"
_OF_PAGE = f"""
  FROM orders o JOIN confirmations c ON c.seller_id = o.seller_id AND c.order_id = o.order_id
 WHERE {ORDERS_OF_PAGE}"""

PAGE_RULES = (
    Rule(
        "confirmation_without_payment",
        "its approval is {0}, but the order is {1}",
        f"SELECT o.seller_id, o.order_id, c.status, o.status {_OF_PAGE} AND {_APPROVED} AND o.status NOT IN {PAID}",
    ),
    # The acquirer may approve finally at once, and an operator may know more than the acquirer has said.
    Rule(
        "payment_without_confirmation",
        "the acquirer was asked for an approval that needs a confirmation, and the order is {0} without one",
        f"""
        SELECT o.seller_id, o.order_id, o.status FROM orders o
          JOIN lease_authorizations a ON a.seller_id = o.seller_id AND a.lease_id = SUBSTR(o.order_id, 4)
         WHERE {ORDERS_OF_PAGE} AND o.status IN {PAID} AND a.needs_confirmation = 1
           AND NOT EXISTS (SELECT 1 FROM leases l
                            WHERE l.seller_id = a.seller_id AND l.lease_id = a.lease_id
                              AND l.ended_by IN ('authorization', 'operator'))
           AND NOT EXISTS (SELECT 1 FROM confirmations c
                            WHERE c.seller_id = o.seller_id AND c.order_id = o.order_id AND {_APPROVED})""",
    ),
    # An inquiry reverses it, also one that an operator has ended; or a reversal does.
    Rule(
        "undone_without_reversal",
        "its approval is undone, but neither an inquiry nor a reversal reverses it",
        f"""
        SELECT o.seller_id, o.order_id {_OF_PAGE} AND c.{UNDONE}
           AND NOT EXISTS (SELECT 1 FROM inquiries i
                            WHERE i.seller_id = o.seller_id AND i.order_id = o.order_id
                              AND (i.ended_ms IS NULL OR i.outcome NOT IN ('approved', 'result')))
           AND NOT EXISTS (SELECT 1 FROM reversals v
                            WHERE v.seller_id = o.seller_id AND v.lease_id = SUBSTR(o.order_id, 4))""",
    ),
    Rule(
        "confirmed_and_reversed",
        "its approval is {0}, but it is reversed too",
        f"""
        SELECT o.seller_id, o.order_id, c.status {_OF_PAGE} AND (c.{CONFIRMING} OR c.{CONFIRMED})
           AND (EXISTS (SELECT 1 FROM reversals v
                         WHERE v.seller_id = o.seller_id AND v.lease_id = SUBSTR(o.order_id, 4) AND v.{REVERSED}
                           AND v.reference_id IN ('', c.reference_id))
                OR EXISTS (SELECT 1 FROM inquiries i
                            WHERE i.seller_id = o.seller_id AND i.order_id = o.order_id
                              AND i.reversing_ms IS NOT NULL AND (i.ended_ms IS NULL OR i.outcome = 'not_found')))""",
    ),
    Rule(
        "approval_undecided",
        "its approval of {0} (epoch milliseconds) is provisional, and the order is {1}",
        f"""
        SELECT o.seller_id, o.order_id, c.approved_ms, o.status {_OF_PAGE} AND c.{PROVISIONAL}
           AND (o.status NOT IN ('created', 'at_terminal') OR c.approved_ms < CAST($5 AS bigint) - {STUCK_MS_MAX})""",
        timed=True,
    ),
    # Before the confirmation the acquirer declines a refund, and of a payment that it refused nothing can be refunded.
    Rule(
        "refund_before_confirmation",
        "refund {0} was sent, but the approval is {1}",
        f"""
        SELECT o.seller_id, o.order_id, r.refund_id, c.status FROM orders o
          JOIN confirmations c ON c.seller_id = o.seller_id AND c.order_id = o.order_id
          JOIN refunds r ON r.seller_id = o.seller_id AND r.order_id = o.order_id
         WHERE {ORDERS_OF_PAGE} AND r.recorded_by IS NULL
           AND ((c.{CONFIRMING} AND r.attempts > 0) OR ((c.{CONFIRMING} OR c.{REFUSED}) AND r.{PROCESSED}))""",
    ),
)
