"""A real Prometheus reads running nodes: alerts fire and end with what they are about, sums and panels are right."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
import pytest

import bare_order
import first_day
from command_line import command
from faults.clocked_node import write_offset
from node_process import NodeProcess
from observability.files import program, queries
from observability.prometheus import READABLE, TOKEN, Prometheus
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database
from paydesk_process import request
from plain_rows import CONFIRMATION, DELIVERY, SELLER, STORE, SUBSCRIBE, TERMINAL, run
from serve_process import ServeProcess
from waiting import wait_until

pytestmark = pytest.mark.slow

TERMINALS, FUTURE_MS = 12, 4102444800000
SEEN = "UPDATE terminals SET last_seen_ms = $1"
OPEN_INQUIRY = """
INSERT INTO inquiries (seller_id, order_id, live, reason, attempts, next_ms, created_ms)
VALUES ($1, $2, 1, '', 1, $3, $4)"""
OPEN_REVERSAL = """
INSERT INTO reversals (seller_id, reversal_id, order_id, lease_id, result_id, live, amount_minor, reference_id, status,
                       attempts, next_ms, created_ms)
VALUES ($1, $2, $2, $2, '1', 1, 100, '1', 'pending', 1, $3, $4)"""
UNCONFIRMED = """
UPDATE confirmations
   SET live = 1, status = 'confirming', ended_ms = NULL, next_ms = $1, created_ms = $2, deadline_ms = $3"""
CLAIMED = "UPDATE deliveries SET claimed_until_ms = $1, next_ms = $2"
AT_SWITCH = "UPDATE orders SET live = 1, seller_id = 7, acquirer = 'switch'"
SUBSCRIPTION = "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"
UNKNOWN = ("at_terminal", "check_on_terminal", "check_on_terminal")


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    """The database in which rows are planted while the node runs."""
    database = await open_database(url)
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
def serve(database_url: str, tmp_path: Path) -> Iterator[ServeProcess]:
    """A node that Prometheus may read."""
    with _serving(database_url, tmp_path) as node:
        yield node


@contextmanager
def _serving(database_url: str, folder: Path, processes: int = 1, **variables: str) -> Iterator[ServeProcess]:
    folder.chmod(0o700)
    options = () if processes == 1 else ("--processes", str(processes))
    node = ServeProcess(database_url, folder, *options, shared=True, **READABLE, **variables)
    migrated = command("migrate", folder=folder, **node.variables)
    assert migrated.returncode == 0, migrated.stderr
    try:
        node.start()
        node.wait_for("listening" if processes == 1 else "process_ready", processes)
        yield node
    finally:
        node.close()


def _prometheus(*nodes: ServeProcess) -> Prometheus:
    return Prometheus(nodes[0].folder / "prometheus", [node.variables["PAYDESK_OPERATOR_LISTEN"] for node in nodes])


@pytest.mark.long(reason="Prometheus reads a page once a second")
def test_a_node_that_is_away_is_reported_until_it_is_back(serve: ServeProcess) -> None:
    """By `Down` alone; meanwhile and afterwards every query of the panels is answered."""
    watching = _prometheus(serve)
    with watching.running():
        wait_until(lambda: watching.value('up{job="paydesk"}') == 1)
        wait_until(lambda: (watching.value("sum(paydesk_http_requests_total)") or 0) > 3)
        watching.fires()
        for name, query in queries():
            assert watching.ask("query", query=query)["resultType"] == "vector", name
        assert serve.process is not None
        serve.end(serve.process)
        watching.fires("Down")
        serve.start()
        wait_until(lambda: watching.value('up{job="paydesk"}') == 1)
        watching.fires()


@pytest.mark.long(reason="a node reads its database once in 15 s")
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)  # a SQLite file is written by one process
async def test_alerts_fire_and_end(serve: ServeProcess, database_url: str) -> None:
    """About money, terminals and the fleet, with what is planted in the database."""
    watching = _prometheus(serve)
    async with opened(database_url) as database:
        await run(database, SELLER, 7, "shop@example.com", "Shop")
        await run(database, STORE, 7, 1, "Centro")
        for number in range(TERMINALS):
            await run(database, TERMINAL, 7, f"N950__{number:04}", 1, FUTURE_MS)
        with watching.running():
            online = 'max(paydesk_terminals{presence="online"})'
            wait_until(lambda: watching.value(online) == TERMINALS, lambda: watching.value(online))
            watching.fires()
            hour_ago_ms = round(time.time() * 1000) - 3_700_000
            await run(database, OPEN_INQUIRY, 7, "ORD01J67CQQH5904WDBVZEM4JMEP3", FUTURE_MS, hour_ago_ms)
            await run(database, OPEN_REVERSAL, 7, "01J67CQQH5904WDBVZEM4JMEP4", FUTURE_MS, hour_ago_ms)
            await database.write(lambda tx: bare_order.insert(tx, "ORD01J67CQQH5904WDBVZEM4JMEP5", UNKNOWN))
            await run(database, SEEN, hour_ago_ms)
            await run(database, CONFIRMATION, 7, "ORD01J67CQQH5904WDBVZEM4JMEP6")
            await run(database, UNCONFIRMED, FUTURE_MS, hour_ago_ms, hour_ago_ms + 5_000_000)
            await run(database, SUBSCRIBE, SUBSCRIPTION)
            await run(database, DELIVERY, 7, "e.1", SUBSCRIPTION, "ORD1", 1, "pending", hour_ago_ms)
            await run(database, CLAIMED, FUTURE_MS, hour_ago_ms)
            watching.fires(
                "UnknownOutcomeOld",
                "ReversalOld",
                "ConfirmationNearDeadline",
                "DeliveriesStuck",
                "SlotsHeld",
                "FleetSilent",
            )
            for table in ("inquiries", "reversals", "orders", "confirmations", "deliveries"):
                await run(database, f"DELETE FROM {table}")
            await run(database, SEEN, FUTURE_MS)
            watching.fires()


def test_promtool_finds_no_fault_in_the_pages(serve: ServeProcess) -> None:
    """Names, types and help texts are as Prometheus wants them."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for path in ("/metrics", "/metrics/database"):
        asked = urllib.request.Request(f"{serve.operators}{path}", headers=headers)  # noqa: S310 - our own address
        with urllib.request.urlopen(asked) as answer:  # noqa: S310 - the same
            page = answer.read()
        checked = subprocess.run(
            [program("promtool"), "check", "metrics"], input=page, capture_output=True, check=False
        )
        assert (checked.returncode, checked.stderr) == (0, b""), path


