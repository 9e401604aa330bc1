"""Events: their numbers in the feeds, their deliveries, and the application events of consents."""

from __future__ import annotations

from paydesk.engine.invariants.rule import KEPT_MS_MIN, ORDERS_OF_PAGE, ROWS_OF_PAGE, STUCK_MS_MAX, Rule
from paydesk.engine.webhooks.schedule import PARKED_MS, PENDING, SUPERSEDED

PENDING_MS_MAX = 31 * 86_400_000

_FEED = "'feed of application ' || CAST(application_id AS text) || CASE WHEN live = 1 THEN ', live' ELSE ', test' END"

PAGE_RULES = (
    # A client that read an event of an order has read the earlier ones.
    Rule(
        "event_out_of_order",
        "version {0} has number {1} in its feed, but the previous version has {2}",
        f"""
        SELECT e.seller_id, e.order_id, e.version, e.number, COALESCE(CAST(b.number AS text), 'none')
          FROM order_events e
          JOIN order_events b ON b.seller_id = e.seller_id AND b.order_id = e.order_id AND b.version = e.version - 1
         WHERE {ROWS_OF_PAGE} AND e.number IS NOT NULL AND (b.number IS NULL OR b.number >= e.number)""",
    ),
    Rule(
        "event_in_wrong_feed",
        "version {0} is in the feed of application {1}, but the order belongs to application {2}",
        f"""
        SELECT o.seller_id, o.order_id, e.version, e.application_id, o.application_id
          FROM orders o JOIN order_events e ON e.seller_id = o.seller_id AND e.order_id = o.order_id
         WHERE {ORDERS_OF_PAGE} AND (e.application_id <> o.application_id OR e.live <> o.live)""",
    ),
    # Old deliveries are pruned, so only recent events are checked.
    Rule(
        "event_without_delivery",
        "version {0} has no delivery to subscription {1}",
        f"""
        SELECT o.seller_id, o.order_id, e.version, s.subscription_id FROM orders o
          JOIN order_events e ON e.seller_id = o.seller_id AND e.order_id = o.order_id
          JOIN subscriptions s ON s.application_id = o.application_id AND s.live = o.live
         WHERE {ORDERS_OF_PAGE} AND s.topic = 'orders' AND s.deleted_ms IS NULL
           AND COALESCE(s.actions_ms, s.created_ms) < e.created_ms
           AND e.created_ms > CAST($5 AS bigint) - {KEPT_MS_MIN}
           AND (s.actions = '[]' OR s.actions LIKE '%"' || e.action || '"%')
           AND NOT EXISTS (SELECT 1 FROM deliveries d
                            WHERE d.seller_id = e.seller_id AND d.order_id = e.order_id AND d.version = e.version
                              AND d.subscription_id = s.subscription_id)""",
        timed=True,
    ),
)

