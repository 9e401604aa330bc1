"""The statements that find what breaks a rule of the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.orders.status import LIVE

UNANSWERED_MS_MAX = 60_000
STUCK_MS_MAX = 86_400_000
PENDING_MS_MAX = 31 * 86_400_000
KEPT_MS_MIN = 29 * 86_400_000
"""What is pruned was kept for 30 days at least; a day is left for clocks that differ."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A statement that finds who breaks it: a seller (or NULL), a subject, and what the message's places say.

    The last parameter of one that is `timed` is now, in epoch milliseconds.
    """

    name: str
    message: str
    sql: str
    timed: bool = False


# Every rule of a page has its bounds: after ($1, $2), up to and with ($3, $4).
_ORDERS_OF_PAGE = "(o.seller_id, o.order_id) > ($1, $2) AND (o.seller_id, o.order_id) <= ($3, $4)"
_EVENTS_OF_PAGE = "(e.seller_id, e.order_id) > ($1, $2) AND (e.seller_id, e.order_id) <= ($3, $4)"
_CHAINS_OF_PAGE = "(c.seller_id, c.chain_id) > ($1, $2) AND (c.seller_id, c.chain_id) <= ($3, $4)"

_PAID = "('processed', 'refunded')"
_LIVE = ", ".join(f"'{status}'" for status in LIVE)

NEXT_ORDERS = """
SELECT seller_id, order_id FROM orders WHERE (seller_id, order_id) > ($1, $2)
 ORDER BY seller_id, order_id LIMIT $3"""

NEXT_CHAINS = """
SELECT seller_id, chain_id FROM token_chains WHERE (seller_id, chain_id) > ($1, $2)
 ORDER BY seller_id, chain_id LIMIT $3"""

HISTORIES = f"""
SELECT o.seller_id, o.order_id, o.status, o.status_detail, o.payment_status_detail, o.version,
       e.version, e.move, e.status, e.status_detail, e.payment_status_detail
  FROM orders o LEFT JOIN order_events e ON e.seller_id = o.seller_id AND e.order_id = o.order_id
 WHERE {_ORDERS_OF_PAGE} ORDER BY o.seller_id, o.order_id, e.version"""

ORDER_RULES = (
    Rule(
        "event_without_order",
        "version {0} has no order",
        f"""
        SELECT e.seller_id, e.order_id, e.version FROM order_events e
         WHERE {_EVENTS_OF_PAGE} AND NOT EXISTS (
               SELECT 1 FROM orders o WHERE o.seller_id = e.seller_id AND o.order_id = e.order_id)""",
    ),
    Rule(
        "payment_against_status",
        "is {0} and has {1} as paid",
        f"""
        SELECT o.seller_id, o.order_id, o.status, COALESCE(CAST(o.paid_minor AS text), 'nothing') FROM orders o
         WHERE {_ORDERS_OF_PAGE}
           AND ((o.status IN {_PAID} AND (o.paid_minor IS NULL OR o.paid_ms IS NULL))
                OR (o.status NOT IN {_PAID} AND o.paid_minor IS NOT NULL))""",
    ),
    Rule(
        "refunds_against_payment",
        "of {0} paid {1} is said to be given back and {2} reserved; its refunds are {3} processed and {4} processing",
        f"""
        SELECT seller_id, order_id, COALESCE(paid_minor, 0), refunded_minor, refunding_minor, processed, processing
          FROM (
               SELECT o.seller_id, o.order_id, o.payment_status_detail, o.paid_minor, o.refunded_minor,
                      o.refunding_minor,
                      (SELECT COALESCE(SUM(r.amount_minor), 0) FROM refunds r
                        WHERE r.seller_id = o.seller_id AND r.order_id = o.order_id AND r.status = 'processed'
                      ) AS processed,
                      (SELECT COALESCE(SUM(r.amount_minor), 0) FROM refunds r
                        WHERE r.seller_id = o.seller_id AND r.order_id = o.order_id AND r.status = 'processing'
                      ) AS processing
                 FROM orders o WHERE {_ORDERS_OF_PAGE}) sums
         WHERE refunded_minor <> processed OR refunding_minor <> processing
            OR processed + processing > COALESCE(paid_minor, 0)
            OR (payment_status_detail = 'accredited' AND processed > 0)
            OR (payment_status_detail = 'partially_refunded' AND (processed = 0 OR processed = paid_minor))
            OR (payment_status_detail = 'refunded' AND processed <> paid_minor)""",
    ),
    Rule(
        "refund_without_end",
        "refund {0} is {1}, and when it ended is {2}",
        f"""
        SELECT e.seller_id, e.order_id, e.refund_id, e.status, COALESCE(CAST(e.ended_ms AS text), 'not said')
          FROM refunds e WHERE {_EVENTS_OF_PAGE} AND (e.status = 'processing') = (e.ended_ms IS NOT NULL)""",
    ),
    Rule(
        "refund_without_order",
        "refund {0} has no order",
        f"""
        SELECT e.seller_id, e.order_id, e.refund_id FROM refunds e
         WHERE {_EVENTS_OF_PAGE} AND NOT EXISTS (
               SELECT 1 FROM orders o WHERE o.seller_id = e.seller_id AND o.order_id = e.order_id)""",
    ),
    # An approval is the order's payment, or it is reversed, or the acquirer is still to say or has said what is true.
    Rule(
        "approval_without_effect",
        "the approval of result {0} is neither its payment nor reversed",
        f"""
        SELECT o.seller_id, o.order_id, r.result_id FROM orders o
          JOIN results r ON r.seller_id = o.seller_id AND r.lease_id = SUBSTR(o.order_id, 4)
         WHERE {_ORDERS_OF_PAGE} AND r.outcome = 'approved'
           AND (r.verdict = 'late_approval' OR o.status NOT IN {_PAID})
           AND NOT EXISTS (SELECT 1 FROM reversals v
                            WHERE v.seller_id = r.seller_id AND v.lease_id = r.lease_id AND v.result_id = r.result_id)
           AND (r.verdict = 'late_approval'
                OR NOT EXISTS (SELECT 1 FROM inquiries i
                                WHERE i.seller_id = o.seller_id AND i.order_id = o.order_id
                                  AND (i.ended_ms IS NULL OR i.ended_ms >= r.created_ms)))""",
    ),
    Rule(
        "payment_given_back",
        "its own payment went back as the late approval of reversal {0}",
        f"""
        SELECT o.seller_id, o.order_id, v.reversal_id FROM orders o
          JOIN reversals v ON v.seller_id = o.seller_id AND v.order_id = o.order_id
         WHERE {_ORDERS_OF_PAGE} AND o.status IN {_PAID} AND v.status = 'reversed'
           AND (v.reference_id = '' OR v.reference_id = o.reference_id)""",
    ),
    Rule(
        "unknown_without_inquiry",
        "nobody knows its outcome, and nobody is or was to be asked",
        f"""
        SELECT o.seller_id, o.order_id FROM orders o
         WHERE {_ORDERS_OF_PAGE} AND o.payment_status_detail = 'check_on_terminal' AND NOT EXISTS (
               SELECT 1 FROM inquiries i WHERE i.seller_id = o.seller_id AND i.order_id = o.order_id)""",
    ),
    Rule(
        "approved_while_undone",
        "is {0}, and its payment is being undone as one that was not found",
        f"""
        SELECT o.seller_id, o.order_id, o.status FROM orders o
          JOIN inquiries i ON i.seller_id = o.seller_id AND i.order_id = o.order_id
         WHERE {_ORDERS_OF_PAGE} AND o.status IN {_PAID} AND i.reversing_ms IS NOT NULL
           AND (i.ended_ms IS NULL OR i.outcome = 'not_found')""",
    ),
    # What is given back is never the very payment that the order counts as paid.
    Rule(
        "payment_reversed",
        "its payment {0} counts as paid, and reversal {1} of it is {2}",
        f"""
        SELECT o.seller_id, o.order_id, o.reference_id, v.reversal_id, v.status FROM orders o
          JOIN results r ON r.seller_id = o.seller_id AND r.lease_id = SUBSTR(o.order_id, 4)
          JOIN reversals v ON v.seller_id = r.seller_id AND v.lease_id = r.lease_id AND v.result_id = r.result_id
         WHERE {_ORDERS_OF_PAGE} AND o.status IN {_PAID} AND r.outcome = 'approved' AND r.verdict = 'taken'
           AND v.status <> 'not_found'""",
    ),
    Rule(
        "approved_twice",
        "{0} approvals were taken as its one payment",
        f"""
        SELECT o.seller_id, o.order_id, COUNT(*) FROM orders o
          JOIN results r ON r.seller_id = o.seller_id AND r.lease_id = SUBSTR(o.order_id, 4)
         WHERE {_ORDERS_OF_PAGE} AND r.outcome = 'approved' AND r.verdict = 'taken'
         GROUP BY o.seller_id, o.order_id HAVING COUNT(*) > 1""",
    ),
    Rule(
        "reference_repeated",
        "has the reference of the payment of {0}",
        f"""
        SELECT o.seller_id, o.order_id, p.order_id FROM orders o
          JOIN payment_references p ON p.seller_id = o.seller_id AND p.live = o.live AND p.reference_id = o.reference_id
         WHERE {_ORDERS_OF_PAGE} AND p.order_id <> o.order_id""",
    ),
    # A delivery that ended long ago was pruned.
    Rule(
        "event_without_delivery",
        "version {0} was never to be delivered to subscription {1}",
        f"""
        SELECT o.seller_id, o.order_id, e.version, s.subscription_id FROM orders o
          JOIN order_events e ON e.seller_id = o.seller_id AND e.order_id = o.order_id
          JOIN subscriptions s ON s.application_id = o.application_id AND s.live = o.live
         WHERE {_ORDERS_OF_PAGE} AND s.topic = 'orders' AND s.deleted_ms IS NULL AND s.created_ms < e.created_ms
           AND e.created_ms > CAST($5 AS bigint) - {KEPT_MS_MIN}
           AND (s.actions = '[]' OR s.actions LIKE '%"' || e.action || '"%')
           AND NOT EXISTS (SELECT 1 FROM deliveries d
                            WHERE d.seller_id = e.seller_id AND d.order_id = e.order_id AND d.version = e.version
                              AND d.subscription_id = s.subscription_id)""",
        timed=True,
    ),
)

CHAIN_RULES = tuple(
    Rule(
        f"{table}_generations",
        f"of {{0}} generations {{1}} of {table} exist, from {{2}} to {{3}}",
        f"""
        SELECT c.seller_id, c.authorization_id, c.generation, COUNT(*), MIN(t.generation), MAX(t.generation)
          FROM token_chains c JOIN {table} t ON t.seller_id = c.seller_id AND t.chain_id = c.chain_id
         WHERE {_CHAINS_OF_PAGE}
         GROUP BY c.seller_id, c.chain_id, c.authorization_id, c.generation
        HAVING COUNT(*) <> MAX(t.generation) - MIN(t.generation) + 1 OR MAX(t.generation) <> c.generation""",
    )
    for table in ("access_tokens", "refresh_tokens")
)

# Each is one pass over a table, or over a small partial index.
WHOLE_RULES = (
    Rule(
        "live_orders_per_terminal",
        "has {0} live orders",
        f"""
        SELECT seller_id, terminal_id, COUNT(*) FROM orders WHERE status IN ({_LIVE})
         GROUP BY seller_id, terminal_id HAVING COUNT(*) > 1""",
    ),
    Rule(
        "chain_without_tokens",
        "a chain at generation {0} has no access token of that generation",
        """
        SELECT c.seller_id, c.authorization_id, c.generation FROM token_chains c
         WHERE c.revoked_ms IS NULL AND NOT EXISTS (
               SELECT 1 FROM access_tokens t
                WHERE t.seller_id = c.seller_id AND t.chain_id = c.chain_id AND t.generation = c.generation)""",
    ),
    # A chain that ended was pruned no sooner than so long after its code's exchange.
    Rule(
        "code_without_chain",
        "a code exchanged at {0} (epoch milliseconds) has no tokens",
        f"""
        SELECT k.seller_id, k.authorization_id, k.exchanged_ms FROM codes k
         WHERE k.exchanged_ms > CAST($1 AS bigint) - {KEPT_MS_MIN} AND NOT EXISTS (
               SELECT 1 FROM token_chains c WHERE c.seller_id = k.seller_id AND c.chain_id = k.chain_id)""",
        timed=True,
    ),
    Rule(
        "application_event_gap",
        "{0} events exist, numbered from {1} to {2}",
        """
        SELECT seller_id, 'application ' || CAST(application_id AS text), COUNT(*), MIN(version), MAX(version)
          FROM application_events GROUP BY seller_id, application_id
        HAVING COUNT(*) <> MAX(version) OR MIN(version) <> 1""",
    ),
    Rule(
        "withdrawn_without_event",
        "{0} authorizations were withdrawn, and {1} times the application was to be told",
        """
        SELECT seller_id, subject, withdrawn, told FROM (
               SELECT a.seller_id, 'application ' || CAST(a.application_id AS text) AS subject, COUNT(*) AS withdrawn,
                      (SELECT COUNT(*) FROM application_events e
                        WHERE e.seller_id = a.seller_id AND e.application_id = a.application_id
                          AND e.action = 'application.deauthorized') AS told
                 FROM authorizations a WHERE a.withdrawn_ms IS NOT NULL
                GROUP BY a.seller_id, a.application_id) sums
         WHERE withdrawn <> told""",
    ),
    Rule(
        "application_event_without_delivery",
        "event {0} was never to be delivered to subscription {1}",
        f"""
        SELECT e.seller_id, 'application ' || CAST(e.application_id AS text), e.version, s.subscription_id
          FROM application_events e JOIN subscriptions s ON s.application_id = e.application_id
         WHERE s.topic = 'mp-connect' AND s.deleted_ms IS NULL AND s.created_ms < e.created_ms
           AND e.created_ms > CAST($1 AS bigint) - {KEPT_MS_MIN}
           AND (s.actions = '[]' OR s.actions LIKE '%"' || e.action || '"%')
           AND NOT EXISTS (SELECT 1 FROM deliveries d
                            WHERE d.seller_id = e.seller_id AND d.order_id = CAST(e.application_id AS text)
                              AND d.version = e.version AND d.subscription_id = s.subscription_id)""",
        timed=True,
    ),
    *(
        Rule(
            f"{what}_stuck",
            "was to be brought on at {0} (epoch milliseconds)",
            f"""
            SELECT seller_id, order_id, next_ms FROM {table}
             WHERE {is_open} AND next_ms < CAST($1 AS bigint) - {STUCK_MS_MAX}""",
            timed=True,
        )
        for what, table, is_open in (
            ("inquiry", "inquiries", "ended_ms IS NULL"),
            ("reversal", "reversals", "status = 'pending'"),
        )
    ),
    # Nobody could say what it is to tell.
    Rule(
        "application_delivery_without_event",
        "is to tell of event {0} of application {1}, which does not exist",
        """
        SELECT d.seller_id, d.delivery_id, d.version, s.application_id
          FROM deliveries d JOIN subscriptions s ON s.subscription_id = d.subscription_id
         WHERE d.status = 'pending' AND s.topic = 'mp-connect' AND NOT EXISTS (
               SELECT 1 FROM application_events e
                WHERE e.seller_id = d.seller_id AND e.application_id = s.application_id
                  AND d.order_id = CAST(e.application_id AS text) AND e.version = d.version)""",
    ),
    Rule(
        "delivery_overdue",
        "has been pending since {0} (epoch milliseconds)",
        f"""
        SELECT seller_id, delivery_id, created_ms FROM deliveries
         WHERE status = 'pending' AND created_ms < CAST($1 AS bigint) - {PENDING_MS_MAX}""",
        timed=True,
    ),
    Rule(
        "key_without_answer",
        "a key of {0} has no answer",
        f"""
        SELECT seller_id, CASE WHEN object_id = '' THEN idempotency_key ELSE object_id END, operation
          FROM idempotency_keys
         WHERE (status IS NULL OR answer IS NULL)
           AND created_ms < CAST($1 AS bigint) - {UNANSWERED_MS_MAX}""",
        timed=True,
    ),
)

# What has no shared form.
INTEGRITY_RULES = {
    "sqlite": (
        Rule(
            "file_integrity",
            "{0}",
            "SELECT NULL, 'the file', integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
        ),
    ),
    "postgres": (
        Rule(
            "index_integrity",
            "is not valid: REINDEX it",
            "SELECT NULL, CAST(CAST(indexrelid AS regclass) AS text) FROM pg_index WHERE NOT indisvalid",
        ),
        Rule(
            "file_integrity",
            "{0} pages had a wrong checksum",
            """
            SELECT NULL, datname, checksum_failures FROM pg_stat_database
             WHERE datname = current_database() AND checksum_failures > 0""",
        ),
    ),
}
