"""Measure PostgreSQL alone with pgbench and the minimal transaction of a create."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from bisect import bisect
from dataclasses import dataclass
from pathlib import Path

from bench.load import BenchError, Measured, family_cpu_seconds
from bench.postgres import Postgres
from bench.rows import PGBENCH_RAMP_SECONDS
from bench.running import Running
from bench.seed import FIRST_SERIAL, TERMINAL_PREFIX

Spent = list[tuple[float, float]]
"""A sample: the wall-clock time and PostgreSQL's CPU seconds until then."""

LOOK_SECONDS = 0.25
SCRIPT = Path(__file__).with_suffix(".sql")

WRITTEN = """
SELECT o.application_id, o.config, o.integration_data, e.body, k.digest, k.answer
  FROM orders AS o
  JOIN order_events AS e ON e.seller_id = o.seller_id AND e.order_id = o.order_id
  JOIN idempotency_keys AS k ON k.seller_id = o.seller_id AND k.answer IS NOT NULL
 WHERE o.seller_id = {seller_id} LIMIT 1"""

NEWEST = "SELECT MAX(terminal_id) AS terminal_id FROM orders WHERE seller_id = {seller_id}"


@dataclass(frozen=True, slots=True)
class Logged:
    """A transaction in pgbench's log: its wall-clock end and its duration."""

    ended: float
    took_ms: float

    @classmethod
    def read(cls, line: str) -> Logged:
        """Parse a line: client, number, duration in µs, script, and the end in seconds and µs."""
        _, _, took_us, _, seconds, microseconds = line.split()[:6]
        return cls(int(seconds) + int(microseconds) / 1e6, int(took_us) / 1000)


class Pgbench:
    """Creates by pgbench, in the service's tables, on free terminals."""

    def __init__(self, postgres: Postgres, url: str, running: Running) -> None:
        self._postgres, self._url, self._running = postgres, url, running
        self._seller_id = running.seeded["seller_id"]
        self._texts = postgres.rows(url, WRITTEN.format(seller_id=self._seller_id))[0]

    def one(self, connections: int, seconds: float) -> Measured:
        """Run it with that many connections, one client each, and measure only the last `seconds`.

        Before, PostgreSQL starts a process per connection, which fills its caches and prepares the statements.
        """
        with tempfile.TemporaryDirectory(prefix="paydesk-bench-") as name:
            folder = Path(name)
            spent = self._run(connections, seconds + PGBENCH_RAMP_SECONDS, folder / "log", folder / "output")
            output = (folder / "output").read_text()
            made = [Logged.read(line) for log in folder.glob("log.*") for line in log.read_text().splitlines()]
        if not made or "number of failed transactions: 0 " not in output:
            raise BenchError(f"pgbench from {connections}: {' '.join(output.split())}")
        self._running.use(self._newest() - self._running.used)
        return _measured(connections, seconds, made, spent)

    def _run(self, connections: int, seconds: float, log: Path, output: Path) -> Spent:
        """Run pgbench, and sample PostgreSQL's CPU time meanwhile."""
        options = ["-n", "-M", "prepared", "-j", "1", "-l", f"--log-prefix={log}", "-f", str(SCRIPT)]
        variables = {
            **self._texts,
            "seller_id": self._seller_id,
            "prefix": TERMINAL_PREFIX,
            "first": FIRST_SERIAL + self._running.used + 1,
            "turn": -1,
            "clients": connections,
            "now_ms": int(time.time() * 1000),
        }
        given = [part for name, value in variables.items() for part in ("-D", f"{name}={value}")]
        load = ["-c", str(connections), "-T", f"{seconds:.0f}"]
        command = [str(self._postgres.program("pgbench")), *options, *given, *load, self._url]
        spent: Spent = []
        with output.open("w") as stream, subprocess.Popen(command, stdout=stream, stderr=stream) as process:
            while process.poll() is None:
                spent.append((time.time(), family_cpu_seconds(self._postgres.pid)))
                time.sleep(LOOK_SECONDS)
        return spent

    def _newest(self) -> int:
        newest = self._postgres.rows(self._url, NEWEST.format(seller_id=self._seller_id))[0]["terminal_id"]
        return int(newest.removeprefix(TERMINAL_PREFIX)) - FIRST_SERIAL


def _measured(connections: int, seconds: float, made: list[Logged], spent: Spent) -> Measured:
    end = max(one.ended for one in made)
    took_ms = sorted(one.took_ms for one in made if one.ended > end - seconds)
    cpu_seconds = _spent_at(spent, end) - _spent_at(spent, end - seconds)
    return Measured(
        "create",
        connections,
        len(took_ms) / seconds,
        statistics.median(took_ms),
        took_ms[int(len(took_ms) * 0.99)],
        None,
        None,
        len(took_ms),
        cpu_seconds / len(took_ms) * 1e6,
    )


def _spent_at(spent: Spent, instant: float) -> float:
    """Return the CPU seconds at an instant, interpolated between two samples."""
    after = min(max(bisect([when for when, _ in spent], instant), 1), len(spent) - 1)
    (earlier, less), (later, more) = spent[after - 1 : after + 1]
    return less + (more - less) * (instant - earlier) / (later - earlier)
