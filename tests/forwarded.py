"""A receiver on loopback in a thread, for commands that forward notifications to it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECONDS_MAX = 30.0


@dataclass(frozen=True)
class Got:
    """A received request; names of headers are in lower case."""

    url: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Got], tuple[int, bytes]]


@dataclass
class Hook:
    """A receiver: its URL, what it got, and how it answers."""

    url: str
    answer: Answer = lambda _: (200, b"thank you")
    got: list[Got] = field(default_factory=list)

    def wait_for(self, count: int) -> list[Got]:
        """Wait until it got this many requests, and return them."""
        wait_until(lambda: len(self.got) >= count, lambda: f"{len(self.got)} of {count} requests")
        return self.got


def wait_until(condition: Callable[[], bool], describe: Callable[[], str]) -> None:
    """Wait until the condition holds."""
    until = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < until, describe()
        time.sleep(0.02)


@contextlib.contextmanager
def hook(answer: Answer | None = None, port: int = 0) -> Iterator[Hook]:
    """Run a receiver until the block ends."""
    made = Hook("")
    if answer is not None:
        made.answer = answer

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            headers = {name.lower(): value for name, value in self.headers.items()}
            got = Got(f"http://{self.headers['Host']}{self.path}", headers, self.rfile.read(length))
            made.got.append(got)
            status, body = made.answer(got)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status == 302:
                self.send_header("Location", made.url)
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
