"""A node as a process of its own, for tests that kill it: the application of `paydesk serve` and its workers.

`main([DATABASE_URL, PORT])` serves until SIGTERM. Beside `serve` it only allows receivers on loopback, has the tests'
own server keys, and the acquirer's door beside its own; everything else is seeded through the stores before it starts.
A request with `X-Crash-At: after_commit` arms that crash point, and so is the one that the process dies of.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from acquirer_door import with_door
from forks import Fork, Forks
from free_port import free_port
from paydesk.core import crash_points
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.platform import logs, settings
from paydesk.platform.health.clock import WatchedClock
from paydesk.platform.http.asgi import Receive, Scope, Send
from paydesk.platform.http.server import server
from paydesk.platform.process import node
from paydesk.service.compose import Parts, compose
from paydesk.service.workers import run_all
from paydesk_dev import parts as development
from paydesk_process import environment
from service import KEYS
from waiting import HANGS_SECONDS

START_SECONDS_MAX = 30.0
CRASH_AT = "CRASH_AT"
"""The environment variable that arms a crash point at the start."""
DEVELOPMENT = "DEVELOPMENT"
"""The environment variable that adds the operations of development, for virtual terminals that ask the acquirer."""
MOVES_ALL_CLOCKS, A_LIFE_SECONDS = "MOVES_ALL_CLOCKS", 3_000_000_000
"""The environment variable of tests that move a node's clock, which turns off its comparison with the database's."""


class NodeProcess:
    """A node that a test starts, kills and restarts on the same data and port; `module` has its `main`."""

    def __init__(self, database_url: str, folder: Path, *, module: str = "node_process", **variables: str) -> None:
        self._forks = Forks(module)
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"node-{self.port}.log"
        self.arguments = [database_url, str(self.port)]
        self._environment = environment(**{"PAYDESK_LOG_FORMAT": "json", **variables})
        self._process: Fork | None = None

    def start(self, *, crash_at: str = "") -> None:
        """Start it and wait until it answers, unless its workers are to kill it."""
        self._process = self._forks.start(self.arguments, {**self._environment, CRASH_AT: crash_at}, self.log)
        if crash_at:
            return
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            assert self._process.poll() is None, self.log.read_text()[-2000:]
            assert time.monotonic() < deadline, "the node does not answer"
            time.sleep(0.01)  # Another process gives no sign of its own.

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def runs(self) -> bool:
        """Return whether it still runs."""
        return self._process is not None and self._process.poll() is None

    def died(self, seconds_max: float = HANGS_SECONDS) -> int:
        """Wait until it ends by itself; return the exit status, negative for a signal."""
        assert self._process is not None, "it ran"
        return self._process.wait(seconds_max)

    def end(self, *, is_armed: bool = False) -> None:
        """Send SIGTERM if it runs; an armed crash point may kill it instead."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            status = self._process.wait(HANGS_SECONDS)
            assert status == 0 or (is_armed and status == -signal.SIGKILL), self.log.read_text()[-2000:]

    def close(self) -> None:
        """Kill it if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.base_url + "/nothing", timeout=HANGS_SECONDS)  # noqa: S310 - our own address
        except urllib.error.HTTPError as answer:
            answer.close()
            return True
        except OSError:
            return False
        return True


def arm(point: str) -> None:
    """Arm a crash point: `asked`, or `asked:2` for the second time that it is reached."""
    label, _, times = point.partition(":")
    crash_points.arm(label, int(times or 1))  # type: ignore[arg-type]  # whatever it is, it is checked there


def armed(app: Any) -> Any:
    """Wrap the application, so that a request can arm a crash point by a header."""

    async def arming(scope: Scope, receive: Receive, send: Send) -> None:
        for name, value in scope.get("headers", ()):
            if name == b"x-crash-at":
                arm(value.decode())
        await app(scope, receive, send)

    return arming


async def serve(database_url: str, port: int) -> None:
    """Serve until SIGTERM."""
    chosen = settings.load(database_url=database_url, **settings.UNTHROTTLED)
    logs.configure(chosen.log_format)
    node.allow_open_files(chosen.connections_max)
    difference_seconds_max = A_LIFE_SECONDS if os.environ.get(MOVES_ALL_CLOCKS) else chosen.clock_difference_seconds_max
    async with node.database_of(chosen) as database:
        # Asked anew each time, so that a test can move the machine's clock.
        clock = WatchedClock(lambda: time.time_ns(), difference_seconds_max=difference_seconds_max)  # noqa: PLW0108
        await clock.compare(database)
        stop = asyncio.Event()
        is_development = bool(os.environ.get(DEVELOPMENT))
        parts = development.parts(chosen, KEYS) if is_development else Parts(loopback_allowed=True)
        service = compose(chosen, database, KEYS, clock, parts)
        simulator = service.shared.objects[Acquirers].test
        assert simulator is not None, "test orders have the simulated one, always"
        app = with_door(service.app(), simulator)
        node.stop_on_signals(stop)
        await node.run_together(
            stop,
            server.serve(armed(app), server.bind("127.0.0.1", port), chosen, lambda: None, stop),
            run_all(service.context, stop),
        )


def main(arguments: list[str]) -> None:
    """Serve the database on the port."""
    database_url, port = arguments
    if os.environ.get(CRASH_AT):
        arm(os.environ[CRASH_AT])
    asyncio.run(serve(database_url, int(port)))
