"""Statements of resends, replays and operators' deliveries find their rows by an index, on SQLite."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from paydesk.engine.webhooks.delivery import replaying, resend_store
from paydesk.engine.webhooks.subscriptions import backlog
from paydesk.operators import owners
from paydesk.operators.deliveries import handlers as deliveries
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Row, Transaction
from tables import each

SUBSCRIPTION = "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"
ORDER = "ORD01J67CQQH5904WDBVZEM4JMEP3"
STATEMENTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "request": (resend_store.REQUEST, (1, "a", 1)),
    "claim": (resend_store.CLAIM["orders"], (1, SUBSCRIPTION, 1, 1, 5)),
    "claim consents": (resend_store.CLAIM["mp-connect"], (1, SUBSCRIPTION, 1, 1, 5)),
    "drop": (resend_store.DROP, (1, SUBSCRIPTION, 1)),
    "replay order": (replaying.REPLAY_ORDER, (1, ORDER, SUBSCRIPTION, 1, 1)),
    "subscriptions of order": (replaying.SUBSCRIPTIONS_OF_ORDER, (1, ORDER, 1)),
    "next seller": (replaying.NEXT_SELLER, (SUBSCRIPTION, 1)),
    "replay step": (replaying.REPLAY_STEP, (1, SUBSCRIPTION, 1, 1, "", 0, 5)),
    "counts": (backlog.COUNTS, (SUBSCRIPTION, SUBSCRIPTION)),
    "owner of delivery": (deliveries.OWNER, ("a",)),
    "owner of order": (owners.OWNER, (ORDER,)),
    "delivery": (deliveries.DELIVERY, (1, "a")),
    "deliveries of order": (deliveries.OF_ORDER, (1, ORDER, "", "", 1)),
    "attempts": (deliveries.ATTEMPTS, (1, "a")),
    "notification": (deliveries.NOTIFICATION["orders"], (1, "a")),
}
SMALL = {"s", "chosen", "owners", "counted"}
"""Sellers, and what a subquery has found."""


@each("name", STATEMENTS)
async def test_statement_has_its_index(sqlite_url: str, name: str) -> None:
    """No step goes through a table, or through all that a seller has in it."""
    sql, args = STATEMENTS[name]
    database = await open_database(sqlite_url)
    steps = await database.read(partial(_explained, sql=sql, args=args))
    await database.close()
    found = [re.match(r"(SCAN|SEARCH) (\w+)(?: .*\((.*)\))?", step[3]) for step in steps]
    seen = [match for match in found if match is not None and match[2] not in SMALL]
    assert seen
    assert [match[0] for match in seen if match[1] == "SCAN" or match[3] in (None, "seller_id=?")] == []


async def _explained(tx: Transaction, sql: str, args: tuple[Any, ...]) -> list[Row]:
    return await tx.all(f"EXPLAIN QUERY PLAN {sql}", *args)
