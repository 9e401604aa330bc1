"""`paydesk doctor --url` checks the service through its proxy: Host, and the response of a poll."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from paydesk.commands.local.address_check import NO_TOKEN, TOKEN, findings
from service import Service

READY = (200, {"status": "ready", "version": "1"})
REFUSED = (401, {"errors": [{"code": "unauthorized", "message": ""}]})
LOST = (421, {"errors": [{"code": "misdirected_request", "message": ""}]})


@contextmanager
def _proxy(*answers: tuple[int, Any]) -> Iterator[str]:
    """Run a proxy that answers one request after another; a status of 0 closes the connection."""
    left = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, document = next(left)
            if not status:
                self.close_connection = True
                return
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Location", "/")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([READY, REFUSED, (504, b"<html>")], "A poll ended after 0 s: 504 (not a response of Paydesk). The proxy must"),
        ([READY, REFUSED, (0, None)], "A poll ended after 0 s: no response (Remote end closed"),
        ([READY, REFUSED, (307, b"")], "A poll ended after 0 s: 307 (not a response of Paydesk)."),
        ([READY, LOST], "The service does not get the host 127.0.0.1:"),
        ([READY, (404, {"errors": [{"code": "not_found"}]})], "Give the address for clients."),
        ([(503, {"errors": [{"code": "not_ready"}]})], "GET /readyz: 503 (not_ready)."),
        ([READY, (400, {"errors": "no"})], "GET /v1/events without a token: 400 (not a response of Paydesk)."),
        ([(200, b"hello")], "GET /readyz: 200 (not a response of Paydesk)."),
        ([READY, REFUSED, REFUSED], f"Give {TOKEN} a valid access token."),
    ],
)
def test_what_a_proxy_breaks_is_found(answers: list[tuple[int, Any]], found: str, tmp_path: Path) -> None:
    """Each problem has what to change, and the command exits with 1."""
    with _proxy(*answers) as url:
        ended = command("doctor", "--url", url, folder=tmp_path, **{TOKEN: "TEST-1"})
    assert (ended.returncode, found in ended.stdout) == (1, True), ended.stdout


async def test_a_service_without_a_problem(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll that ends when it should is none; without a token there is no poll, and a note says so."""
    monkeypatch.setenv(TOKEN, service.access_token)
    assert await asyncio.to_thread(findings, service.base_url, 0) == []
    monkeypatch.delenv(TOKEN)
    with _proxy(READY, REFUSED) as url:
        ended = await asyncio.to_thread(command, "doctor", "--url", url, folder=Path("/"))
    assert (ended.returncode, NO_TOKEN in ended.stderr) == (0, True)


def test_an_address_must_be_that_of_a_service(tmp_path: Path) -> None:
    """The usage is refused."""
    ended = command("doctor", "--url", "pay.example.com", folder=tmp_path)
    assert (ended.returncode, "is not the address of a service" in ended.stderr) == (2, True)


@pytest.mark.parametrize("options", [("--invariants",), ("--data", "."), ("--settings", "paydesk.toml")])
def test_options_of_the_database_are_refused_beside_an_address(options: tuple[str, ...], tmp_path: Path) -> None:
    """They would be ignored, and "No problems found." would be said of what was not looked at."""
    ended = command("doctor", "--url", "https://pay.example.com", *options, folder=tmp_path)
    assert (ended.returncode, "Leave out --invariants, --settings and --data." in " ".join(ended.stderr.split())) == (
        2,
        True,
    )
