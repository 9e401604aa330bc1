"""`paydesk serve --processes N`: several processes on one port, supervised, and how a new version takes over."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from paydesk_process import command, request
from serve_process import ConnectingClients, ServeProcess, runs
from waiting import HANGS_SECONDS, wait_until


@contextmanager
def _serving(
    database_url: str, folder: Path, *options: str, shared: bool = False, **variables: str
) -> Iterator[ServeProcess]:
    serve = ServeProcess(database_url, folder, *options, shared=shared, **variables)
    try:
        yield serve
    finally:
        serve.close()


def _pids(serve: ServeProcess) -> dict[int, int]:
    """The newest process of each number."""
    return {line["number"]: line["pid"] for line in serve.lines("process_ready")}


def _wait_until_gone(pid: int) -> None:
    wait_until(lambda: not runs(pid), lambda: f"{pid} still runs")


@pytest.mark.long("it starts several processes, and replaces each of them")
def test_processes_are_replaced(postgres_url: str, tmp_path: Path) -> None:
    """Both processes serve both listeners and share the rate limits. A deploy that fails keeps the old ones.

    A process that can't be replaced is tried again with a growing pause, until it can. A killed one is replaced, and
    its successor accepts pending connections. SIGHUP replaces all processes without refusing a connection. A killed
    supervisor leaves no process behind.
    """
    limit = {"PAYDESK_PAIRINGS_PER_MINUTE_ADDRESS": "2"}
    with _serving(postgres_url, tmp_path, "--processes", "2", shared=True, **limit) as serve:
        parent = serve.start()
        serve.wait_for("process_ready", 2)
        first = _pids(serve)
        assert set(first) == {1, 2}
        wait_until(lambda: request("GET", f"{serve.operators}/readyz")[0] == 200)
        _share_a_limit(serve)
        _fails_to_deploy(serve, first)
        with ConnectingClients(f"{serve.clients}/livez", clients=2) as knocking:
            os.kill(first[1], signal.SIGKILL)
            serve.wait_for("process_ready", 4)
            died = [line for line in serve.lines("process_exited") if line["number"] == 1]
            assert [(line["pid"], line["code"]) for line in died] == [(first[1], -signal.SIGKILL)]
            killed_with = list(knocking.failures)  # What it had let in and not answered is lost, as in any crash.
            old = _pids(serve)
            parent.send_signal(signal.SIGHUP)
            for count in (5, 6):  # One after the other.
                serve.wait_for("process_ready", count)
            serve.wait_for("deploy_finished", 1)
            for pid in old.values():
                _wait_until_gone(pid)
            wait_until(lambda: knocking.answers > 20)
        assert knocking.failures == killed_with, serve.lines("unhandled_exception")
        assert len(killed_with) <= 2
        second = _pids(serve)
        assert not set(old.values()) & set(second.values())
        served = {line["process"] for line in serve.lines("request")}
        assert served == {1, 2}
        parent.kill()
        parent.wait()
        for pid in second.values():
            _wait_until_gone(pid)


def _share_a_limit(serve: ServeProcess) -> None:
    """Of two pairings a minute each process allows one, whichever gets the connections."""
    asked = {"model": "NEWLAND_N950", "serial": "N950NCB801293324"}
    statuses = [request("POST", f"{serve.clients}/device/v1/pairings", body=asked)[0] for _ in range(12)]
    allowed = len(statuses) - statuses.count(429)
    assert 1 <= allowed <= 2, statuses


def _fails_to_deploy(serve: ServeProcess, first: dict[int, int]) -> None:
    """Without the keys no process starts: neither by SIGHUP nor in the place of one that is killed."""
    assert serve.process is not None
    keys = serve.folder / "paydesk.keys.json"
    hidden = keys.rename(serve.folder / "hidden.json")
    serve.process.send_signal(signal.SIGHUP)
    (ended,) = serve.wait_for("deploy_failed", 1)
    assert ended["number"] == 1
    assert all(runs(pid) for pid in first.values())
    os.kill(first[2], signal.SIGKILL)
    died = serve.wait_for("process_exited", 3)
    assert [line["number"] for line in died] == [2, 2, 2]
    # The first of them may have served for so long that the pause begins anew.
    assert died[1]["restart_after_seconds"] < died[2]["restart_after_seconds"]
    assert runs(first[1])
    hidden.rename(keys)
    serve.wait_for("process_ready", 3)
    wait_until(lambda: not _not_ready(serve))


@pytest.mark.slow
def test_a_new_supervisor_beside_the_old_one(postgres_url: str, tmp_path: Path) -> None:
    """By mistake it is refused; with --beside it shares the port, and the old one ends.

    Who is just being let in by the old one when it closes its door may be refused: one or two, in microseconds.
    """
    with _serving(postgres_url, tmp_path, shared=True) as serve:
        old = serve.start()
        serve.wait_for("listening", 1)
        refused = command("serve", folder=tmp_path, **serve.variables)
        assert refused.returncode == 1
        assert "--beside" in refused.stderr
        with ConnectingClients(f"{serve.clients}/livez") as knocking:
            new = serve.start("--beside", "--processes", "1")
            serve.wait_for("listening", 2)
            serve.end(old)
            wait_until(lambda: knocking.answers > 20)
        assert len(knocking.failures) <= 2
        wait_until(lambda: not _not_ready(serve))
        pids = _pids(serve)
        serve.end(new)
        assert not any(runs(pid) for pid in pids.values())


@pytest.mark.on_postgres
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://paydesk@127.0.0.1:9/paydesk", "cannot be reached"),
        ("sqlite:paydesk.db", "a SQLite file serves one process"),
    ],
)
def test_a_start_that_is_refused(tmp_path: Path, url: str, said: str) -> None:
    """It is refused once, with the same words and exit code as without --processes, and not tried again and again."""
    with _serving(url, tmp_path, "--processes", "2", shared=True) as serve:
        assert serve.start().wait(60) == 1
        text = serve.log.read_text()
        assert text.count(said) == 1, text
        assert "Traceback" not in text


def test_sigterm_drains(sqlite_url: str, tmp_path: Path) -> None:
    """After SIGTERM it says that it is not ready, and goes on answering until load balancers have heard of it.

    A second SIGTERM ends it at once.
    """
    with _serving(sqlite_url, tmp_path, PAYDESK_DRAIN_SECONDS="300") as serve:
        process = serve.start()
        serve.wait_for("listening", 1)
        process.terminate()
        wait_until(lambda: _not_ready(serve) == ["draining: this process is stopping"])
        assert request("GET", f"{serve.clients}/livez")[0] == 200
        serve.end(process)


def _not_ready(serve: ServeProcess) -> list[str]:
    """Return why it is not ready; nothing if it is."""
    status, answer = request("GET", f"{serve.clients}/readyz")
    details: list[str] = [] if status == 200 else answer["errors"][0]["details"]
    return details


def test_pending_connections_are_answered_at_shutdown(sqlite_url: str, tmp_path: Path) -> None:
    """A connection that the system has taken for a service which is about to end is let in, not reset."""
    with _serving(sqlite_url, tmp_path) as serve:
        process = serve.start()
        serve.wait_for("listening", 1)
        address = urlsplit(serve.clients)
        process.send_signal(signal.SIGSTOP)
        knocked = [socket.create_connection((address.hostname, address.port), HANGS_SECONDS) for _ in range(50)]
        for connection in knocked:
            connection.sendall(f"GET /livez HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
        process.terminate()
        process.send_signal(signal.SIGCONT)
        for connection in knocked:
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            assert answer.status == 200
            answer.close()
            connection.close()
        assert process.wait(HANGS_SECONDS) == 0


@pytest.mark.slow
def test_counted_events_are_recorded_at_shutdown(sqlite_url: str, tmp_path: Path) -> None:
    """Occurrences of a security event that were held back are written when the service ends."""
    with _serving(sqlite_url, tmp_path) as serve:
        made = command("operators", "create", "--name", "ana", "--json", folder=tmp_path, **serve.variables)
        token = json.loads(made.stdout)["token"]
        process = serve.start()
        serve.wait_for("listening", 1)
        application = {"name": "Till", "redirect_uris": ["https://till.example/callback"], "scopes": "read"}
        status, answer = request("POST", f"{serve.operators}/operator/v1/applications", token, application)
        assert status == 201, answer
        wanted = {"client_id": answer["client_id"], "topic": "orders", "url": "https://10.0.0.1/hook"}
        for _ in range(5):
            assert request("POST", f"{serve.operators}/operator/v1/subscriptions", token, wanted)[0] == 400
        serve.end(process)
        process = serve.start()
        serve.wait_for("listening", 2)
        events = request("GET", f"{serve.operators}/operator/v1/events", token)[1]["data"]
        counts = {event["kind"]: event["occurrences"] for event in events}
        assert counts["webhook_address_refused"] == 5, counts
        serve.end(process)
