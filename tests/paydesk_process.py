"""Real `paydesk` processes for the tests: commands, and a service that runs until it is stopped."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PAYDESK = str(Path(sys.executable).with_name("paydesk"))
READY_SECONDS_MAX = 30.0


def environment(**changes: str) -> dict[str, str]:
    """Return the environment without Paydesk's variables, plus `changes`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PAYDESK_")}
    return {**inherited, "NO_COLOR": "1", "COLUMNS": "120", **changes}


def command(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `paydesk …` in `folder` until it ends."""
    return subprocess.run(
        [PAYDESK, *arguments],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Dev:
    """A running `paydesk dev`; `lines` is its standard output, `errors` its standard error."""

    def __init__(self, folder: Path, *options: str, **variables: str) -> None:
        self.folder, self.lines, self.errors = folder, list[str](), list[str]()
        self.process = subprocess.Popen(
            [PAYDESK, "dev", *options],
            cwd=folder,
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._ready = threading.Event()
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.lines)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.errors)),
        ]
        for reader in self._readers:
            reader.start()

    def wait_until_ready(self) -> str:
        """Return its address."""
        assert self._ready.wait(READY_SECONDS_MAX), "".join(self.errors)
        assert self.lines, "".join(self.errors)
        return self.lines[0].removeprefix("paydesk ready ").strip()

    def end(self) -> float:
        """Send SIGTERM; return how many seconds it took to end."""
        started = time.monotonic()
        self.process.terminate()
        self.process.wait(20)
        self.close()
        return time.monotonic() - started

    def close(self) -> None:
        """Kill the process if it runs, and close its streams."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(20)
        for reader in self._readers:
            reader.join(20)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _read(self, stream: Any, lines: list[str]) -> None:
        for line in stream:
            lines.append(line)
            if line.startswith("paydesk ready "):
                self._ready.set()
        self._ready.set()


@contextlib.contextmanager
def dev(folder: Path, *options: str, **variables: str) -> Iterator[Dev]:
    """Run `paydesk dev` on a free port, with its data in `folder/.paydesk`."""
    running = Dev(folder, "--port", "0", *options, **variables)
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.close()


def credentials(folder: Path) -> dict[str, Any]:
    """Return the credentials file in `folder`."""
    document: dict[str, Any] = json.loads((folder / ".paydesk" / "credentials.json").read_text())
    return document


def request(
    method: str, url: str, token: str = "", body: Any = None, headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    """Send a request; return the status and the JSON document of the answer."""
    sent = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    sent_request = urllib.request.Request(  # noqa: S310 - to the test's own service
        url, None if body is None else json.dumps(body).encode(), {**sent, **(headers or {})}, method=method
    )
    try:
        with urllib.request.urlopen(sent_request, timeout=30) as answer:  # noqa: S310 - the same
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null")
