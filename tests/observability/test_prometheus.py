"""A real Prometheus reads a running node: alerts fire and end with what they are about, and every panel is answered."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import bare_order
from command_line import command
from free_port import free_port
from observability.files import ALERTS, FILES, program, queries
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database
from plain_rows import SELLER, STORE, TERMINAL, run
from serve_process import ServeProcess
from waiting import wait_until

pytestmark = pytest.mark.slow

TOKEN = "scraped-by-the-tests-scraped-by-the-tests"
TERMINALS, FUTURE_MS = 12, 4102444800000
SEEN = "UPDATE terminals SET last_seen_ms = $1"
OPEN_INQUIRY = """
INSERT INTO inquiries (seller_id, order_id, live, reason, attempts, next_ms, created_ms)
VALUES ($1, $2, 1, '', 1, $3, $4)"""
OPEN_REVERSAL = """
INSERT INTO reversals (seller_id, reversal_id, order_id, lease_id, result_id, live, amount_minor, reference_id, status,
                       attempts, next_ms, created_ms)
VALUES ($1, $2, $2, $2, '1', 1, 100, '1', 'pending', 1, $3, $4)"""
UNKNOWN = ("at_terminal", "check_on_terminal", "check_on_terminal")


@dataclass
class Prometheus:
    """The program, with the example of its configuration."""

    folder: Path
    operators: str
    port: int

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run it until the end of the block. Nothing waits before it is raised."""
        (self.folder / "token").write_text(TOKEN)
        example = (FILES / "prometheus.yml").read_text().replace("/etc/prometheus/paydesk-token", "token")
        example = re.sub(r'"10.0.0.11:8378", "10.0.0.12:8378"', f'"{self.operators}"', example)
        example = re.sub(r"(scrape|evaluation)_interval: \d+s", r"\1_interval: 1s", example)
        example = re.sub(r"(?ms)^alerting:.*?^(?=\S)", "", example)
        (self.folder / "prometheus.yml").write_text(example)
        (self.folder / ALERTS.name).write_text(re.sub(r"for: \d+m", "for: 0s", ALERTS.read_text()))
        options = (f"--storage.tsdb.path={self.folder}/data", f"--web.listen-address=127.0.0.1:{self.port}")
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [program("prometheus"), "--config.file=prometheus.yml", *options],
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(lambda: self._is_ready() or process.poll() is not None)
            assert process.poll() is None, (self.folder / "log").read_text()
            yield
        finally:
            process.terminate()
            process.wait()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready") as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of its API. Raises `HTTPError` if a query is wrong."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}") as answer:
            document = json.load(answer)
        assert document["status"] == "success", document
        assert not document.get("warnings"), document
        return document["data"]

    def value(self, query: str) -> float | None:
        """Return the one value of a query, None if it has none."""
        found = self.ask("query", query=query)["result"]
        return float(found[0]["value"][1]) if found else None

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        return {one["labels"]["alertname"] for one in self.ask("alerts")["alerts"] if one["state"] == "firing"}

    def fires(self, *names: str) -> None:
        """Wait until these alerts fire and no other."""
        wait_until(lambda: self.firing() == {*names}, self.firing)


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
    tmp_path.chmod(0o700)
    variables = {"PAYDESK_METRICS_TOKEN": "env:SCRAPED", "SCRAPED": TOKEN}
    node = ServeProcess(database_url, tmp_path, shared=True, **variables)
    migrated = command("migrate", folder=tmp_path, **node.variables)
    assert migrated.returncode == 0, migrated.stderr
    node.start()
    node.wait_for("listening", 1)
    try:
        yield node
    finally:
        node.close()


def _prometheus(serve: ServeProcess) -> Prometheus:
    folder = serve.folder / "prometheus"
    folder.mkdir()
    return Prometheus(folder, serve.variables["PAYDESK_OPERATOR_LISTEN"], free_port())


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
            watching.fires("UnknownOutcomeOld", "ReversalOld", "SlotsHeld", "FleetSilent")
            for table in ("inquiries", "reversals", "orders"):
                await run(database, f"DELETE FROM {table}")
            await run(database, SEEN, FUTURE_MS)
            watching.fires()
