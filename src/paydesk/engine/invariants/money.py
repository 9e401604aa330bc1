"""Refunds, reversals, approvals and unknown outcomes."""

from __future__ import annotations

from paydesk.engine.invariants.rule import ORDERS_OF_PAGE, PAID, ROWS_OF_PAGE, STUCK_MS_MAX, Rule
from paydesk.engine.payments.lifecycles import (
    CONFIRMATIONS,
    INQUIRIES,
    NOT_FOUND,
    PROCESSED,
    PROCESSING,
    REFUNDS,
    REVERSALS,
    REVERSED,
)
from paydesk.engine.payments.refunds.attempts import UNCONFIRMED
from paydesk.engine.payments.reversal_store import BY_ACQUIRER

PAGE_RULES = (
    Rule(
        "refund_totals_mismatch",
        "of {0} paid {1} is refunded and {2} reserved, but its refunds are {3} processed and {4} processing",
        f"""
        SELECT seller_id, order_id, COALESCE(paid_minor, 0), refunded_minor, refunding_minor, processed, processing
          FROM (
               SELECT o.seller_id, o.order_id, o.payment_status_detail, o.paid_minor, o.refunded_minor,
                      o.refunding_minor,
                      (SELECT COALESCE(SUM(r.amount_minor), 0) FROM refunds r
                        WHERE r.seller_id = o.seller_id AND r.order_id = o.order_id AND r.{PROCESSED}
                      ) AS processed,
                      (SELECT COALESCE(SUM(r.amount_minor), 0) FROM refunds r
                        WHERE r.seller_id = o.seller_id AND r.order_id = o.order_id AND r.{PROCESSING}
                      ) AS processing
                 FROM orders o WHERE {ORDERS_OF_PAGE}) sums
         WHERE refunded_minor <> processed OR refunding_minor <> processing
            OR processed + processing > COALESCE(paid_minor, 0)
            OR (payment_status_detail = 'accredited' AND processed > 0)
            OR (payment_status_detail = 'partially_refunded' AND (processed = 0 OR processed = paid_minor))
            OR (payment_status_detail = 'refunded' AND processed <> paid_minor)""",
    ),
    Rule(
        "paid_amount_mismatch",
        "{0} is paid, but the amount is {1} and the tip {2}",
        f"""
        SELECT o.seller_id, o.order_id, o.paid_minor, o.amount_minor, COALESCE(o.tip_minor, 0) FROM orders o
         WHERE {ORDERS_OF_PAGE} AND o.paid_minor <> o.amount_minor + COALESCE(o.tip_minor, 0)""",
    ),
    Rule(
        "refund_without_end",
        "refund {0} is {1}, but its end is {2}",
        f"""
        SELECT e.seller_id, e.order_id, e.refund_id, e.status, COALESCE(CAST(e.ended_ms AS text), 'missing')
          FROM refunds e WHERE {ROWS_OF_PAGE} AND (e.{PROCESSING}) = (e.ended_ms IS NOT NULL)""",
    ),
    # An approval is the order's payment, or is reversed, or is decided by an inquiry.
    Rule(
        "approval_unaccounted",
        "the approval of result {0} is neither the payment nor reversed",
        f"""
        SELECT o.seller_id, o.order_id, r.result_id FROM orders o
          JOIN results r ON r.seller_id = o.seller_id AND r.lease_id = SUBSTR(o.order_id, 4)
         WHERE {ORDERS_OF_PAGE} AND r.outcome = 'approved'
           AND (r.verdict = 'late_approval' OR o.status NOT IN {PAID})
           AND NOT EXISTS (SELECT 1 FROM reversals v
                            WHERE v.seller_id = r.seller_id AND v.lease_id = r.lease_id
                              AND v.result_id IN (r.result_id, '{BY_ACQUIRER}'))
           AND (r.verdict = 'late_approval'
                OR NOT EXISTS (SELECT 1 FROM inquiries i
                                WHERE i.seller_id = o.seller_id AND i.order_id = o.order_id
                                  AND (i.ended_ms IS NULL OR i.ended_ms >= r.created_ms)))""",
    ),
    # A reversal is never of the payment that the order has, by its reference or by its result.
    Rule(
        "payment_reversed",
        "the order is paid by payment {0}, but reversal {1} of it is {2}",
        f"""
        SELECT o.seller_id, o.order_id, COALESCE(o.reference_id, 'without a reference'), v.reversal_id, v.status
          FROM orders o
          JOIN reversals v ON v.seller_id = o.seller_id AND v.lease_id = SUBSTR(o.order_id, 4)
         WHERE {ORDERS_OF_PAGE} AND o.status IN {PAID}
           AND ((v.{REVERSED} AND (v.reference_id = '' OR v.reference_id = o.reference_id))
                OR (NOT v.{NOT_FOUND} AND EXISTS (
                    SELECT 1 FROM results r
                     WHERE r.seller_id = v.seller_id AND r.lease_id = v.lease_id AND r.result_id = v.result_id
                       AND r.outcome = 'approved' AND r.verdict = 'taken')))""",
    ),
    Rule(
        "unknown_without_inquiry",
        "the outcome is unknown, but there is no inquiry",
        f"""
        SELECT o.seller_id, o.order_id FROM orders o
         WHERE {ORDERS_OF_PAGE} AND o.payment_status_detail = 'check_on_terminal' AND NOT EXISTS (
               SELECT 1 FROM inquiries i WHERE i.seller_id = o.seller_id AND i.order_id = o.order_id)""",
    ),
    Rule(
        "approved_while_reversing",
        "the order is {0}, but its inquiry reverses the payment",
        f"""
        SELECT o.seller_id, o.order_id, o.status FROM orders o
          JOIN inquiries i ON i.seller_id = o.seller_id AND i.order_id = o.order_id
         WHERE {ORDERS_OF_PAGE} AND o.status IN {PAID} AND i.reversing_ms IS NOT NULL
           AND (i.ended_ms IS NULL OR i.outcome = 'not_found')""",
    ),
)

WHOLE_RULES = (
    *(
        Rule(
            f"{job}_stuck",
            "overdue since {0} (epoch milliseconds)",
            f"""
            SELECT seller_id, order_id, next_ms FROM {lifecycle.table}
             WHERE {lifecycle.open} AND next_ms < CAST($1 AS bigint) - {STUCK_MS_MAX} AND {is_due}""",
            timed=True,
        )
        # What waits for a person is due at `NEVER_MS`.
        for job, lifecycle, is_due in (
            ("confirmation", CONFIRMATIONS, "TRUE"),
            ("inquiry", INQUIRIES, "TRUE"),
            # However long its payment's confirmation takes, a refund waits for it.
            ("refund", REFUNDS, f"NOT {UNCONFIRMED}"),
            ("reversal", REVERSALS, "TRUE"),
        )
    ),
)
