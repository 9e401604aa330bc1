"""The service under load: started and seeded, with the number of used terminals and token families."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.load import BenchError, Measured, measure
from bench.seed import FIRST_SERIAL, TERMINAL_PREFIX, Sizes

ORDERS = 500
AT_ONCE = 16
START_SECONDS_MAX = 600.0
ANSWER_SECONDS_MAX = 30.0


class Running:
    """The service under load. Terminals up to `used` have got their order."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], folder: Path, sizes: Sizes) -> None:
        self.url, self.pid = url, process.pid
        self.seeded: dict[str, Any] = json.loads((folder / "seed.json").read_text())
        self.used, self.refreshed = 0, 0
        self.orders: list[str] = []
        self._seed, self._log = folder / "seed.lua", folder / "seed.log"
        self._terminals = sizes.terminals - sizes.pollers

    def prepare(self, families_per_run: int) -> None:
        """Orders to get, terminals that poll, and the seed for the load."""
        token = self.seeded["access_token"]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            self.orders = list(pool.map(lambda number: create_order(self.url, token, number), range(1, ORDERS + 1)))
            list(pool.map(lambda device: poll_once(self.url, device), self.seeded["devices"]))
        self.used = ORDERS + 1
        known = {"orders": self.orders, "families_per_run": families_per_run, "terminals": self._terminals}
        self._seed.write_text("return " + lua({**self.seeded, **known}))

    def one(self, script: str, connections: int, seconds: float, pause_ms: float = 0) -> Measured:
        """Run one operation. With `pause_ms` each connection pauses for about so long before each request."""
        made = measure(
            script,
            connections,
            seconds,
            url=self.url,
            pid=self.pid,
            seed=self._seed,
            first=self.used,
            run=self.refreshed,
            pause_ms=pause_ms,
        )
        if script == "create":
            # Unanswered creates at the end use a terminal too, and the load generates one request too many.
            self.use(made.requests + connections + 1)
        self.refreshed += script == "refresh"
        return made

    def use(self, terminals: int) -> None:
        """Mark more terminals as used. Raises `BenchError` if there are not enough."""
        self.used += terminals
        if self.used > self._terminals:
            raise BenchError("The free terminals are used up: seed more, --terminals N.")

    def one_logged(self, script: str, connections: int, seconds: float) -> Measured:
        """Run one operation with the request log on, and check the number of log lines."""
        self._switch_log(signal.SIGUSR1, self._log.exists)
        made = self.one(script, connections, seconds)
        with self._log.open("rb") as file:
            lines = sum(1 for _ in file)
        self._switch_log(signal.SIGUSR2, lambda: not self._log.exists())
        # A response can arrive before its log line is written.
        if lines < made.requests - connections:
            raise BenchError(f"{made.requests} requests left {lines} lines in the log: it was not on")
        return made

    def _switch_log(self, number: signal.Signals, is_done: Callable[[], bool]) -> None:
        os.kill(self.pid, number)
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while not is_done():
            assert time.monotonic() < deadline, "the service does not heed the signal for its log"
            time.sleep(0.01)


@contextlib.contextmanager
def service(
    database_url: str,
    sizes: Sizes,
    families_per_run: int,
    *,
    checkout: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """Run the service on that database, seeded; its orders to get are created over its interface.

    `checkout`: the folder of another checkout to run, with its own .venv. `variables`: settings in its environment.
    """
    python = str(checkout / ".venv" / "bin" / "python") if checkout else sys.executable
    with tempfile.TemporaryDirectory(prefix="paydesk-bench-") as name:
        folder, port = Path(name), free_port()
        arguments = [database_url, str(port), str(folder / "seed.json"), str(sizes.terminals), str(sizes.families)]
        with started(
            [python, "-m", "bench.service", *arguments],
            port,
            "/noop",
            {**os.environ, **(variables or {})},
            folder=checkout,
        ) as process:
            running = Running(f"http://127.0.0.1:{port}", process, folder, sizes)
            running.prepare(families_per_run)
            yield running


@contextlib.contextmanager
def started(
    command: list[str], port: int, path: str, environment: dict[str, str] | None = None, *, folder: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server with `command`, wait until it answers at `path`, and end it with SIGTERM.

    Raises `BenchError` with its output if it does not start.
    """
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=said, stderr=said)
        try:
            if not _answers(f"http://127.0.0.1:{port}{path}", process):
                said.seek(0)
                raise BenchError(f"{Path(command[0]).name} {command[1]} did not start: {said.read().decode()}")
            yield process
        finally:
            process.terminate()
            process.wait(30)


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the server answers; return False if the process has ended."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            time.sleep(0.1)
        else:
            return True
    return False


def create_order(url: str, token: str, number: int) -> str:
    """Create an order over the interface and return its id."""
    body = {
        "type": "point",
        "external_reference": "ext_ref_1234",
        "description": "Smartphone",
        "transactions": {"payments": [{"amount": "24.90"}]},
        "config": {
            "point": {"terminal_id": f"{TERMINAL_PREFIX}{FIRST_SERIAL + number}", "print_on_terminal": "no_ticket"}
        },
    }
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "X-Idempotency-Key": str(uuid.uuid4()),
    }
    request = urllib.request.Request(f"{url}/v1/orders", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX) as answer:
        order_id: str = json.load(answer)["id"]
        return order_id


def poll_once(url: str, device: dict[str, str]) -> None:
    """Poll once: a new terminal gets its mode first, and has no further messages."""
    headers = {"Authorization": f"Bearer {device['token']}"}
    request = urllib.request.Request(f"{url}/device/v1/next?wait=0&boot_id={device['boot_id']}", headers=headers)
    urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX).close()


def lua(value: Any) -> str:
    """Return the value as a Lua literal."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}={lua(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "{" + ",".join(lua(item) for item in value) + "}"
    return json.dumps(value)