@pytest.mark.long(reason="a process is stopped again and again")
def test_an_event_loop_that_stands_still_is_reported(serve: ServeProcess) -> None:
    """Until it no longer does."""
    watching, process = _prometheus(serve), serve.process
    assert process is not None
    with watching.running():
        wait_until(lambda: watching.value('up{job="paydesk"}') == 1)
        while "LoopLag" not in watching.firing():
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.7)  # the fault
            process.send_signal(signal.SIGCONT)
            time.sleep(0.3)  # between two: it is read meanwhile
        watching.fires()


@pytest.mark.long(reason="Prometheus reads a page once a second")
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_requests_that_fail_are_reported(serve: ServeProcess, database_url: str) -> None:
    """Of operators, whose table is missing for a while."""
    watching, connection = _prometheus(serve), await asyncpg.connect(database_url)
    with watching.running():
        wait_until(lambda: watching.value('up{job="paydesk"}') == 1)
        watching.fires()
        await connection.execute("ALTER TABLE operators RENAME TO operators_away")
        url, token = f"{serve.operators}/operator/v1/operators", f"PDO-{'0' * 40}"
        while "Errors" not in watching.firing():
            assert request("GET", url, token)[0] == 500
        await connection.execute("ALTER TABLE operators_away RENAME TO operators")
        watching.fires()
    await connection.close()


@pytest.mark.long(reason="the acquirer is asked again after a pause")
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_an_acquirer_that_does_not_answer_is_reported(database_url: str, tmp_path: Path) -> None:
    """Until it answers, here with what it does not know."""
    first_day.write_acquirers(tmp_path)
    at_switch = {"PAYDESK_ACQUIRER": "switch", "PAYDESK_ACQUIRERS_FILE": "acquirers.toml"}
    with _serving(database_url, tmp_path, 1, **at_switch) as serve:
        watching = _prometheus(serve)
        with watching.running():
            wait_until(lambda: watching.value('up{job="paydesk"}') == 1)
            watching.fires()
            asyncio.run(_plant_reversal(database_url))
            watching.fires("AcquirerSilent")
            with first_day.switch(tmp_path):
                watching.fires()


async def _plant_reversal(database_url: str) -> None:
    async with opened(database_url) as database:
        await run(database, SELLER, 7, "shop@example.com", "Shop")
        order_id, now_ms = "01J67CQQH5904WDBVZEM4JMEP4", round(time.time() * 1000)
        await database.write(lambda tx: bare_order.insert(tx, order_id, ("canceled", "canceled", "canceled_by_api")))
        await run(database, AT_SWITCH)
        await run(database, OPEN_REVERSAL, 7, order_id, now_ms, now_ms)


@pytest.mark.long(reason="a node compares its clock at its start")
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_clock_that_is_wrong_is_reported(database_url: str, tmp_path: Path) -> None:
    """Until it is set right."""
    clock = tmp_path / "clock"
    write_offset(clock, 10_000)
    node = NodeProcess(database_url, tmp_path, module="faults.clocked_node", **READABLE)
    node.arguments.append(str(clock))
    watching = Prometheus(tmp_path / "prometheus", [f"127.0.0.1:{node.port}"])
    try:
        node.start()
        with watching.running():
            watching.fires("Clock")
            write_offset(clock, 0)
            watching.fires()
    finally:
        node.close()


@pytest.mark.long(reason="two nodes of two processes")
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_the_sum_of_all_processes_is_that_of_the_requests(database_url: str, tmp_path: Path) -> None:
    """Of two nodes with two processes each; after one of them was killed, too."""
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    with (
        _serving(database_url, folders[0], 2) as first,
        _serving(database_url, folders[1], 2) as second,
    ):
        watching, orders = _prometheus(first, second), 'paydesk_http_requests_total{operation="get_order"}'

        def ask(count: int) -> None:
            for _ in range(count):
                for node in (first, second):
                    assert request("GET", f"{node.clients}/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3")[0] == 401

        with watching.running():
            ask(40)
            wait_until(lambda: watching.counted(orders) == 80, lambda: watching.counted(orders))
            assert watching.value(f"sum({orders})") == 80
            assert (watching.value(f"count({orders})") or 0) >= 3
            os.kill(first.lines("process_ready")[0]["pid"], signal.SIGKILL)
            first.wait_for("process_ready", 3)
            ask(20)
            wait_until(lambda: watching.counted(orders) == 120, lambda: watching.counted(orders))