WHOLE_RULES = (
    # A gap would hide an event from clients; a duplicate number would deliver one twice.
    Rule(
        "event_number_gap",
        "{0} events have {1} numbers, from {2} to {3}; the counter is at {4}",
        f"""
        SELECT seller_id, {_FEED}, events, numbers, least, most, given FROM (
               SELECT e.seller_id, e.application_id, e.live, COUNT(*) AS events, COUNT(DISTINCT e.number) AS numbers,
                      MIN(e.number) AS least, MAX(e.number) AS most,
                      COALESCE((SELECT c.last_number FROM event_counters c
                                 WHERE c.seller_id = e.seller_id AND c.application_id = e.application_id
                                   AND c.live = e.live), 0) AS given,
                      COALESCE((SELECT c.reset_number FROM event_counters c
                                 WHERE c.seller_id = e.seller_id AND c.application_id = e.application_id
                                   AND c.live = e.live), 0) AS removed
                 FROM order_events e WHERE e.number IS NOT NULL
                GROUP BY e.seller_id, e.application_id, e.live) feeds
         WHERE events <> numbers OR least <> removed + 1 OR most <> removed + numbers OR given <> most""",
    ),
    Rule(
        "event_numbers_missing",
        "the counter is at {0}, but no event has a number",
        f"""
        SELECT c.seller_id, {_FEED}, c.last_number FROM event_counters c
         WHERE c.last_number > c.reset_number AND NOT EXISTS (
               SELECT 1 FROM order_events e
                WHERE e.seller_id = c.seller_id AND e.application_id = c.application_id AND e.live = c.live
                  AND e.number IS NOT NULL)""",
    ),
    Rule(
        "event_stuck",
        "version {0} has had no number since {1} (epoch milliseconds)",
        f"""
        SELECT seller_id, order_id, version, created_ms FROM order_events
         WHERE number IS NULL AND created_ms < CAST($1 AS bigint) - {STUCK_MS_MAX}""",
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
        "{0} authorizations were withdrawn, but there are {1} events of it",
        """
        SELECT seller_id, subject, withdrawn, events FROM (
               SELECT a.seller_id, 'application ' || CAST(a.application_id AS text) AS subject, COUNT(*) AS withdrawn,
                      (SELECT COUNT(*) FROM application_events e
                        WHERE e.seller_id = a.seller_id AND e.application_id = a.application_id
                          AND e.action = 'application.deauthorized') AS events
                 FROM authorizations a WHERE a.withdrawn_ms IS NOT NULL
                GROUP BY a.seller_id, a.application_id) sums
         WHERE withdrawn <> events""",
    ),
    Rule(
        "application_event_without_delivery",
        "event {0} has no delivery to subscription {1}",
        f"""
        SELECT e.seller_id, 'application ' || CAST(e.application_id AS text), e.version, s.subscription_id
          FROM application_events e JOIN subscriptions s ON s.application_id = e.application_id
         WHERE s.topic = 'mp-connect' AND s.deleted_ms IS NULL AND COALESCE(s.actions_ms, s.created_ms) < e.created_ms
           AND e.created_ms > CAST($1 AS bigint) - {KEPT_MS_MIN}
           AND (s.actions = '[]' OR s.actions LIKE '%"' || e.action || '"%')
           AND NOT EXISTS (SELECT 1 FROM deliveries d
                            WHERE d.seller_id = e.seller_id AND d.order_id = CAST(e.application_id AS text)
                              AND d.version = e.version AND d.subscription_id = s.subscription_id)""",
        timed=True,
    ),
    # The delivery would have no body.
    Rule(
        "application_delivery_without_event",
        "is about event {0} of application {1}, which does not exist",
        f"""
        SELECT d.seller_id, d.delivery_id, d.version, s.application_id
          FROM deliveries d JOIN subscriptions s ON s.subscription_id = d.subscription_id
         WHERE d.{PENDING} AND s.topic = 'mp-connect' AND NOT EXISTS (
               SELECT 1 FROM application_events e
                WHERE e.seller_id = d.seller_id AND e.application_id = s.application_id
                  AND d.order_id = CAST(e.application_id AS text) AND e.version = d.version)""",
    ),
    # Replayed deliveries, and those of a subscription that was resumed, may be older, but are due again.
    Rule(
        "delivery_overdue",
        "pending since {0} (epoch milliseconds)",
        f"""
        SELECT seller_id, delivery_id, created_ms FROM deliveries
         WHERE {PENDING} AND created_ms < CAST($1 AS bigint) - {PENDING_MS_MAX}
           AND (next_ms < CAST($1 AS bigint) - {PENDING_MS_MAX} OR next_ms >= {PARKED_MS})""",
        timed=True,
    ),
    # The newer one ends later, so it is pruned later.
    Rule(
        "superseded_without_newer",
        "version {0} was superseded, but there is no newer one",
        f"""
        SELECT d.seller_id, d.delivery_id, d.version FROM deliveries d
         WHERE d.{SUPERSEDED} AND NOT EXISTS (
               SELECT 1 FROM deliveries n
                WHERE n.seller_id = d.seller_id AND n.order_id = d.order_id AND n.version > d.version
                  AND n.subscription_id = d.subscription_id)""",
    ),
    Rule(
        "pause_without_actor",
        "has paused_ms {0} and paused_by {1}",
        """
        SELECT 0, subscription_id, COALESCE(CAST(paused_ms AS text), 'none'), COALESCE(paused_by, 'none')
          FROM subscriptions WHERE (paused_ms IS NULL) <> (paused_by IS NULL)""",
    ),
)
