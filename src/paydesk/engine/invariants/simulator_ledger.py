"""The simulator ledger against orders and refunds."""

from __future__ import annotations

from paydesk.engine.invariants.rule import Rule
from paydesk.engine.payments.lifecycles import CONFIRMED, FAILED, PENDING, PROCESSED, PROVISIONAL, REFUSED, UNDONE

WHOLE_RULES = (
    # Not yet final: live orders, and orders with an open inquiry or a pending reversal. An approval that the acquirer
    # itself undoes at a deadline may not be reversed. A fault's approval of another amount ends as an operator says.
    Rule(
        "simulator_approval_mismatch",
        "approved {0} in the simulator ledger, but the order is {1} with a paid amount of {2}",
        f"""
        SELECT p.seller_id, p.payment_id, p.amount_minor, COALESCE(o.status, 'missing'),
               COALESCE(CAST(o.paid_minor AS text), 'nothing')
          FROM simulator_payments p
          LEFT JOIN orders o ON o.seller_id = p.seller_id AND o.order_id = 'ORD' || SUBSTR(p.payment_id, 4)
         WHERE p.outcome = 'approved' AND p.reversed_ms IS NULL
           AND NOT (p.confirmed_ms IS NULL AND p.confirm_until_ms IS NOT NULL AND p.at_deadline = 'undoes')
           AND (o.order_id IS NULL OR o.status IN ('failed', 'canceled')
                OR (o.status IN ('processed', 'refunded') AND COALESCE(o.paid_minor, 0) <> p.amount_minor))
           AND NOT EXISTS (SELECT 1 FROM inquiries i
                            WHERE i.seller_id = o.seller_id AND i.order_id = o.order_id
                              AND (i.ended_ms IS NULL OR (p.detail = 'other_amount' AND i.outcome = 'operator')))
           AND NOT EXISTS (SELECT 1 FROM reversals v
                            WHERE v.seller_id = o.seller_id AND v.lease_id = SUBSTR(o.order_id, 4)
                              AND v.{PENDING})""",
    ),
    Rule(
        "simulator_payment_mismatch",
        "the order is {0}, but the simulator {1}",
        f"""
        SELECT p.seller_id, p.payment_id, o.status,
               CASE WHEN p.outcome = 'approved' THEN 'reversed it' ELSE 'declined it' END
          FROM simulator_payments p
          JOIN orders o ON o.seller_id = p.seller_id AND o.order_id = 'ORD' || SUBSTR(p.payment_id, 4)
         WHERE o.status IN ('processed', 'refunded') AND (p.outcome = 'declined' OR p.reversed_ms IS NOT NULL)
           AND NOT EXISTS (SELECT 1 FROM confirmations c
                            WHERE c.seller_id = o.seller_id AND c.order_id = o.order_id AND c.{REFUSED})""",
    ),
    Rule(
        "simulator_confirmation_mismatch",
        "the confirmation is {0}, but the payment in the simulator ledger is {1}",
        f"""
        SELECT p.seller_id, p.payment_id, c.status,
               CASE WHEN p.confirmed_ms IS NULL THEN 'not confirmed' ELSE 'confirmed' END
          FROM simulator_payments p
          JOIN confirmations c ON c.seller_id = p.seller_id AND c.order_id = 'ORD' || SUBSTR(p.payment_id, 4)
         WHERE (p.confirmed_ms IS NOT NULL AND (c.{PROVISIONAL} OR c.{UNDONE}))
            OR (p.confirmed_ms IS NULL AND p.at_deadline IN ('undoes', 'blocks') AND c.{CONFIRMED})""",
    ),
    # A refund that is still processing may be in the simulator ledger already.
    Rule(
        "simulator_refund_mismatch",
        "refunded {0} in the simulator ledger, but the refund is {1} with an amount of {2}",
        f"""
        SELECT m.seller_id, m.movement_key, m.amount_minor, COALESCE(r.status, 'missing'),
               COALESCE(CAST(r.amount_minor AS text), 'nothing')
          FROM simulator_movements m
          LEFT JOIN refunds r ON r.seller_id = m.seller_id AND r.refund_id = m.movement_key
         WHERE m.kind = 'refund' AND m.outcome = 'approved'
           AND (r.refund_id IS NULL OR r.{FAILED} OR r.amount_minor <> m.amount_minor)""",
    ),
    Rule(
        "simulator_refund_missing",
        "refunded {0}, but the simulator ledger has no such refund",
        f"""
        SELECT r.seller_id, r.refund_id, r.amount_minor
          FROM refunds r
          JOIN simulator_payments p ON p.seller_id = r.seller_id AND p.payment_id = 'PAY' || SUBSTR(r.order_id, 4)
         WHERE r.{PROCESSED} AND NOT EXISTS (
               SELECT 1 FROM simulator_movements m
                WHERE m.seller_id = r.seller_id AND m.movement_key = r.refund_id
                  AND m.kind = 'refund' AND m.outcome = 'approved')""",
    ),
    Rule(
        "simulator_ledger_inconsistent",
        "{1} of {0} is refunded, but its refunds are {2}",
        """
        SELECT seller_id, payment_id, amount_minor, refunded_minor, moved FROM (
               SELECT p.seller_id, p.payment_id, p.amount_minor, p.refunded_minor,
                      (SELECT COALESCE(SUM(m.amount_minor), 0) FROM simulator_movements m
                        WHERE m.seller_id = p.seller_id AND m.payment_id = p.payment_id
                          AND m.kind = 'refund' AND m.outcome = 'approved') AS moved
                 FROM simulator_payments p) sums
         WHERE refunded_minor <> moved OR refunded_minor > amount_minor""",
    ),
)
