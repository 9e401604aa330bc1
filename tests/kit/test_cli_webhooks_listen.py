"""`paydesk webhooks listen` as a process, with a running `paydesk dev` and a receiver."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dev_thread
from command_line import command as run_here
from forwarded import Got, hook, wait_until
from free_port import refusing_port
from paydesk_process import ENDS_SECONDS_MAX, command, credentials, dev, request, start
from waiting import HANGS_SECONDS
from webhook_validators import in_python

VALID = dict.fromkeys(("mercadopago for Python", "standardwebhooks for Python", "svix for Python"), "")


class Listener:
    """A running `paydesk webhooks listen`."""

    def __init__(self, folder: Path, *options: str, **variables: str) -> None:
        name = uuid.uuid4().hex
        self._out, self._errors = folder / f"{name}.out", folder / f"{name}.err"
        self.process = start(("webhooks", "listen", *options), variables, folder, self._out, self._errors)

    @property
    def out(self) -> str:
        """Its standard output so far."""
        return self._out.read_text()

    @property
    def errors(self) -> str:
        """Its standard error so far."""
        return self._errors.read_text()

    def lines(self) -> list[dict[str, Any]]:
        """Return its lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    def wait_for(self, text: str) -> None:
        """Wait until it has printed the text on either stream."""

        def is_there() -> bool:
            assert self.process.poll() is None or text in self.out + self.errors, self.errors
            return text in self.out + self.errors

        wait_until(is_there, lambda: f"no {text!r} in {self.out}{self.errors}")

    def wait_for_lines(self, count: int) -> list[str]:
        """Wait until it has printed this many lines, and return them."""
        wait_until(lambda: len(self.out.splitlines()) >= count, lambda: f"{self.out}{self.errors}")
        return self.out.splitlines()

    def interrupt(self) -> None:
        """Send SIGINT, as Ctrl-C does, at which it ends at once with exit code 0."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(ENDS_SECONDS_MAX) == 0, self.errors


@contextlib.contextmanager
def listening(folder: Path, *options: str, ready: bool = True, **variables: str) -> Iterator[Listener]:
    """Run `paydesk webhooks listen`; if it is to get `ready`, wait until it listens."""
    listener = Listener(folder, *options, **variables)
    try:
        if ready:
            listener.wait_for("Listening for ")
        yield listener
    finally:
        if listener.process.poll() is None:
            listener.process.kill()
            listener.process.wait(20)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which `paydesk dev` runs, for the tests that do not stop it."""
    folder = tmp_path_factory.mktemp("dev")
    with dev_thread.dev(folder):
        yield folder


def create(folder: Path, mode: str = "test") -> str:
    """Create an order on a terminal that waits for a person; return its id."""
    found = credentials(folder)
    terminal = next(one["id"] for one in found["terminals"] if one["script"] == "manual")
    body = {
        "type": "point",
        "transactions": {"payments": [{"amount": "24.90"}]},
        "config": {"point": {"terminal_id": terminal}},
    }
    url, key = f"{found['base_url']}/v1/orders", {"X-Idempotency-Key": str(uuid.uuid4())}
    status, order = request("POST", url, found[mode]["access_token"], body, key)
    assert status == 201, order
    return str(order["id"])


def order(folder: Path, status: str = "failed") -> str:
    """Make an order that ends at once with this status; return its id. It has three events."""
    order_id = create(folder)
    found = credentials(folder)
    url = f"{found['base_url']}/v1/orders/{order_id}/events"
    code, answer = request("POST", url, found["test"]["access_token"], {"status": status})
    assert code == 204, answer
    return order_id


def feed(folder: Path) -> list[dict[str, Any]]:
    """Return all events of the application."""
    found = credentials(folder)
    code, page = request("GET", f"{found['base_url']}/v1/events", found["test"]["access_token"])
    assert code == 200
    events: list[dict[str, Any]] = page["data"]
    return events


def events_of(order_id: str, got: list[Got]) -> list[str]:
    """Return the actions of the order's notifications, as they were received."""
    bodies = [json.loads(one.body) for one in got]
    return [body["action"] for body in bodies if body["data"]["id"] == order_id]


FAILED = ["order.created", "order.at_terminal", "order.failed"]


