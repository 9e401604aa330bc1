"""Notifications that wait, for how long the first has been due, and how many subscriptions fail."""

from __future__ import annotations

from paydesk.engine.webhooks.delivery import store
from paydesk.engine.webhooks.schedule import PENDING
from paydesk.platform.metrics.database import COUNTED_MAX, DatabaseGauge, Reading, jobs, owed

_FAILING = DatabaseGauge("paydesk_subscriptions_failing", "Subscriptions whose last notification failed.")

# SQLite reads the tables of a CROSS JOIN in this order. `seller_id` is named for the index that has `created_ms`.
# Notifications of a paused subscription wait for an operator.
PENDING_OF_MODE = f"""
SELECT COUNT(*), MIN(created_ms) FROM (
       SELECT d.created_ms FROM subscriptions s CROSS JOIN deliveries d
        WHERE s.live = $1 AND s.paused_ms IS NULL AND s.deleted_ms IS NULL
          AND d.subscription_id = s.subscription_id AND d.{PENDING} AND d.seller_id > 0
        LIMIT {COUNTED_MAX}) AS counted"""
FAILING = "SELECT COUNT(*) FROM subscriptions WHERE failing_since_ms IS NOT NULL AND deleted_ms IS NULL"

READINGS = (
    Reading(PENDING_OF_MODE, jobs("delivery", live=True), lambda *_: (1,)),
    Reading(PENDING_OF_MODE, jobs("delivery", live=False), lambda *_: (0,)),
    Reading(store.NEXT_DUE, owed("webhooks.delivery"), lambda *_: (0,)),
    Reading(FAILING, ((_FAILING, ()),)),
)
