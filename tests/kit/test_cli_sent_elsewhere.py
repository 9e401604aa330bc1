"""`paydesk webhooks resend --to` against a running `paydesk dev` and a receiver at another port."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from command_line import command

UNKNOWN = "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"


class Receiver(HTTPServer):
    """A receiver that answers with this status and body."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.status, self.body = status, body.encode()
        self.received: list[str] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}/hook"


class _Answering(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append(self.headers["X-Signature"])
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
        """Print nothing."""


@contextmanager
def receiver(status: int, body: str) -> Iterator[Receiver]:
    """Run a receiver."""
    server = Receiver(status, body)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def delivery_id(folder: Path) -> str:
    """Return a delivery of a payment to the demo inbox."""
    assert command("pay", "12.50", folder=folder).returncode == 0
    (first, *_) = listed(folder)
    return str(first["id"])


def listed(folder: Path) -> list[dict[str, Any]]:
    """Return the deliveries."""
    found: list[dict[str, Any]] = json.loads(command("deliveries", "list", "--json", folder=folder).stdout)
    return found


def shown(folder: Path, delivery_id: str) -> Any:
    """Return a delivery."""
    return json.loads(command("deliveries", "show", delivery_id, "--json", folder=folder).stdout)


def test_the_answer_is_printed(folder: Path, delivery_id: str) -> None:
    """A 2xx exits 0; nothing of the delivery changes."""
    before = shown(folder, delivery_id)
    with receiver(201, "thank you\nand \x1b[bye") as server:
        ended = command("webhooks", "resend", delivery_id, "--to", server.url, folder=folder)
    assert (ended.returncode, ended.stderr) == (0, "")
    first, *body = ended.stdout.splitlines()
    assert first.startswith("201 in ")
    assert body == ["thank you", "and \N{REPLACEMENT CHARACTER}[bye"]
    assert len(server.received) == 1
    assert shown(folder, delivery_id) == before


@pytest.mark.parametrize(
    ("status", "words"), [(500, "answered 500: only a 2xx"), (302, "answered 302"), (401, "with another secret")]
)
def test_another_answer_exits_1(folder: Path, delivery_id: str, status: int, words: str) -> None:
    """The answer is printed; with --json as the response."""
    with receiver(status, "no") as server:
        ended = command("webhooks", "resend", delivery_id, "--to", server.url, folder=folder)
        assert (ended.returncode, words in ended.stderr) == (1, True), ended.stderr
        assert ended.stdout.splitlines()[1:] == ["no"]
        ended = command("webhooks", "resend", delivery_id, "--to", server.url, "--json", folder=folder)
    document = json.loads(ended.stdout)
    assert (ended.returncode, document["answer"], document["url"]) == (1, {"status": status, "body": "no"}, server.url)


def test_no_answer_exits_1(folder: Path, delivery_id: str) -> None:
    """With the reason; with --json it is in the response too."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        ended = command("webhooks", "resend", delivery_id, "--to", url, folder=folder)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert f"No answer from {url} after " in ended.stderr
        assert "Connection refused" in ended.stderr
        ended = command("webhooks", "resend", delivery_id, "--to", url, "--json", folder=folder)
        assert (ended.returncode, "Connection refused" in json.loads(ended.stdout)["error"]) == (1, True)


def test_wrong_urls_and_ids(folder: Path, delivery_id: str) -> None:
    """What is no URL exits 2 before anything is sent; an address of a private network is refused by the service."""
    for url, code, words in (
        ("x", 2, "--to must be"),
        ("", 2, "--to must be"),
        ("http://127.0.0.1/#x", 2, "must not have a fragment"),
        ("http://10.0.0.1/", 1, "'$.url' - must resolve to public addresses only"),
    ):
        ended = command("webhooks", "resend", delivery_id, "--to", url, folder=folder)
        assert (ended.returncode, ended.stdout, words in ended.stderr) == (code, "", True), (url, ended.stderr)
    ended = command("webhooks", "resend", f"{UNKNOWN}.{UNKNOWN}", "--to", "http://127.0.0.1:9/", folder=folder)
    assert (ended.returncode, "delivery_not_found" in ended.stderr) == (1, True)


def test_help_has_an_example(folder: Path) -> None:
    """Of the option."""
    shown = " ".join(command("webhooks", "resend", "--help", folder=folder).stdout.split())
    assert "--to http://localhost:3000/hook" in shown
