"""Real `paydesk` processes for the tests: commands, and a service that runs until it is stopped."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from forks import Fork, Forks
from waiting import HANGS_SECONDS, wait_until

PAYDESK = str(Path(sys.executable).with_name("paydesk"))
ENDS_SECONDS_MAX = 15
"""Ending takes a tenth of a second, more on a busy machine. To wait for a poll, a receiver or a connection takes 20."""


def environment(**changes: str) -> dict[str, str]:
    """Return the environment without Paydesk's variables, plus `changes`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PAYDESK_")}
    return {**inherited, "NO_COLOR": "1", "COLUMNS": "120", **changes}


FORKS = Forks("paydesk_forked", parent="paydesk")


def start(
    arguments: Sequence[str], variables: Mapping[str, str], folder: Path, out: Path, errors: Path | None = None
) -> Fork | subprocess.Popen[bytes]:
    """Start `paydesk …` in `folder`, which adds its output to the files.

    It is forked from a process that has imported Paydesk, unless the variables are for Python itself.
    """
    for file in (out, errors or out):
        file.touch()
    if not any(name.startswith("PYTHON") for name in variables):
        return FORKS.start(arguments, environment(**variables), out, errors=errors, folder=folder)
    with out.open("ab") as written, (errors or out).open("ab") as said:
        return subprocess.Popen(
            [PAYDESK, *arguments],
            cwd=folder,
            env=environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=said,
        )


def command(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `paydesk …` in `folder` until it ends."""
    with tempfile.TemporaryDirectory() as written:
        out, errors = Path(written, "out"), Path(written, "errors")
        code = start(arguments, variables, folder, out, errors).wait(HANGS_SECONDS)
        return subprocess.CompletedProcess(["paydesk", *arguments], code, out.read_text(), errors.read_text())


class Dev:
    """A running `paydesk dev`; `lines` is its standard output so far, `errors` its standard error."""

    def __init__(self, folder: Path, *options: str, **variables: str) -> None:
        self.folder = folder
        name = uuid.uuid4().hex
        self._out, self._errors = folder / f"{name}.out", folder / f"{name}.err"
        self.process = start(("dev", *options), variables, folder, self._out, self._errors)

    @property
    def lines(self) -> list[str]:
        """Return the lines of its standard output."""
        return self._out.read_text().splitlines(keepends=True)

    @property
    def errors(self) -> list[str]:
        """Return the lines of its standard error."""
        return self._errors.read_text().splitlines(keepends=True)

    def wait_until_ready(self) -> str:
        """Return its address."""
        wait_until(lambda: self._is_ready() or self.process.poll() is not None, lambda: self.errors)
        assert self._is_ready(), "".join(self.errors)
        return self.lines[0].removeprefix("paydesk ready ").strip()

    def end(self) -> None:
        """Send SIGTERM, after which it waits for nothing."""
        self.process.terminate()
        self.process.wait(ENDS_SECONDS_MAX)

    def close(self) -> None:
        """Kill the process if it runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(HANGS_SECONDS)

    def _is_ready(self) -> bool:
        return "paydesk ready " in self._out.read_text()


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
