"""A statement about one order does not pass a subscription's backlog, on PostgreSQL with and without statistics."""

from __future__ import annotations

import re
from typing import Any

import pytest

from paydesk.engine.webhooks.delivery import outcome_store, store
from paydesk.engine.webhooks.schemas import TOPIC
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Transaction

SUBSCRIPTION = "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"
SELLER, ORDERS, VERSIONS, NOW_MS = 1, 2000, 3, 1_800_000_000_000
DELIVERY = f"e0.{SUBSCRIPTION}"
ROWS_MAX = 50


BACKLOG = f"""
INSERT INTO deliveries (seller_id, delivery_id, subscription_id, order_id, version, status, attempts, next_ms,
                        claimed_until_ms, created_ms)
SELECT {SELLER}, 'e' || n || '.{SUBSCRIPTION}', '{SUBSCRIPTION}', 'ORD' || n / {VERSIONS}, n % {VERSIONS} + 1,
       'pending', 0, {NOW_MS} + n, 0, {NOW_MS} FROM generate_series(0, {ORDERS * VERSIONS} - 1) AS n
"""

RECEIVER = SELLER, SUBSCRIPTION
STATEMENTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "claim": (store.CLAIM[TOPIC], (*RECEIVER, NOW_MS + 10, NOW_MS, NOW_MS + 9, 5)),
    "defer": (store.DEFER, (*RECEIVER, NOW_MS + 10, NOW_MS)),
    "supersede": (store.SUPERSEDE, (*RECEIVER, NOW_MS + 10, NOW_MS)),
    "pull forward": (outcome_store.PULL_ORDER_FORWARD, (*RECEIVER, "ORD0", NOW_MS)),
    "defer later": (outcome_store.DEFER_LATER, (*RECEIVER, "ORD0", DELIVERY, NOW_MS + 9)),
    "superseded": (outcome_store.SUPERSEDED, (SELLER, DELIVERY, 0, NOW_MS)),
}


@pytest.mark.parametrize("analyzed", [False, True])
async def test_few_rows_are_read(postgres_url: str, analyzed: bool) -> None:  # noqa: FBT001 - a parameter
    """Rows that a step returns, and rows that it removes by a filter."""
    database = await open_database(postgres_url)
    await database.write(lambda tx: tx.run(BACKLOG))
    if analyzed:
        await database.write(lambda tx: tx.run("ANALYZE deliveries"))

    async def explained(tx: Transaction) -> dict[str, str]:
        plans = {}
        for name, (sql, args) in STATEMENTS.items():
            lines = await tx.all(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {sql}", *args)
            plans[name] = "\n".join(line[0] for line in lines)
        return plans

    plans = await database.write(explained)
    await database.close()
    passed = {
        name: max(
            float(rows) for rows in re.findall(r"actual rows=([\d.]+)|Filter: (\d+)", plan) for rows in rows if rows
        )
        for name, plan in plans.items()
    }
    assert [name for name, rows in passed.items() if rows > ROWS_MAX] == [], plans
