"""Notifications that wait, for how long they have been due, and how many subscriptions fail."""

from __future__ import annotations

from paydesk.engine.webhooks.delivery import store
from paydesk.engine.webhooks.schedule import PENDING
from paydesk.platform.metrics.database import COUNTED_MAX, DatabaseGauge, Moment, Sample
from paydesk.platform.storage.database import Transaction

FAILING = DatabaseGauge(
    "paydesk_subscriptions_failing", "Subscriptions whose last notification failed, also those that are paused."
)

# $1 is the mode. SQLite reads the tables of a CROSS JOIN in this order. `seller_id` is named for the index that has
# `created_ms`. The deliveries of a paused subscription wait for an operator.
PENDING_OF_MODE = f"""
SELECT COUNT(*), MIN(created_ms) FROM (
       SELECT d.created_ms FROM subscriptions s CROSS JOIN deliveries d
        WHERE s.live = $1 AND s.paused_ms IS NULL AND s.deleted_ms IS NULL
          AND d.subscription_id = s.subscription_id AND d.{PENDING} AND d.seller_id > 0
        LIMIT {COUNTED_MAX}) AS counted"""

COUNT_FAILING = "SELECT COUNT(*) FROM subscriptions WHERE failing_since_ms IS NOT NULL AND deleted_ms IS NULL"


async def _deliveries(tx: Transaction, moment: Moment) -> list[Sample]:
    samples = [moment.owed("webhooks.delivery", await store.next_due_ms(tx, 0))]
    for live in (1, 0):
        row = await tx.one(PENDING_OF_MODE, live)
        assert row is not None, "an aggregate has a row"
        samples += moment.jobs("delivery", live, *row)
    return samples


async def _failing(tx: Transaction, _: Moment) -> list[Sample]:
    row = await tx.one(COUNT_FAILING)
    assert row is not None, "an aggregate has a row"
    return [Sample(FAILING, (), row[0])]


READINGS = (_deliveries, _failing)