def test_forwards_events_as_the_service_would(shared: Path) -> None:
    """From now on, in order, with valid signatures and the bytes of the event; Ctrl-C ends it at once."""
    before = order(shared)
    with hook() as receiving, listening(shared, "--forward-to", f"{receiving.url}?shop=7") as listener:
        order_id = order(shared)
        got = receiving.wait_for(3)
        lines = listener.wait_for_lines(3)
        listener.interrupt()
    assert (events_of(before, got), events_of(order_id, got)) == ([], FAILED)
    secret = credentials(shared)["listen_secret"]
    assert f"Signed with the secret {secret}" in listener.errors
    assert secret not in listener.out
    for one, line, action in zip(got, lines, FAILED, strict=True):
        assert in_python(one.url, one.headers, one.body, secret) == VALID
        assert one.url.endswith(f"/hook?shop=7&data.id={order_id.lower()}&type=order")
        assert (one.headers["x-retry"], one.headers["content-type"]) == ("0", "application/json")
        assert line.split()[1:4] == [action, order_id, "200"]
        assert line.endswith(" ms")
    sent = [json.loads(one.body) for one in got]
    assert [event for event in feed(shared) if event["data"]["id"] == order_id] == sent


def test_prints_events_without_a_receiver(shared: Path) -> None:
    """From the beginning, as lines of JSON: each is the event itself. No secret is made or printed."""
    order(shared)
    events = feed(shared)
    with listening(shared, "--from-beginning", "--json") as listener:
        listener.wait_for_lines(len(events))
        listener.interrupt()
    assert listener.lines() == events
    assert "whsec_" not in listener.out + listener.errors


def test_a_given_secret_replaces_the_kept_one(shared: Path) -> None:
    """And it is neither written nor printed anywhere."""
    secret = "whsec_" + "QUJD" * 8
    with hook() as receiving, listening(shared, "--forward-to", receiving.url, "--secret", secret) as listener:
        order(shared)
        (got, *_) = receiving.wait_for(3)
        listener.interrupt()
    assert secret not in listener.out + listener.errors
    assert in_python(got.url, got.headers, got.body, secret) == VALID
    assert secret not in (shared / ".paydesk" / "credentials.json").read_text()


def test_only_the_given_actions_are_forwarded(shared: Path) -> None:
    """All others are neither forwarded nor printed."""
    actions = ("--action", "order.failed", "--action", "order.canceled")
    with hook() as receiving, listening(shared, "--forward-to", receiving.url, "--json", *actions) as listener:
        first, second = order(shared), order(shared, "canceled")
        receiving.wait_for(2)
        listener.wait_for_lines(2)
    assert events_of(first, receiving.got) == ["order.failed"]
    assert events_of(second, receiving.got) == ["order.canceled"]
    printed = [(line["id"], line["action"], line["status"], line["attempt"]) for line in listener.lines()]
    assert printed == [(first, "order.failed", 200, 1), (second, "order.canceled", 200, 1)]


def test_live_events_need_the_option(shared: Path) -> None:
    """Live and test are separate."""
    with listening(shared, "--live", "--json") as live, listening(shared, "--json") as test:
        order_id = order(shared)
        test.wait_for_lines(3)
        assert live.out == ""
    assert order_id in test.out


def test_a_failed_delivery_is_shown_and_not_repeated(shared: Path) -> None:
    """With the status and the beginning of the answer, without control characters; the next event is forwarded."""

    def answer(got: Got) -> tuple[int, bytes]:
        is_created = json.loads(got.body)["action"] == "order.created"
        return (500, b"Traceback: \x1b]0;no" + b"x" * 3_000_000) if is_created else (204, b"")

    with hook(answer) as receiving, listening(shared, "--forward-to", receiving.url) as listener:
        order_id = order(shared)
        receiving.wait_for(3)
        lines = listener.wait_for_lines(4)
    assert events_of(order_id, receiving.got) == FAILED
    assert " 500 " in " ".join(lines[0].split())
    assert lines[1].startswith("    Traceback: \N{REPLACEMENT CHARACTER}]0;nox")
    assert len(lines[1]) < 400
    assert lines[2].split()[3] == "204"


def test_a_redirect_is_not_followed(shared: Path) -> None:
    """It is a failure, as it is for the service."""
    with hook(lambda _: (302, b"")) as receiving, listening(shared, "--forward-to", receiving.url) as listener:
        order(shared)
        listener.wait_for_lines(3)
        assert len(receiving.got) == 3
    assert listener.out.count("  302  ") == 3


