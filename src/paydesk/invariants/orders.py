"""Orders: their histories, their payments, and one live order for each terminal."""

from __future__ import annotations

from paydesk.invariants.rule import ORDERS_OF_PAGE, PAID, ROWS_OF_PAGE, Rule
from paydesk.orders.status import LIVE

_LIVE = ", ".join(f"'{status}'" for status in LIVE)

NEXT_ORDERS = """
SELECT seller_id, order_id FROM orders WHERE (seller_id, order_id) > ($1, $2)
 ORDER BY seller_id, order_id LIMIT $3"""

HISTORIES = f"""
SELECT o.seller_id, o.order_id, o.status, o.status_detail, o.payment_status_detail, o.version,
       e.version, e.move, e.status, e.status_detail, e.payment_status_detail
  FROM orders o LEFT JOIN order_events e ON e.seller_id = o.seller_id AND e.order_id = o.order_id
 WHERE {ORDERS_OF_PAGE} ORDER BY o.seller_id, o.order_id, e.version"""

PAGE_RULES = (
    *(
        Rule(
            f"{noun}_without_order",
            f"{subject} {{0}} has no order",
            f"""
            SELECT e.seller_id, e.order_id, e.{column} FROM {table} e
             WHERE {ROWS_OF_PAGE} AND NOT EXISTS (
                   SELECT 1 FROM orders o WHERE o.seller_id = e.seller_id AND o.order_id = e.order_id)""",
        )
        for noun, subject, table, column in (
            ("event", "version", "order_events", "version"),
            ("refund", "refund", "refunds", "refund_id"),
        )
    ),
    Rule(
        "payment_status_mismatch",
        "status is {0}, but the paid amount is {1}",
        f"""
        SELECT o.seller_id, o.order_id, o.status, COALESCE(CAST(o.paid_minor AS text), 'nothing') FROM orders o
         WHERE {ORDERS_OF_PAGE}
           AND ((o.status IN {PAID} AND (o.paid_minor IS NULL OR o.paid_ms IS NULL))
                OR (o.status NOT IN {PAID} AND o.paid_minor IS NOT NULL))""",
    ),
    Rule(
        "approved_twice",
        "{0} approvals were accepted as its one payment",
        f"""
        SELECT o.seller_id, o.order_id, COUNT(*) FROM orders o
          JOIN results r ON r.seller_id = o.seller_id AND r.lease_id = SUBSTR(o.order_id, 4)
         WHERE {ORDERS_OF_PAGE} AND r.outcome = 'approved' AND r.verdict = 'taken'
         GROUP BY o.seller_id, o.order_id HAVING COUNT(*) > 1""",
    ),
    Rule(
        "duplicate_reference",
        "has the payment reference of {0}",
        f"""
        SELECT o.seller_id, o.order_id, p.order_id FROM orders o
          JOIN payment_references p ON p.seller_id = o.seller_id AND p.live = o.live AND p.reference_id = o.reference_id
         WHERE {ORDERS_OF_PAGE} AND p.order_id <> o.order_id""",
    ),
)

WHOLE_RULES = (
    Rule(
        "live_orders_per_terminal",
        "has {0} live orders",
        f"""
        SELECT seller_id, terminal_id, COUNT(*) FROM orders WHERE status IN ({_LIVE})
         GROUP BY seller_id, terminal_id HAVING COUNT(*) > 1""",
    ),
)
