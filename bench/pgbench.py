"""pgbench beside the service: PostgreSQL alone, with the transaction that a create needs at least."""

from __future__ import annotations

import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.load import BenchError, Measured
from bench.postgres import Postgres
from bench.running import Running
from bench.seed import FIRST_SERIAL, TERMINAL_PREFIX

SCRIPT = Path(__file__).with_suffix(".sql")

WRITTEN = """
SELECT o.application_id, o.config, o.integration_data, e.body, k.digest, k.answer
  FROM orders AS o
  JOIN order_events AS e ON e.seller_id = o.seller_id AND e.order_id = o.order_id
  JOIN idempotency_keys AS k ON k.seller_id = o.seller_id AND k.answer IS NOT NULL
 WHERE o.seller_id = {seller_id} LIMIT 1"""

NEWEST = "SELECT MAX(terminal_id) AS terminal_id FROM orders WHERE seller_id = {seller_id}"


class Pgbench:
    """Creates by pgbench, in the service's own tables, on terminals that are still free."""

    def __init__(self, postgres: Postgres, url: str, running: Running) -> None:
        self._postgres, self._url, self._running = postgres, url, running
        self._seller_id = running.seeded["seller_id"]
        self._texts = postgres.rows(url, WRITTEN.format(seller_id=self._seller_id))[0]

    def one(self, connections: int, seconds: float) -> Measured:
        """One run from so many connections, each a client of its own."""
        with tempfile.TemporaryDirectory(prefix="paydesk-bench-") as folder:
            told = self._run(connections, seconds, Path(folder) / "log")
            waits_ms = sorted(
                int(line.split()[2]) / 1000 for log in Path(folder).iterdir() for line in log.read_text().splitlines()
            )
        self._running.use(self._newest() - self._running.used)
        per_second = re.search(r"^tps = ([\d.]+)", told, re.MULTILINE)
        if per_second is None or not waits_ms or "number of failed transactions: 0 " not in told:
            raise BenchError(f"pgbench from {connections}: {told}")
        return Measured(
            "create",
            connections,
            float(per_second[1]),
            statistics.median(waits_ms),
            waits_ms[int(len(waits_ms) * 0.99)],
            None,
            None,
            len(waits_ms),
        )

    def _run(self, connections: int, seconds: float, log: Path) -> str:
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
        command = [str(self._postgres.program("pgbench")), *options, *given, "-c", str(connections)]
        ended = subprocess.run(
            [*command, "-T", f"{seconds:.0f}", self._url], capture_output=True, text=True, check=False
        )
        return ended.stdout + ended.stderr

    def _newest(self) -> int:
        newest = self._postgres.rows(self._url, NEWEST.format(seller_id=self._seller_id))[0]["terminal_id"]
        return int(newest.removeprefix(TERMINAL_PREFIX)) - FIRST_SERIAL
