"""The statements of lists of webhook subscriptions, with the numbers of their deliveries."""

from __future__ import annotations

from dataclasses import fields

from paydesk.engine.webhooks.schedule import EXHAUSTED
from paydesk.engine.webhooks.schemas import TOPIC_OF
from paydesk.engine.webhooks.subscriptions.backlog import EXHAUSTED_COUNT, PENDING_COUNT
from paydesk.engine.webhooks.subscriptions.store import EVERY_APPLICATION, Subscription
from paydesk.platform.storage.database import Row

_NAMES = [field.name for field in fields(Subscription)]

# Paused after failures; failing, or with exhausted deliveries; paused by an operator; all others.
_URGENCY = f"""CASE WHEN all_of.paused_ms IS NOT NULL AND all_of.paused_by = 'failures' THEN 0
            WHEN all_of.paused_ms IS NULL
             AND (all_of.failing_since_ms IS NOT NULL
                  OR EXISTS (SELECT 1 FROM deliveries d
                              WHERE d.subscription_id = all_of.subscription_id AND d.{EXHAUSTED})) THEN 1
            WHEN all_of.paused_ms IS NOT NULL THEN 2 ELSE 3 END"""


def _statement(key: str, urgency: str, after: str, limit: str, application: str) -> str:
    """Return the statement of a list whose rows begin with their key."""
    columns = ", ".join(TOPIC_OF.format("s.") if name == "topic" else f"s.{name}" for name in _NAMES)
    return f"""
SELECT {key}, {columns},
       {PENDING_COUNT}, {EXHAUSTED_COUNT}
  FROM (SELECT ranked.* FROM (
               SELECT all_of.*{urgency} FROM subscriptions all_of
                WHERE all_of.deleted_ms IS NULL
                  AND (CAST({application} AS bigint) = {EVERY_APPLICATION} OR all_of.application_id = {application})
               ) AS ranked
         WHERE {after} ORDER BY {key.replace("s.", "ranked.")} LIMIT {limit}) AS s
 ORDER BY {key}"""


BY_ID = _statement("s.subscription_id", "", "ranked.subscription_id > $1", "$2", "$3")

# There are few subscriptions: the urgency of all of them is found, with one look at an index for each.
BY_URGENCY = _statement(
    "s.urgency, s.subscription_id",
    f", {_URGENCY} AS urgency",
    "(ranked.urgency > $1 OR (ranked.urgency = $1 AND ranked.subscription_id > $2))",
    "$3",
    "$4",
)


def listed(row: Row) -> tuple[Subscription, int, int]:
    """Return a row of `BY_ID` or `BY_URGENCY`: the subscription, and its pending and exhausted deliveries."""
    *columns, pending, exhausted = row[-len(_NAMES) - 2 :]
    return Subscription(*columns), pending, exhausted
