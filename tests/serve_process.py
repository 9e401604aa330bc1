"""A real `paydesk serve` with several processes, and clients that connect during its restarts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from command_line import command
from free_port import free_port
from paydesk_process import PAYDESK, environment

START_SECONDS_MAX = 60.0
PAUSE_SECONDS = 0.01
"""Between the requests of one client, which leaves the processes the time to start."""


class ServeProcess:
    """`paydesk serve` with its log; its ports and keys are prepared before it starts."""

    def __init__(self, database_url: str, folder: Path, *options: str, **variables: str) -> None:
        self.folder, self.options = folder, options
        clients, operators = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.clients, self.operators = f"http://{clients}", f"http://{operators}"
        self.variables = {
            "PAYDESK_DATABASE_URL": database_url,
            "PAYDESK_PUBLIC_URL": self.clients,
            "PAYDESK_LISTEN": clients,
            "PAYDESK_OPERATOR_LISTEN": operators,
            "PAYDESK_LOG_FORMAT": "json",
            **variables,
        }
        self.log = folder / "serve.log"
        self.process: subprocess.Popen[bytes] | None = None
        if not (folder / "paydesk.keys.json").exists():
            assert command("keys", "add", folder=folder).returncode == 0

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start another process without waiting."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [PAYDESK, "serve", *self.options, *options],
                cwd=self.folder,
                env=environment(**self.variables),
                stdout=log,
                stderr=log,
            )
        return self.process

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """Return the lines of the log, or those of one event."""
        found = []
        for line in self.log.read_text().splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return [line for line in found if not event or line["event"] == event]

    def wait_for(self, event: str, count: int) -> list[dict[str, Any]]:
        """Wait until the log has `count` lines of the event."""
        until = time.monotonic() + START_SECONDS_MAX
        while True:
            has_ended = self.process is not None and self.process.poll() is not None
            if len(found := self.lines(event)) >= count:
                return found
            assert not has_ended, self.log.read_text()[-3000:]
            assert time.monotonic() < until, self.log.read_text()[-3000:]
            time.sleep(0.02)

    def end(self, process: subprocess.Popen[bytes]) -> float:
        """Send SIGTERM; return how many seconds it took to exit with 0."""
        started = time.monotonic()
        process.terminate()
        assert process.wait(30) == 0, self.log.read_text()[-3000:]
        return time.monotonic() - started

    def close(self) -> None:
        """Kill all its processes."""
        for line in self.lines("process_ready"):
            with suppress(ProcessLookupError):
                os.kill(line["pid"], signal.SIGKILL)
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class ConnectingClients:
    """Clients that send requests in a loop, with short pauses, each on a new connection, and record every failure."""

    def __init__(self, url: str, clients: int = 4) -> None:
        self._url, self._stop = url, threading.Event()
        self.answers, self.failures = 0, list[str]()
        self._threads = [threading.Thread(target=self._loop) for _ in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                with urllib.request.urlopen(self._url, timeout=20) as answer:  # noqa: S310 - our own address
                    answer.read()
            except OSError as error:
                self.failures.append(repr(error))
            else:
                self.answers += 1
            time.sleep(PAUSE_SECONDS)


def runs(pid: int) -> bool:
    """Whether the process still runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
