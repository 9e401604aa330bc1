"""Conflict keys: made in one module, and every row is named that a unit of work with keys locks or changes."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import bare_order
import conflict_guard
import paydesk
from conflict_guard import table_changed, tables_locked
from paydesk.engine.device.store import ADVANCE_LEASE, LOCK_SESSIONS
from paydesk.engine.oauth.clients.applications import LOCK as LOCK_APPLICATION
from paydesk.engine.orders import store
from paydesk.engine.orders.store import DETACH, LOCK, TRY_LOCK
from paydesk.engine.payments.refunds.attempts import JOB as REFUNDS
from paydesk.engine.payments.refunds.store import END
from paydesk.engine.webhooks.delivery.store import CLAIM as CLAIM_DELIVERIES
from paydesk.platform.idempotency import LOCK as LOCK_IDEMPOTENCY_KEY
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Database, Transaction
from tables import each

SOURCES = Path(paydesk.__file__).parents[1]
ORDER, TERMINAL = conflict_keys.order("ORD1"), conflict_keys.terminal("A__1")


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        (LOCK, {"orders"}),
        (TRY_LOCK, {"orders"}),
        (LOCK_SESSIONS, {"terminals"}),
        (LOCK_IDEMPOTENCY_KEY, {"idempotency_keys"}),
        (REFUNDS.claim_due, {"refunds"}),
        (CLAIM_DELIVERIES["orders"], {"deliveries"}),
        ("SELECT 1 FROM pos p JOIN terminals t ON t.pos_id = p.pos_id FOR NO KEY UPDATE OF p", {"pos"}),
        ("SELECT 1 FROM orders -- FOR UPDATE", set()),
    ],
)
def test_the_guard_finds_locked_tables(sql: str, tables: set[str]) -> None:
    """Also behind an alias, and in a query within the statement."""
    assert tables_locked(sql) == tables


def test_the_guard_finds_changed_tables() -> None:
    """An UPDATE or DELETE changes rows that are there."""
    assert table_changed(END) == "refunds"
    assert table_changed("DELETE FROM leases WHERE lease_id = $1") == "leases"
    assert table_changed(LOCK) is None


@pytest.mark.on_postgres
@each(
    "keys, sql, args, report",
    [
        ([ORDER], LOCK, (1, "ORD1"), None),
        ([TERMINAL], LOCK, (1, "ORD1"), "locks orders"),
        ([conflict_keys.order("ORD2")], TRY_LOCK, (1, "ORD1"), "locks orders"),
        ([ORDER], LOCK_SESSIONS, (1, "A__1", "boot"), "locks terminals"),
        ([TERMINAL], LOCK_SESSIONS, (1, "A__1", "boot"), None),
        ([ORDER], LOCK_IDEMPOTENCY_KEY, (1, 2, 0, "refund_order", "ORD1", "key"), "locks idempotency_keys"),
        ([ORDER, TERMINAL], LOCK_APPLICATION, (1,), "locks applications"),
        ([ORDER], DETACH, (1, "ORD1", 0), None),
        ([TERMINAL], DETACH, (1, "ORD1", 0), "changes orders"),
        ([TERMINAL], ADVANCE_LEASE, (1, "1", 0, "paying"), "changes leases"),
        ([ORDER], ADVANCE_LEASE, (1, "1", 0, "paying"), None),
        ([TERMINAL], END, (1, "REF1", "failed", None, 0), "changes refunds"),
        ([ORDER], "UPDATE sellers SET name = $2 WHERE seller_id = $1", (1, "x"), "changes sellers"),
    ],
)
async def test_the_guard_reports_unnamed_rows(
    database: Database, keys: list[ConflictKey], sql: str, args: tuple[Any, ...], report: str | None
) -> None:
    """On both databases, whether or not there is such a row."""

    async def work(tx: Transaction) -> None:
        await tx.all(sql, *args)

    await database.write(work, conflict_keys=keys)
    await database.write(work)
    found = conflict_guard.violations.copy()
    conflict_guard.violations.clear()
    assert len(found) == (report is not None)
    assert all(f" {report}: " in one for one in found)


@pytest.mark.on_postgres
async def test_the_guard_reports_a_live_order_without_its_terminal(database: Database) -> None:
    """Creating an order may expire the one on its terminal: who relies on a locked live order names both."""
    await database.write(lambda tx: bare_order.insert(tx, "A__1", ("created", "created", "created")))
    key, terminal = conflict_keys.order("A__1"), conflict_keys.terminal("A__1")

    async def work(tx: Transaction) -> None:
        assert await store.lock(tx, 1, "A__1") is not None
        assert not conflict_guard.violations
        await tx.run(DETACH, 1, "A__1", 0)

    await database.write(work, conflict_keys=(key, terminal))
    assert not conflict_guard.violations
    await database.write(work, conflict_keys=(key,))
    assert " locked a live order of A__1 without that terminal: " in conflict_guard.violations.pop()


@pytest.mark.on_postgres
async def test_the_guard_reports_other_keys(database: Database) -> None:
    """A key is made by a function of the module."""
    await database.write(lambda tx: tx.all("SELECT 1"), conflict_keys=["order:ORD1"])  # type: ignore[list-item]
    assert "'order:ORD1' was not made by a function" in conflict_guard.violations.pop()


def test_conflict_keys_are_made_in_one_module() -> None:
    """Two spellings of one noun would be two keys, so no other module makes one."""
    calls = [
        (f"{file.relative_to(SOURCES)}:{node.lineno}", node)
        for file in SOURCES.rglob("*.py")
        if file.name != "conflict_keys.py" and re.search("ConflictKey|conflict_keys", text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
    ]
    keywords = [(place, keyword) for place, call in calls for keyword in call.keywords]
    made = [place for place, call in calls if isinstance(call.func, ast.Name) and call.func.id == "ConflictKey"]
    written = [
        place
        for place, keyword in keywords
        if keyword.arg == "conflict_keys"
        and any(isinstance(part, ast.Constant | ast.JoinedStr) for part in ast.iter_child_nodes(keyword.value))
    ]
    assert made + written == [], "conflict keys are made by the functions of platform/storage/conflict_keys.py"
    assert len(calls) > 1000
