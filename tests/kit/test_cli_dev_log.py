"""What `make run` and `paydesk dev` show on a terminal: the user's requests and the webhooks, one line each."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from forks import Fork
from paydesk_process import FORKS
from waiting import HANGS_SECONDS, wait_until

ROOT = Path(__file__).parents[2]
RUN = (sys.executable, str(ROOT / "scripts/run.py"), "--port", "0", "--data", "data")
DEV = ("dev", "--port", "0", "--data", "data")
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
ORDER = r"ORD[0-9A-Z]{26}"


@dataclass
class Shown:
    """The output of a command on a terminal, as it comes."""

    folder: Path
    text: str = ""
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def lines(self) -> list[str]:
        """Return the lines, without colors."""
        return ESCAPES.sub("", self.text).splitlines()

    def wait(self, condition: Callable[[str], object]) -> None:
        """Wait until the output satisfies the condition."""

        def is_so() -> bool:
            has_ended = self.done.is_set()
            found = bool(condition(ESCAPES.sub("", self.text)))
            assert found or not has_ended, self.text
            return found

        wait_until(is_so, lambda: self.text)

    def credentials(self) -> dict[str, Any]:
        """Return the credentials file."""
        content: dict[str, Any] = json.loads((self.folder / "data/credentials.json").read_text())
        return content

    def request(self, method: str, path: str, body: Any = None, *, authorized: bool = True) -> int:
        """Send a request with the test token and return the status."""
        made = self.credentials()
        headers = {"Content-Type": "application/json", "X-Idempotency-Key": os.urandom(8).hex()}
        if authorized:
            headers["Authorization"] = f"Bearer {made['test']['access_token']}"
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(made["base_url"] + path, data, headers, method=method)  # noqa: S310 - over http
        try:
            with urllib.request.urlopen(asked) as answer:  # noqa: S310 - over http
                answer.read()
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


def _started(
    folder: Path, command: tuple[str, ...], variables: dict[str, str], terminal: int
) -> Fork | subprocess.Popen[bytes]:
    """Start the program or `paydesk dev …` on a terminal."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PAYDESK_", "NO_COLOR"))}
    environment = {**kept, "TERM": "xterm", **variables}
    if command == DEV:
        return FORKS.start(command, environment, Path(os.ttyname(terminal)), folder=folder)
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )


@contextlib.contextmanager
def on_a_terminal(folder: Path, command: tuple[str, ...], **variables: str) -> Iterator[Shown]:
    """Run the command on a terminal of its own until the block ends."""
    own, its = pty.openpty()
    shown = Shown(folder)
    process = _started(folder, command, variables, its)
    os.close(its)

    def read() -> None:
        # A terminal without a process at its other end raises an error.
        with contextlib.suppress(OSError):
            while part := os.read(own, 65536):
                shown.text += part.decode(errors="replace").replace("\r\n", "\n")
        shown.done.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield shown
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(HANGS_SECONDS)
        finally:
            process.kill()
            process.wait(HANGS_SECONDS)
            reader.join()
            os.close(own)


@pytest.mark.long("starts the service as a person does, and follows a payment")
@pytest.mark.parametrize(
    ("command", "begins"), [(RUN, "Your requests, the webhooks and all warnings follow."), (DEV, "paydesk ready")]
)
def test_requests_and_webhooks_are_shown(tmp_path: Path, command: tuple[str, ...], begins: str) -> None:
    """Each on a line; nothing of what virtual terminals and the demo inbox do by themselves.

    The log file of `make run` has everything.
    """
    with on_a_terminal(tmp_path, command) as shown:
        shown.wait(lambda text: begins in text and (tmp_path / "data/credentials.json").exists())
        terminal = next(one["id"] for one in shown.credentials()["terminals"] if one["script"] != "manual")
        order = {
            "type": "point",
            "transactions": {"payments": [{"amount": "12.50"}]},
            "config": {"point": {"terminal_id": terminal}},
        }
        assert shown.request("POST", "/v1/orders", order) == 201
        shown.wait(lambda text: "order.processed → http" in text)
        assert shown.request("GET", "/users/me") == 200
        assert shown.request("GET", "/users/me", authorized=False) == 401
        assert shown.request("POST", "/v1/orders", {**order, "type": "qr"}) == 400
        assert shown.request("GET", "/nowhere/%1b%5b2J") == 404
        assert shown.request("GET", "/livez") == 200
        shown.wait(lambda text: "/nowhere/" in text)
    assert any(re.match(r"console http://127\.0\.0\.1:\d+/console/enter\?key=", line) for line in shown.lines)
    following = shown.lines[next(at for at, line in enumerate(shown.lines) if begins in line) :]
    lines = [line for line in following if re.match(r"\d\d:\d\d:\d\d ", line)]
    for pattern in (
        rf"POST    /v1/orders +201 +\d+ ms  {ORDER}$",
        rf"webhook order\.created → http://127\.0\.0\.1:\d+/demo/inbox +200 +\d+ ms  {ORDER}$",
        rf"webhook order\.at_terminal → http://127\.0\.0\.1:\d+/demo/inbox +200 +\d+ ms  {ORDER}$",
        rf"webhook order\.processed → http://127\.0\.0\.1:\d+/demo/inbox +200 +\d+ ms  {ORDER}$",
        r"GET     /users/me +200 +\d+ ms$",
        r"GET     /users/me +401 +\d+ ms  unauthorized  no token$",
        r"POST    /v1/orders +400 +\d+ ms  property_value  '\$\.type' - must be 'point'",
        r"GET     /nowhere/ \[2J +404 +\d+ ms  not_found  unknown path$",
    ):
        assert sum(bool(re.search(pattern, line)) for line in lines) == 1, (pattern, lines)
    assert len(lines) == 8, lines
    assert "\x1b[2J" not in shown.text
    assert "\x1b[32m201\x1b[0m" in shown.text
    assert "Traceback" not in shown.text
    if command == RUN:
        _has_everything(tmp_path / "data/service.log")


def _has_everything(log: Path) -> None:
    """As JSON: polls and the inbox's requests too."""
    events = [json.loads(line) for line in log.read_text().splitlines()]
    paths = {event["path"] for event in events if event["event"] == "request"}
    assert {"/device/v1/next", "/demo/inbox", "/users/me", "/v1/orders"} <= paths
    assert all(event["request_id"] and event["address"] for event in events if event["event"] == "request")


def test_dev_shows_no_colors_if_asked(tmp_path: Path) -> None:
    """`NO_COLOR` leaves the lines without."""
    with on_a_terminal(tmp_path, DEV, NO_COLOR="1") as shown:
        shown.wait(lambda text: "paydesk ready" in text)
        assert shown.request("GET", "/users/me") == 200
        shown.wait(lambda text: "/users/me" in text)
    assert "\x1b[" not in shown.text


def test_a_failed_start_says_why(tmp_path: Path) -> None:
    """The service's own message is shown, which is not a line of the log."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/paydesk.db").write_text("this is no database, and longer than the header of one" * 20)
    with on_a_terminal(tmp_path, RUN) as shown:
        assert shown.done.wait(HANGS_SECONDS)
    assert "paydesk ready" not in shown.text
    assert "paydesk.db" in shown.text, shown.text


def test_dev_logs_json_if_asked(tmp_path: Path) -> None:
    """Also on a terminal."""
    with on_a_terminal(tmp_path, DEV, PAYDESK_LOG_FORMAT="json") as shown:
        shown.wait(lambda text: '"path":"/device/v1/next"' in text or '"path":"/device/v1/hello"' in text)
