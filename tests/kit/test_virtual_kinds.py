"""Virtual terminals of kind `service`, as in `paydesk serve`, and virtual terminals that give tips."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from authorize_scene import is_consistent, ledger, rows, service_terminal
from nodes import time_passes
from paydesk.engine.terminals.schemas import Kind
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_dev.virtual import journal as journals
from paydesk_dev.virtual.fleet import Fleet
from service import Service, running
from skipped_waits import skipped_waits
from waiting import until, until_found

SLOW = "approve:30s"
"""It has long pauses, one of them between the approval and the result."""
DUE = "UPDATE confirmations SET next_ms = 0 WHERE order_id = $1"
FINAL = ("processed", "failed", "canceled")


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A running service with its workers, and without the operations of development."""
    with skipped_waits(database):
        async with running(database) as service:
            yield service


@pytest.fixture
async def fleet(service: Service, tmp_path: Path) -> AsyncIterator[Fleet]:
    """An empty fleet of virtual terminals."""
    fleet = Fleet(service.base_url, tmp_path / "terminals")
    await fleet.start()
    yield fleet
    await fleet.stop()


async def _played(service: Service, fleet: Fleet, script: str, kind: Kind, **fields: Any) -> dict[str, Any]:
    """Return the order after a virtual terminal of the kind has played the script with it."""
    terminal = await service_terminal(service, tips=(5, 10), kind=kind)
    await fleet.add(terminal.id, terminal.token, script, kind=kind)
    order_id = (await service.create(terminal, **fields)).body["id"]
    return await service.until(order_id, *FINAL)


async def test_the_service_authorizes_for_the_terminal(service: Service, fleet: Fleet, tmp_path: Path) -> None:
    """The order is paid, its result is accepted, and the journal, which keeps the kind, is empty afterwards."""
    order = await _played(service, fleet, "approve:0s", "service")
    assert order["status"] == "processed"
    assert await rows(service, "SELECT tip_minor FROM lease_authorizations") == [(0,)]
    results = await until_found(lambda: rows(service, "SELECT verdict, answer_status FROM results"))
    assert results == [("finished", 200)]
    (path,) = (tmp_path / "terminals").glob("*.json")
    journal = journals.read(path)
    assert journal is not None
    assert journal.kind == "service"
    await is_consistent(service)


@pytest.mark.parametrize("kind", ["service", "terminal"])
async def test_a_decline_or_a_tip(database: Database, tmp_path: Path, kind: Kind) -> None:
    """Of both kinds; one that asks the acquirer itself needs the simulated one of development."""
    with skipped_waits(database):
        async with running(database, development=True) as service:
            fleet = Fleet(service.base_url, tmp_path / "fleet")
            await fleet.start()
            declined = await _played(service, fleet, "decline:card_disabled:0s", kind)
            paid = await _played(service, fleet, "approve:tip=10:0s", kind, amount="24.91")
            await fleet.stop()
            assert declined["transactions"]["payments"][0]["status_detail"] == "card_disabled"
            (payment,) = paid["transactions"]["payments"]
            assert (payment["paid_amount"], payment["tip_amount"]) == ("27.41", "2.50")
            assert sorted(row[1:3] for row in await ledger(service)) == [(2490, "declined"), (2741, "approved")]
            await is_consistent(service)


async def test_a_provisional_approval_is_one_once_the_service_has_the_result(
    database: Database, tmp_path: Path
) -> None:
    """The sale is confirmed. A result that comes after the sale was undone never shows an approval."""
    screens, settings = list[tuple[str, ...]](), Settings(simulator_confirmations=True)

    def on_screen(terminal_id: str) -> None:
        screens.append(own.find(terminal_id).panel.screen.lines)

    async with running(database, settings=settings) as service:
        own = Fleet(service.base_url, tmp_path / "terminals", on_screen=on_screen)
        await own.start()
        assert (await _played(service, own, "approve:0s", "service"))["status"] == "processed"
        assert await until_found(lambda: rows(service, "SELECT 1 FROM confirmations WHERE status = 'confirmed'"))
        await until(lambda: "Approved" in [lines[0] for lines in screens])
        terminal = await service_terminal(service)
        await own.add(terminal.id, terminal.token, SLOW, kind="service")
        screens.clear()
        order_id = (await service.create(terminal)).body["id"]
        nodes, virtual = (service, service), own.find(terminal.id)

        async def has(sql: str) -> bool:
            return bool(await rows(service, f"{sql} AND order_id = '{order_id}'"))

        async def is_answered() -> bool:
            return any(entry.is_provisional and entry.result for entry in virtual.journal.entries.values())

        await time_passes(nodes, is_answered)
        virtual.panel.link.cut()
        await service.scene.run(DUE, order_id)
        await time_passes(nodes, lambda: has("SELECT 1 FROM orders WHERE status = 'failed'"))
        virtual.panel.link.restore()

        async def is_shown() -> bool:
            # It is replaced after a while, perhaps before this looks.
            return ("Declined", "The sale was undone") in [lines[:2] for lines in screens]

        await time_passes(nodes, is_shown)
        assert not [lines for lines in screens if lines[0] == "Approved"]
        await own.stop()
        await is_consistent(service)


@pytest.mark.on_postgres
async def test_a_lost_answer_is_asked_for_again(service: Service, fleet: Fleet) -> None:
    """By the service, under the same key: no inquiry follows."""
    order = await _played(service, fleet, "no_answer:0s", "service")
    assert order["status"] == "processed"
    assert await rows(service, "SELECT outcome FROM inquiries") == []
    await is_consistent(service)
