"""Orders: their histories, their payments, and one live order or one open print action for each terminal."""

from __future__ import annotations

from paydesk.engine.invariants.rule import ORDERS_OF_PAGE, PAID, ROWS_OF_PAGE, Rule
from paydesk.engine.orders.status import LIVE
from paydesk.engine.terminals.print_actions.action import PRINT_ACTIONS

_OPEN_ACTION = "(a.status = 'created' OR a.status = 'on_terminal')"
_ENDED = ", ".join(f"'{state.name}'" for state in PRINT_ACTIONS.final)
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
    # The notifications of operators are events without an order: they have the number of a thread in its place.
    *(
        Rule(
            f"{noun}_without_order",
            f"{subject} {{0}} has no order",
            f"""
            SELECT e.seller_id, e.order_id, e.{column} FROM {table} e
             WHERE {ROWS_OF_PAGE} AND e.order_id LIKE 'ORD%' AND NOT EXISTS (
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
    Rule(
        "print_actions_per_terminal",
        "has {0} open print actions",
        f"""
        SELECT seller_id, terminal_id, COUNT(*) FROM print_actions WHERE {PRINT_ACTIONS.open}
         GROUP BY seller_id, terminal_id HAVING COUNT(*) > 1""",
    ),
    Rule(
        "print_action_beside_order",
        "has the print action {0} and the live order {1}",
        f"""
        SELECT a.seller_id, a.terminal_id, a.action_id, o.order_id FROM print_actions a
          JOIN orders o ON o.seller_id = a.seller_id AND o.terminal_id = a.terminal_id AND o.status IN ({_LIVE})
         WHERE {_OPEN_ACTION}""",
    ),
    Rule(
        "print_action_without_slot",
        "has the open print action {0}, but its row has {1}",
        f"""
        SELECT a.seller_id, a.terminal_id, a.action_id, COALESCE(t.action_id, 'none') FROM print_actions a
          LEFT JOIN terminals t ON t.seller_id = a.seller_id AND t.terminal_id = a.terminal_id
         WHERE {_OPEN_ACTION} AND (t.action_id IS NULL OR t.action_id <> a.action_id)""",
    ),
    Rule(
        "slot_without_print_action",
        "has the print action {0} in its row, which is not open",
        f"""
        SELECT t.seller_id, t.terminal_id, t.action_id FROM terminals t
         WHERE t.action_id IS NOT NULL AND NOT EXISTS (
               SELECT 1 FROM print_actions a
                WHERE a.seller_id = t.seller_id AND a.action_id = t.action_id AND {_OPEN_ACTION})""",
    ),
    Rule(
        "ended_print_action_with_content",
        "{0}, but its content is not deleted",
        f"""
        SELECT seller_id, action_id, status FROM print_actions
         WHERE content IS NOT NULL AND status IN ({_ENDED})""",
    ),
)