def test_a_receiver_that_is_down_is_named(shared: Path) -> None:
    """Each event has its line; when the receiver is back, the next events arrive."""
    with (
        refusing_port() as port,
        listening(shared, "--forward-to", f"http://127.0.0.1:{port}/hook", "--json") as listener,
    ):
        order(shared)
        listener.wait_for_lines(3)
        assert all("error" in line and not line["delivered"] for line in listener.lines())
        with hook(port=port) as receiving:
            order_id = order(shared)
            receiving.wait_for(3)
    assert events_of(order_id, receiving.got) == FAILED


def test_retries_repeat_the_same_notification(shared: Path) -> None:
    """With X-Retry counted, before the order's next event."""
    failures = iter((500, 503))

    def answer(_: Got) -> tuple[int, bytes]:
        return next(failures, 200), b""

    options = ("--retries", "2", "--json")
    with hook(answer) as receiving, listening(shared, "--forward-to", receiving.url, *options) as listener:
        order_id = order(shared)
        got = receiving.wait_for(5)
        listener.wait_for_lines(5)
    assert events_of(order_id, got) == [*["order.created"] * 3, "order.at_terminal", "order.failed"]
    assert [one.headers["x-retry"] for one in got] == ["0", "1", "2", "0", "0"]
    assert len({(one.body, one.headers["x-request-id"]) for one in got[:3]}) == 1
    assert [line["status"] for line in listener.lines()] == [500, 503, 200, 200, 200]


def test_an_order_does_not_wait_for_another(shared: Path) -> None:
    """While the receiver does not answer about one order, the others' events arrive, and Ctrl-C still ends it."""
    slow: list[str] = []
    released = threading.Event()

    def answer(got: Got) -> tuple[int, bytes]:
        order_id = json.loads(got.body)["data"]["id"]
        slow[:] = slow or [order_id]
        if order_id == slow[0]:
            released.wait(HANGS_SECONDS)
        return 200, b""

    with hook(answer) as receiving, listening(shared, "--forward-to", receiving.url) as listener:
        first, second = order(shared), order(shared)
        receiving.wait_for(4)
        assert events_of(first, receiving.got) == ["order.created"]
        assert events_of(second, receiving.got) == FAILED
        listener.wait_for_lines(3)
        listener.interrupt()
        released.set()


@pytest.mark.long("starts the service three times")
def test_no_event_is_missed_across_restarts_of_the_service(tmp_path: Path) -> None:
    """Killed and started again, also at another port: each event is forwarded once, in order. The secret is kept."""
    orders: list[str] = []
    with hook() as receiving:
        with dev(tmp_path) as running:
            listener = Listener(tmp_path, "--forward-to", receiving.url)
            listener.wait_for("Listening for ")
            secret = credentials(tmp_path)["listen_secret"]
            orders += [order(tmp_path) for _ in range(3)]
            running.process.kill()
        try:
            listener.wait_for("is away: ")
            with dev(tmp_path) as running:
                orders += [order(tmp_path) for _ in range(3)]
                listener.wait_for("is back at ")
                orders.append(order(tmp_path))
                receiving.wait_for(3 * len(orders))
                running.end()
            with dev(tmp_path):
                orders.append(order(tmp_path))
                receiving.wait_for(3 * len(orders))
                assert credentials(tmp_path)["listen_secret"] == secret
                listener.interrupt()
                assert [json.loads(one.body)["id"] for one in receiving.got] != []
                assert sorted(event["id"] for event in feed(tmp_path)) == sorted(
                    json.loads(one.body)["id"] for one in receiving.got
                )
        finally:
            listener.process.kill()
            listener.process.wait()
    assert [events_of(order_id, receiving.got) for order_id in orders] == [FAILED] * len(orders)
    assert all(in_python(one.url, one.headers, one.body, secret) == VALID for one in receiving.got)


@pytest.mark.slow
def test_a_stopped_service_lets_ctrl_c_through(tmp_path: Path) -> None:
    """It waits for the service, and ends at once."""
    with dev(tmp_path) as running:
        listener = Listener(tmp_path)
        listener.wait_for("Listening for ")
        running.end()
    listener.wait_for("Trying again until it is back.")
    listener.interrupt()
    assert listener.errors.count("is away") == 1


@pytest.mark.slow
def test_a_new_database_starts_another_feed(tmp_path: Path) -> None:
    """The events of the new one are forwarded from its beginning, each once."""
    with hook() as receiving:
        with dev(tmp_path):
            listener = Listener(tmp_path, "--forward-to", receiving.url)
            listener.wait_for("Listening for ")
            first = order(tmp_path)
            receiving.wait_for(3)
        try:
            for file in (tmp_path / ".paydesk").glob("paydesk.db*"):
                file.unlink()
            shutil.rmtree(tmp_path / ".paydesk" / "terminals", ignore_errors=True)
            with dev(tmp_path):
                second = order(tmp_path)
                receiving.wait_for(6)
                listener.wait_for("its database was replaced")
                listener.interrupt()
        finally:
            listener.process.kill()
            listener.process.wait()
    assert (events_of(first, receiving.got), events_of(second, receiving.got)) == (FAILED, FAILED)


