"""All that the console reads and changes goes through requests that a command can send as well.

The paths that the code of the console names are compared with a table of commands. Each command is run against a
server that records its requests and refuses them.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import paydesk.console
from command_line import command
from every_operation import OPERATIONS
from paydesk.console.api import BASE, Api
from paydesk.operators.properties import properties
from tables import each

TOKEN = "PDO-" + "0" * 40
ID = "01KD0000000000000000000000"
ORDER = f"ORD{ID}"
VERBS = {name: "GET" if name == "text" else name.upper() for name in ("get", "text", "post", "patch", "put", "delete")}
REASON = ("--reason", "The buyer came back")
URL = "https://shop.example/hooks"
CODE = "BCDF-GHJK"
PAIR = ("terminals", "pair", CODE, "--seller", "1", "--yes")
PAIRING = {"user_code": CODE, "model": "N950", "serial": "1", "address": "127.0.0.1", "paired": False}

Call = tuple[str, str]


class Command(NamedTuple):
    """The arguments of `paydesk` that send the request; `before` are the answers to what the command asks first."""

    arguments: tuple[str, ...]
    before: Mapping[Call, Any]
    stdin: str


def run(*arguments: str, before: Mapping[Call, Any] | None = None, stdin: str = "") -> Command:
    """Return the command."""
    return Command(arguments, before or {}, stdin)


COMMANDS: dict[Call, Command] = {
    ("GET", "/demo/inbox"): run("inbox"),
    ("GET", "/dev/clock"): run("clock", "show"),
    ("POST", "/dev/clock"): run("clock", "freeze"),
    ("POST", "/dev/reset"): run("reset", "--yes"),
    ("GET", "/virtual/v1/terminals/{}/screen"): run("terminals", "screen", ID),
    ("POST", "/virtual/v1/terminals/{}/actions"): run("terminals", "act", ID, "power_off"),
    ("POST", "/dev/faults"): run("faults", "add", "webhook", "*", "twice", "--subscription", ID),
    ("DELETE", "/dev/faults/{}"): run("faults", "clear", ID),
    ("POST", "/virtual/v1/terminals/{}/orders"): run("orders", "create", "24.90", "--as-operator", "--terminal", ID),
    ("POST", "acquirers/{}/test"): run("acquirers", "test", "main"),
    ("DELETE", "applications/{}/secrets/{}"): run("apps", "secrets", "remove", ID, "1"),
    ("GET", "attention"): run("attention"),
    ("GET", "deliveries/{}"): run("deliveries", "show", ID),
    ("POST", "deliveries/{}/resend"): run("webhooks", "resend", ID),
    ("POST", "deliveries/{}/send-to"): run("webhooks", "resend", ID, "--to", URL),
    ("POST", "deliveries/{}/verify"): run("deliveries", "verify", ID),
    ("GET", "exports/orders"): run("orders", "export"),
    ("GET", "figures"): run("figures"),
    ("POST", "operators"): run("operators", "create", "--name", "ana"),
    ("POST", "operators/{}/password-link"): run("operators", "link", ID),
    ("GET", "orders/{}"): run("orders", "get", ORDER),
    ("POST", "orders/{}/cancel"): run("orders", "cancel", ORDER, *REASON),
    ("POST", "orders/{}/refund"): run("orders", "refund", ORDER, *REASON),
    ("POST", "password"): run("operators", "password", stdin="The current one\nAnother one\n"),
    ("GET", "pairings/{}"): run(*PAIR),
    ("POST", "pairings/{}"): run(*PAIR, before={("GET", f"pairings/{CODE}"): PAIRING}),
    ("DELETE", "pairings/{}"): run("terminals", "pair", CODE, "--deny"),
    ("POST", "requests/{}/send"): run("requests", "send", ID),
    ("GET", "search"): run("search", "A-1"),
    ("DELETE", "sessions"): run("sessions", "end", "--operator", "all"),
    ("DELETE", "sessions/{}"): run("sessions", "end", ID),
    ("POST", "terminals"): run("terminals", "create", "--virtual", "--seller", "1"),
    ("GET", "terminals/{}/queue"): run("terminals", "queue", ID),
    ("POST", "terminals/{}/release"): run("terminals", "release", ID, *REASON),
}
"""The commands, written by hand, that send what the console sends."""


def row_calls() -> dict[Call, Command]:
    """Return what the rows of operators send, each with the first of its examples that needs no file."""
    found = {}
    for row in OPERATIONS:
        if row.action is None:
            continue
        call = row.method, re.sub(r"\{\w+\}", "{}", row.path).removeprefix(BASE)
        if row.action.command is None:
            found[call] = COMMANDS[call]
            continue
        asked = properties(row.body) if row.body is not None else ()
        needed = [one.shown.option or f"--{one.name.replace('_', '-')}" for one in asked if one.shown.credential]
        examples = (one for one in row.action.words.examples if "<" not in one and all(flag in one for flag in needed))
        found[call] = run(*row.action.command.split(), *shlex.split(next(examples)))
    return found


CALLS = {**COMMANDS, **row_calls()}
"""All commands that send what the console sends, or show what one of its pages shows."""


def console_files() -> list[Path]:
    """Return the modules with screens: of the console, of the nouns and of the kit."""
    sources = Path(paydesk.console.__path__[0]).parents[1]
    files = sorted(file for folder in ("paydesk", "paydesk_dev") for file in (sources / folder).rglob("*.py"))
    return [file for file in files if "paydesk.console" in file.read_text()]


def calls_of_console() -> set[Call]:
    """Return the methods and paths in the code of the console."""
    found: set[Call] = set()
    for file in console_files():
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                file.name in ("forms.py", "list_pages.py")
                or not isinstance(node, ast.Call)
                or not isinstance(node.func, ast.Attribute)
            ):
                continue  # Forms and lists of rows send what the rows say.
            if node.func.attr not in VERBS or not _is_api(node.func.value):
                continue
            assert node.args, f"{file.name}:{node.lineno} names no path"
            path = node.args[0]
            assert isinstance(path, ast.Constant), f"{file.name}:{node.lineno}: the path must be a literal"
            found.add((VERBS[node.func.attr], str(path.value)))
    return found


def _is_api(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "api") or (isinstance(node, ast.Name) and node.id == "api")


def target(path: str) -> str:
    """Return the path of a request, below `/operator/v1` unless it begins with `/`."""
    return path if path.startswith("/") else BASE + path


def operation_paths() -> set[Call]:
    """Return methods and paths of all operations, with `{}` for each parameter."""
    found = set()
    for one in OPERATIONS:
        parts = ("{}" if part.startswith("{") else part for part in one.path.split("/"))
        found.add((one.method, "/".join(parts)))
    return found


def test_every_call_of_the_console_has_a_command() -> None:
    """The console can do nothing that the command line cannot. A call that is not made any more has no line here."""
    assert calls_of_console() | set(row_calls()) == set(CALLS)


def test_the_console_has_no_other_way_to_the_api() -> None:
    """The console calls the interface by these methods."""
    public = {name for name in vars(Api) if not name.startswith("_")} - {"of", "address", "request_id", "token"}
    assert public - {"in_process"} == set(VERBS)


def test_every_call_is_an_operation() -> None:
    """Of those that `/operator/v1` documents, or of development."""
    assert {(method, target(path)) for method, path in CALLS} - operation_paths() == set()


class Recorder(HTTPServer):
    """A server that records requests and refuses them, but for those that `before` has an answer to."""

    def __init__(self, before: Mapping[Call, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.before = {(method, target(path)): answer for (method, path), answer in before.items()}
        self.received: list[Call] = []

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.server_port}"


class _Answering(BaseHTTPRequestHandler):
    server: Recorder

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        assert self.headers["authorization"] == f"Bearer {TOKEN}"
        call = self.command, self.path.partition("?")[0]
        self.server.received.append(call)
        is_known = call in self.server.before
        refused = {"errors": [{"code": "refused", "message": "The request was recorded.", "details": []}]}
        body = json.dumps(self.server.before[call] if is_known else refused).encode()
        self.send_response(200 if is_known else 418)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer  # noqa: N815 - their names there

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
        """Print nothing."""


@contextmanager
def recorder(before: Mapping[Call, Any]) -> Iterator[Recorder]:
    """Run a recording server."""
    server = Recorder(before)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@each("call", sorted(CALLS))
def test_command_sends_the_call(call: Call, tmp_path: Path) -> None:
    """And says that it was refused."""
    method, path = call
    arguments, before, stdin = CALLS[call]
    with recorder(before) as server:
        given = {"PAYDESK_BASE_URL": server.url, "PAYDESK_OPERATOR_TOKEN": TOKEN}
        ended = command(*arguments, folder=tmp_path, stdin=stdin, **given)
    assert server.received, ended.stderr
    sent = server.received[-1]
    ids = {ID, ORDER, *(argument for argument in arguments if not argument.startswith("-"))}
    parts = ("{}" if part in ids and part not in path.split("/") else part for part in sent[1].split("/"))
    assert (sent[0], "/".join(parts)) == (method, target(path))
    assert (ended.returncode, "The request was recorded." in ended.stderr) == (1, True), ended.stderr
    assert len(server.received) == 1 + len(before)
