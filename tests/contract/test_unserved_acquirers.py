"""A node refuses to start while something is open at an acquirer that its file no longer has."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import bare_order
from command_line import command
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.simulator.acquirer import Simulator
from paydesk.platform.process.node import StartRefused
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Transaction
from paydesk.service.acquirers import check_served

pytestmark = pytest.mark.on_postgres

STATE = ("at_terminal", "check_on_terminal", "check_on_terminal")
INQUIRY = """
INSERT INTO inquiries (seller_id, order_id, live, reason, attempts, next_ms, created_ms, ended_ms)
VALUES (1, $1, $2, '', 0, 0, 0, $3)"""
REVERSAL = """
INSERT INTO reversals (seller_id, reversal_id, order_id, lease_id, result_id, live, amount_minor, reference_id, status,
                       attempts, next_ms, created_ms)
VALUES (1, $1, $1, $1, '', 1, 1, '', $2, 0, 0, 0)"""
REFUND = """
INSERT INTO refunds (seller_id, refund_id, order_id, application_id, live, idempotency_key, amount, amount_minor,
                     status, attempts, unsent, next_ms, claimed_until_ms, created_ms)
VALUES (1, $1, $1, 1, 1, '', '1', 1, $2, 0, 0, 0, 0, 0)"""
CONFIRMATION = """
INSERT INTO confirmations (seller_id, order_id, live, status, amount_minor, currency, reference_id, approved_ms,
                           decide_by_ms, next_ms, created_ms)
VALUES (1, $1, 1, $2, 1, 'BRL', '', 0, 0, 0, 0)"""


async def add(database: Database, order_id: str, acquirer: str | None, sql: str, *values: object) -> None:
    """Add an order of the acquirer, and a row about it."""

    async def work(tx: Transaction) -> None:
        await bare_order.insert(tx, order_id, STATE)
        await tx.run("UPDATE orders SET acquirer = $2 WHERE seller_id = 1 AND order_id = $1", order_id, acquirer)
        await tx.run(sql, order_id, *values)

    await database.write(work)


async def test_open_rows_of_other_acquirers_are_listed(database: Database) -> None:
    """By acquirer, kind and seller, with their number."""
    await add(database, "A1", "gone", INQUIRY, 1, None)
    await add(database, "A2", "gone", INQUIRY, 1, None)
    await add(database, "A3", "gone", REVERSAL, "pending")
    await add(database, "A4", "old", REFUND, "processing")
    await add(database, "A5", "gone", CONFIRMATION, "provisional")
    await add(database, "A6", "gone", CONFIRMATION, "confirming")
    await add(database, "B1", "main", INQUIRY, 1, None)
    main = Simulator(database, clock=None)  # type: ignore[arg-type]
    listed = (
        "`gone`: 2 confirmations of seller 1; `gone`: 2 inquiries of seller 1; `gone`: 1 reversals of seller 1;"
        " `old`: 1 refunds of seller 1. Add them to the file in PAYDESK_ACQUIRERS_FILE"
    )
    with pytest.raises(StartRefused, match=re.escape(listed)):
        await check_served(database, Acquirers(live={"main": main}))
    with pytest.raises(StartRefused, match="1 inquiries of seller 1"):
        await check_served(database, Acquirers(live={"gone": main, "old": main}))


async def test_what_has_ended_or_names_no_acquirer_needs_none(database: Database) -> None:
    """Nor do test orders, whose acquirer is the simulator."""
    await add(database, "A1", "gone", INQUIRY, 1, 5)
    await add(database, "A2", "gone", INQUIRY, 0, None)
    await add(database, "A3", "gone", REVERSAL, "reversed")
    await add(database, "A4", "gone", REFUND, "failed")
    for number, status in enumerate(("confirmed", "undone", "refused")):
        await add(database, f"C{number}", "gone", CONFIRMATION, status)
    await add(database, "B1", None, INQUIRY, 1, None)
    await check_served(database, Acquirers())


async def test_serve_refuses_to_start(sqlite_url: str, tmp_path: Path) -> None:
    """Also for an acquirer without a file."""
    database = await open_database(sqlite_url)
    await add(database, "A1", "gone", INQUIRY, 1, None)
    await database.close()
    assert command("keys", "add", folder=tmp_path).returncode == 0
    variables = {"PAYDESK_DATABASE_URL": sqlite_url, "PAYDESK_PUBLIC_URL": "https://pay.example.com"}
    refused = await asyncio.to_thread(command, "serve", folder=tmp_path, **variables)
    assert refused.returncode == 1
    assert "Acquirers with open payments are not configured: `gone`: 1 inquiries of seller 1." in refused.stderr
    refused = await asyncio.to_thread(command, "serve", folder=tmp_path, PAYDESK_ACQUIRER="main", **variables)
    assert refused.returncode == 1
    assert "acquirer is `main`, which is not configured: set `acquirers_file`" in refused.stderr
