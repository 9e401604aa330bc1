"""`/metrics` of `paydesk serve --processes N`: one page for all processes, also if one is killed or stopped."""

from __future__ import annotations

import http.client
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

import pytest

from paydesk_process import request
from scraped import Page, page_of
from serve_process import ServeProcess, runs
from waiting import HANGS_SECONDS, wait_until

TOKEN = "0123456789abcdef0123456789abcdef"
ORDER = "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3"
REFUSED = {"operation": "get_order", "code": "401"}


@contextmanager
def _serving(database_url: str, folder: Path) -> Iterator[ServeProcess]:
    """Run two processes; the file of the settings names the token."""
    token = folder / "metrics-token"
    token.touch(0o600)
    token.write_text(f"{TOKEN}\n")
    serve = ServeProcess(database_url, folder, "--processes", "2", shared=True, PAYDESK_METRICS_TOKEN=f"file:{token}")
    try:
        serve.start()
        serve.wait_for("process_ready", 2)
        yield serve
    finally:
        for line in serve.lines("process_ready"):
            _signal(line["pid"], signal.SIGCONT)
        serve.close()


def _signal(pid: int, number: signal.Signals) -> None:
    if runs(pid):
        os.kill(pid, number)


def _pid(serve: ServeProcess, number: int) -> int:
    """Return the newest process of a slot."""
    return {int(line["number"]): int(line["pid"]) for line in serve.lines("process_ready")}[number]


def _scrape(serve: ServeProcess) -> Page:
    """Read the page from whichever process gets the connection."""
    connection = http.client.HTTPConnection(serve.operators.removeprefix("http://"), timeout=HANGS_SECONDS)
    with closing(connection):
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return page_of(answer.read().decode())


def _whole(serve: ServeProcess) -> Page:
    """Return a page that lacks no process: on a busy machine one may not answer in time."""
    found: list[Page] = []

    def is_whole() -> bool:
        found[:] = [_scrape(serve)]
        return not found[0].total("paydesk_processes_silent")

    wait_until(is_whole)
    return found[0]


def _refused_orders(serve: ServeProcess, count: int) -> None:
    """Send requests, each on a new connection: the system distributes these."""
    for _ in range(count):
        assert request("GET", f"{serve.clients}{ORDER}", "TEST-x")[0] == 401


class _Connection:
    """A connection to one process, which stays open."""

    def __init__(self, serve: ServeProcess) -> None:
        address = serve.operators.removeprefix("http://")
        self._connection = http.client.HTTPConnection(address, timeout=HANGS_SECONDS)
        self.text()

    @classmethod
    def to(cls, serve: ServeProcess, number: int) -> Self:
        """Return a connection to the process of that number: the first samples on it are the process's own."""
        while True:
            connection = cls(serve)
            own = next(line for line in connection.text().splitlines() if line.startswith("paydesk_http_connections{"))
            if f'process="{number}"' in own:
                return connection
            connection.close()

    def text(self) -> str:
        """Read the page on this connection."""
        self._connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = self._connection.getresponse()
        assert answer.status == 200
        return answer.read().decode()

    def close(self) -> None:
        """Close it."""
        self._connection.close()


@pytest.mark.long("it starts several processes, and replaces one")
def test_a_page_counts_the_requests_of_all_processes(postgres_url: str, tmp_path: Path) -> None:
    """Also after one was killed: its samples are missing until its successor runs, whose numbers start at 0.

    The page needs the token, and is on the operators' listener alone.
    """
    with _serving(postgres_url, tmp_path) as serve:
        _refused_orders(serve, 40)
        before = _whole(serve)
        assert before.processes == {"1", "2"}
        assert before.total("paydesk_http_requests_total", **REFUSED) == 40
        assert before.total("paydesk_http_request_duration_seconds_count", operation="get_order") == 40
        assert before.total("paydesk_build_info") == before.total("paydesk_processes") == 2
        _needs_its_token(serve)

        first = _Connection.to(serve, 1)
        keys = serve.folder / "paydesk.keys.json"
        hidden = keys.rename(serve.folder / "hidden.json")
        os.kill(_pid(serve, 2), signal.SIGKILL)
        serve.wait_for("process_exited", 1)
        alone = page_of(first.text())
        first.close()
        assert alone.processes == {"1"}
        assert (alone.total("paydesk_processes"), alone.total("paydesk_processes_silent")) == (2, 1)
        kept = alone.total("paydesk_http_requests_total", **REFUSED)
        assert kept == before.total("paydesk_http_requests_total", process="1", **REFUSED)

        hidden.rename(keys)
        serve.wait_for("process_ready", 3)
        _refused_orders(serve, 10)
        after = _whole(serve)
        assert after.processes == {"1", "2"}
        assert after.total("paydesk_http_requests_total", **REFUSED) == kept + 10


def _needs_its_token(serve: ServeProcess) -> None:
    for token, message in (("", "authorization value not present"), (TOKEN[:-1] + "0", "invalid access token")):
        status, answer = request("GET", f"{serve.operators}/metrics", token)
        assert (status, answer["message"]) == (401, message)
    assert request("GET", f"{serve.clients}/metrics", TOKEN)[0] == 404


@pytest.mark.long("it starts several processes, and replaces each of them")
def test_a_stopped_process_is_left_out_and_delays_no_deployment(postgres_url: str, tmp_path: Path) -> None:
    """Pages that are read at once, and during the deployment, are each complete in themselves."""
    with _serving(postgres_url, tmp_path) as serve:
        assert _whole(serve).processes == {"1", "2"}
        connections = [_Connection.to(serve, 1) for _ in range(3)]
        stopped, parent = _pid(serve, 2), serve.process
        assert parent is not None
        os.kill(stopped, signal.SIGSTOP)
        with ThreadPoolExecutor() as threads:
            pages = [page_of(text) for text in threads.map(_Connection.text, connections)]
        for connection in connections:
            connection.close()
        assert [page.processes for page in pages] == [{"1"}] * 3
        assert [page.total("paydesk_processes_silent") for page in pages] == [1] * 3

        with _Scrapes(serve) as scrapes:
            parent.send_signal(signal.SIGHUP)
            serve.wait_for("deploy_finished", 1)
            assert runs(stopped), "the deployment waited for it"
            os.kill(stopped, signal.SIGCONT)
            wait_until(lambda: not runs(stopped))
            wait_until(lambda: scrapes.whole > 3)
        assert not scrapes.failures


class _Scrapes:
    """Threads that read pages all the time, whichever process answers."""

    def __init__(self, serve: ServeProcess) -> None:
        self._serve, self._stop = serve, threading.Event()
        self._threads = [threading.Thread(target=self._loop) for _ in range(2)]
        self.whole, self.failures = 0, list[str]()

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
                self.whole += _scrape(self._serve).processes == {"1", "2"}
            except (OSError, AssertionError) as error:
                self.failures.append(repr(error))
