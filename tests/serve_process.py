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
from forks import Fork
from free_port import free_port
from paydesk_process import start
from waiting import HANGS_SECONDS, wait_until

PAUSE_SECONDS = 0.01
"""Between the requests of one client, which leaves the processes the time to start."""


class ServeProcess:
    """`paydesk serve` with its log, on free ports; its keys are prepared before it starts.

    With `shared`, its ports are chosen before it starts, so that several processes can share them.
    """

    def __init__(self, database_url: str, folder: Path, *options: str, shared: bool = False, **variables: str) -> None:
        self.folder, self.options = folder, options
        self.variables = {
            "PAYDESK_DATABASE_URL": database_url,
            "PAYDESK_PUBLIC_URL": "http://127.0.0.1:1",
            "PAYDESK_LISTEN": f"127.0.0.1:{free_port() if shared else 0}",
            "PAYDESK_OPERATOR_LISTEN": f"127.0.0.1:{free_port() if shared else 0}",
            "PAYDESK_LOG_FORMAT": "json",
            **variables,
        }
        self.log = folder / "serve.log"
        self.process: Fork | subprocess.Popen[bytes] | None = None
        if not (folder / "paydesk.keys.json").exists():
            assert command("keys", "add", folder=folder).returncode == 0

    @property
    def clients(self) -> str:
        """Return the address for clients, once it listens."""
        return f"http://{self.lines('listening')[-1]['clients']}"

    @property
    def operators(self) -> str:
        """Return the address for operators, once it listens."""
        return f"http://{self.lines('listening')[-1]['operators']}"

    def start(self, *options: str) -> Fork | subprocess.Popen[bytes]:
        """Start another process without waiting."""
        self.process = start(("serve", *self.options, *options), self.variables, self.folder, self.log)
        return self.process

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """Return the lines of the log, or those of one event."""
        found = []
        for line in self.log.read_text().splitlines():
            if event not in line:
                continue
            with suppress(ValueError):
                found.append(json.loads(line))
        return [line for line in found if not event or line["event"] == event]

    def wait_for(self, event: str, count: int) -> list[dict[str, Any]]:
        """Wait until the log has `count` lines of the event."""

        def are_there() -> bool:
            has_ended = self.process is not None and self.process.poll() is not None
            found = len(self.lines(event)) >= count
            assert found or not has_ended, self.log.read_text()[-3000:]
            return found

        wait_until(are_there, lambda: self.log.read_text()[-3000:])
        return self.lines(event)

    def end(self, process: Fork | subprocess.Popen[bytes]) -> None:
        """Send SIGTERM; it exits with 0."""
        process.terminate()
        assert process.wait(HANGS_SECONDS) == 0, self.log.read_text()[-3000:]

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
                with urllib.request.urlopen(self._url, timeout=HANGS_SECONDS) as answer:  # noqa: S310 - our own address
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