@pytest.mark.slow
def test_a_restored_database_repeats_nothing(tmp_path: Path) -> None:
    """Its feed ends before the cursor, so it is read from its beginning; events that were forwarded are skipped."""
    data = tmp_path / ".paydesk"
    with hook() as receiving:
        with dev(tmp_path):
            listener = Listener(tmp_path, "--forward-to", receiving.url)
            listener.wait_for("Listening for ")
            orders = [order(tmp_path)]
            receiving.wait_for(3)
        try:
            copies = {file: file.read_bytes() for file in data.glob("paydesk.db*")}
            with dev(tmp_path):
                orders.append(order(tmp_path))
                receiving.wait_for(6)
            for file in data.glob("paydesk.db*"):
                file.unlink()
            for file, content in copies.items():
                file.write_bytes(content)
            with dev(tmp_path):
                listener.wait_for("its database was replaced")
                orders.append(order(tmp_path))
                receiving.wait_for(9)
                listener.interrupt()
        finally:
            listener.process.kill()
            listener.process.wait()
    assert [events_of(order_id, receiving.got) for order_id in orders] == [FAILED] * 3


def test_wrong_usage_exits_2(shared: Path) -> None:
    """With a message that says what is valid."""
    for options, message in (
        (("--forward-to", "localhost:3000/hook"), "--forward-to must be https or http"),
        (("--forward-to", "http://a b/"), "--forward-to must be at most 500 visible ASCII characters"),
        (("--forward-to", "http://user:pw@a/"), "must not contain a user or a password"),
        (("--forward-to", f"http://a/{'x' * 500}"), "--forward-to must be at most 500"),
        (("--action", "order.paid"), "The actions are order.created"),
        (("--action", "application.authorized"), "Subscribe to mp-connect"),
        (("--forward-to", "http://a/", "--secret", "x"), "is not a webhook secret"),
        (("--retries", "-1"), "--retries"),
    ):
        done = run_here("webhooks", "listen", *options, folder=shared)
        assert (done.returncode, done.stdout) == (2, ""), (options, done.stderr)
        assert message in " ".join(done.stderr.split()), done.stderr


def test_a_service_that_cannot_be_used_is_named(shared: Path, tmp_path: Path) -> None:
    """Not there: 3. Not Paydesk, or an invalid token: 1. No token: 2."""
    found = credentials(shared)

    def run(**changes: Any) -> subprocess.CompletedProcess[str]:
        (tmp_path / "mine.json").write_text(json.dumps({**found, **changes}))
        return run_here("webhooks", "listen", "--credentials", "mine.json", folder=tmp_path)

    with refusing_port() as port:
        away = run(base_url=f"http://127.0.0.1:{port}")
    assert (away.returncode, "Cannot read events from" in away.stderr) == (3, True), away.stderr
    token = found["test"]["access_token"]
    invalid = run(test={"access_token": token[:-1] + ("1" if token.endswith("0") else "0")})
    assert (invalid.returncode, "The tokens in mine.json are not valid" in invalid.stderr) == (1, True), invalid.stderr
    assert run(test={}).returncode == 2
    assert run(test=[]).returncode == 2
    with hook() as other:
        foreign = run(base_url=other.url.removesuffix("/hook"))
    assert (foreign.returncode, foreign.stdout) == (3, ""), foreign.stderr
    missing = command("webhooks", "listen", "--credentials", "none.json", folder=tmp_path)
    assert missing.returncode == 3


def test_a_closed_pipe_ends_it(shared: Path, tmp_path: Path) -> None:
    """As `paydesk webhooks listen | head` does: without a traceback."""
    reading, writing = os.pipe()
    arguments = ("webhooks", "listen", "--from-beginning", "--json")
    process = start(arguments, {}, shared, Path(f"/proc/{os.getpid()}/fd/{writing}"), tmp_path / "errors")
    os.close(writing)
    os.close(reading)
    order(shared)
    assert process.wait(HANGS_SECONDS) == 1
    assert "Traceback" not in (tmp_path / "errors").read_text()
