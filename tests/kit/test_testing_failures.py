"""The plugin of pytest where something fails: the test fails with the cause, and nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from conftest import short_and_long
from dev_thread import dev
from paydesk_dev.testing.documents import Document
from paydesk_dev.testing.errors import NotShown, PaydeskError
from paydesk_dev.testing.paydesk import Paydesk
from paydesk_dev.testing.plan import Plan
from paydesk_dev.testing.report import describe
from paydesk_dev.testing.service import Service
from paydesk_dev.testing.steps import Steps
from paydesk_dev.testing.terminal import Terminal
from paydesk_process import credentials, environment, request
from pytest_process import Ran
from waiting import wait_until

SCENE = {
    **dict.fromkeys(("base_url", "client_id", "client_secret", "redirect_uri"), ""),
    "test": {"access_token": "t", "refresh_token": "r"},
    "seller": {"user_id": 1, "currency": "BRL"},
    "webhook": {"secret": "", "subscription_id": "", "inbox_url": ""},
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the credentials file of a running service with demo data."""
    folder = tmp_path_factory.mktemp("shared")
    with dev(folder):
        yield folder / ".paydesk" / "credentials.json"


def left_behind(shared: Path) -> list[str]:
    """Return the faults, terminals and points of sale of sellers that are not the demo seller."""
    found = credentials(shared.parent.parent)
    url, token, seller_id = found["base_url"], found["operator"]["token"], found["seller"]["user_id"]
    left = []
    for path in ("/dev/faults", "/operator/v1/terminals", "/operator/v1/pos"):
        status, listed = request("GET", url + path, token)
        assert status == 200, listed
        left += [f"{path} {one['id']}" for one in listed["data"] if one.get("seller_id") != seller_id]
    return left


@pytest.mark.long("pytest runs as a process")
def test_what_the_test_looks_up_meets_no_fault_of_its_till(tmp_path: Path, shared: Path) -> None:
    """Neither do such requests count; those that the test sends as its till meet them. More firings than are listed."""
    ran = Ran.of(
        tmp_path,
        """
import pytest

@pytest.mark.xfail(strict=True, raises=AssertionError)
def test_no_till_has_asked(paydesk, paydesk_terminal, paydesk_faults):
    paydesk_faults.add("get_order", "altered", set={"/status": "weird"})
    paydesk_terminal.will.tap()
    paydesk.wait_for("processed", paydesk.create(paydesk_terminal))

def test_look_ups(paydesk, paydesk_terminal, paydesk_faults):
    for request, kind in (("get_order", "slow"), ("search_orders", "cut"), ("read_events", "broken_json")):
        paydesk_faults.add(request, kind, times=None, may_miss=True)
    order = paydesk.create(paydesk_terminal, reference="s1")
    assert [one.id for one in paydesk.orders("s1")] == [order.id]
    with pytest.raises(AssertionError, match="'external_reference' - must have 1 to 64 letters"):
        paydesk.orders("s1 &limit=1")
    paydesk_terminal.will.tap()
    assert paydesk.wait_for("processed", order).reference == "s1"

def test_a_fault_of_401_is_none_of_the_token(paydesk, paydesk_terminal, paydesk_faults):
    paydesk_faults.add("create_order", "error:401")
    paydesk_faults.add("create_token", "busy", times=None, may_miss=True)
    with pytest.raises(AssertionError, match="refused with 401"):
        paydesk.create(paydesk_terminal)
    paydesk._token = paydesk.access_token[:-1]
    assert paydesk.create(paydesk_terminal).status == "created"

def test_more_firings_than_the_service_lists(paydesk, paydesk_faults):
    fault = paydesk_faults.add("search_orders", "busy", times=205)
    for _ in range(205):
        with pytest.raises(AssertionError, match="423"):
            paydesk.ask("GET", "/v1/orders")
    assert fault.wait(200)[-1].number == 205
    assert "fired 205 of 205 times" in str(fault)

def test_one_that_need_not_fire(paydesk, paydesk_faults):
    fault = paydesk_faults.add("search_orders", "busy", may_miss=True)
    paydesk.service.ask("DELETE", fault._path)
""",
        f"--paydesk-credentials={shared}",
    )
    assert (ran.code, ran.outcomes) == (0, {"passed": 4, "xfailed": 1}), ran.output


@pytest.mark.long("pytest runs as a process")
def test_the_cause_is_in_the_report(tmp_path: Path, shared: Path) -> None:
    """What a receiver raised or did not return fails the test; the report of a failed test names the planned step."""
    ran = Ran.of(
        tmp_path,
        """
import pytest

def receive(paydesk, paydesk_terminal, paydesk_webhooks, receiver):
    paydesk_webhooks.receiver(receiver)
    order = paydesk.create(paydesk_terminal)
    while not paydesk_webhooks.received():
        pass

def test_a_receiver_asserts(paydesk, paydesk_terminal, paydesk_webhooks):
    def receiver(headers, body, target):
        assert b"order.paid" in body, "of the receiver"
        return 204
    receive(paydesk, paydesk_terminal, paydesk_webhooks, receiver)

def test_a_receiver_calls_fail(paydesk, paydesk_terminal, paydesk_webhooks):
    receive(paydesk, paydesk_terminal, paydesk_webhooks, lambda *_: pytest.fail("it calls fail"))

def test_a_receiver_returns_nothing(paydesk, paydesk_terminal, paydesk_webhooks):
    receive(paydesk, paydesk_terminal, paydesk_webhooks, lambda *_: None)

def test_a_failed_step_is_named(paydesk, paydesk_terminal):
    paydesk_terminal.will.wait_for("present_card", seconds=0.1).pin().remove_card()
    paydesk_terminal.will._thread.join()
    assert False

def test_a_step_that_does_not_end(paydesk, paydesk_terminal):
    from threading import Event
    paydesk_terminal.will.call(Event().wait)
""",
        f"--paydesk-credentials={shared}",
    )
    assert (ran.code, ran.outcomes) == (1, {"failed": 5}), ran.output
    assert "AssertionError: of the receiver" in ran.output
    assert "Failed: it calls fail" in ran.output
    assert "a receiver of notifications returns a status, such as 200; it was None" in ran.output
    assert "The planned step wait_for (test_till.py:23) failed: NotShown: PAYDESK_VIRTUAL__" in ran.output
    assert "Not done after it: pin, remove_card." in ran.output
    assert "The planned step call (test_till.py:29) has not ended." in ran.output


STEPS = """
import pytest

def step(at, paydesk, terminal):
    order = paydesk.create(terminal)
    terminal.wait_for("present_card")
    if at == "shown":
        return
    if at == "off":
        return terminal.power_off()
    if at == "canceled":
        return paydesk.cancel(order)
    terminal.insert()
    if at == "pin":
        return
    terminal.pin()
    if at == "permitted":
        return terminal.wait_for("permitted")
    paydesk.wait_for("processed", order)
    if at == "refunded":
        paydesk.refund(order, "5.00")

@pytest.mark.parametrize("at", ["shown", "off", "canceled", "pin", "permitted", "paid", "refunded"])
@pytest.mark.parametrize("number", range(NUMBERS))
def test_it_fails(paydesk, paydesk_terminal, paydesk_faults, paydesk_webhooks, at, number):
    paydesk_faults.add("cancel_order", "slow", times=None, may_miss=True, reference="another")
    paydesk_webhooks.receiver(lambda *_: 204)
    paydesk_terminal.will.wait_for("unknown", seconds=900)
    step(at, paydesk, paydesk_terminal)
    assert False

def test_two_sellers(paydesk_sellers):
    for seller in (paydesk_sellers(), paydesk_sellers()):
        seller.faults.add("create_order", "busy", may_miss=True)
        first, second = seller.terminal(), seller.terminal()
        ends = second.close, lambda: 1 / 0
        second.close = lambda ends=ends: [end() for end in ends]
"""


@pytest.mark.parametrize("numbers", short_and_long(1, 15))
@pytest.mark.long("pytest runs as a process")
def test_nothing_of_a_failed_test_is_left(tmp_path: Path, shared: Path, numbers: int) -> None:
    """Neither terminal nor point of sale nor fault, at whatever step of a sale it failed; nor if closing fails."""
    source = STEPS.replace("NUMBERS", str(numbers))
    ran = Ran.of(tmp_path, source, f"--paydesk-credentials={shared}")
    assert (ran.code, ran.outcomes) == (1, {"failed": 7 * numbers, "passed": 1, "error": 1}), ran.output
    # A terminal that may be charging is deleted when its order ends.
    wait_until(lambda: not left_behind(shared), lambda: left_behind(shared))


class _Answering(BaseHTTPRequestHandler):
    """Answers as a service that is broken: the path is the body."""

    def do_GET(self) -> None:
        """Answer."""
        body = urllib.request.url2pathname(self.path.partition("?")[0]).lstrip("/").encode()
        self.send_response(404 if b"refused" in body else 200)
        self.send_header("Content-Length", str(len(body) + 1000 * (b"cut" in body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def broken() -> Iterator[Service]:
    """Yield a service whose answers are no JSON, or end too early."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answering)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield Service(f"http://127.0.0.1:{server.server_port}", "token")
    server.shutdown()
    server.server_close()


def test_an_answer_that_is_none_is_a_failure_in_words(broken: Service) -> None:
    """Whatever it is; the report has it as far as it was read, and does not end the run."""
    for path, expected in (
        ("/text", "the answer of http://127.0.0.1:"),
        ("/cut", "does not answer: IncompleteRead"),
        ("/refused cut", "is refused with 404"),
    ):
        with pytest.raises(PaydeskError, match=expected):
            broken.ask("GET", path)
    assert "search" not in describe(Paydesk(broken, SCENE, 1))
    assert "is not JSON" in describe(Paydesk(broken, SCENE, 1))


class _NoTerminal(Steps[None]):
    def _step(self, action: str, **fields: object) -> None:
        raise AssertionError(f"{action} {fields}")

    def wait_for(self, screen: str, *, seconds: float | None = None) -> None:
        raise AssertionError(f"{screen} {seconds}")


def test_a_plan_ends_with_its_test() -> None:
    """A pause ends at once, a step that goes on is named, and `pytest.fail` in a step is its failure."""
    plan = Plan("T1", _NoTerminal).pause(600)
    assert plan.finish(0.1, lambda: False) == ""
    plan = Plan("T1", _NoTerminal).pause(600).tap().pin()
    failed = plan.finish(600, lambda: True)
    assert failed.startswith("The planned step tap (test_testing_failures.py:")
    assert ") failed: AssertionError: tap {" in failed
    assert plan.error.endswith("Not done after it: pin.")
    plan = Plan("T1", _NoTerminal).call(lambda: pytest.fail("in words.")).tap()
    assert plan.finish(600, lambda: False).endswith(") failed: Failed: in words. Not done after it: tap.")
    plan.stop()
    assert plan.error == ""


def test_a_permit_is_what_the_screen_says() -> None:
    """An early answer, as of a service that stops, is none."""
    screen = {"screen": "authorizing", "lines": [], "permitted": False}
    terminal = Terminal(lambda *_, **__: screen, Document(id="T1"), 0.05)
    with pytest.raises(NotShown, match="T1 does not show permitted; it shows authorizing"):
        terminal.wait_for("permitted")
    assert terminal.wait_for("authorizing").name == "authorizing"
    screen["permitted"] = True
    assert terminal.wait_for("permitted").name == "authorizing"


KILLED = """
import sys, time
from pathlib import Path
from paydesk_dev.testing.service import Service
print(Service.start(Path(sys.argv[1])).url, flush=True)
time.sleep(600)
"""


@pytest.mark.long("a service starts as a process")
def test_a_service_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Also if that is killed; one whose credentials file cannot be read does not stay either."""
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as starting:
        assert starting.stdout is not None
        url = starting.stdout.readline().strip()
        os.kill(starting.pid, signal.SIGKILL)

    def is_running() -> bool:
        try:
            urllib.request.urlopen(f"{url}/livez", timeout=60).close()  # noqa: S310 - it is http
        except OSError:
            return False
        return True

    wait_until(lambda: not is_running())
    (tmp_path / "credentials.json").unlink()
    with pytest.raises(PaydeskError, match="is not a credentials file"):
        Service.start(tmp_path, "--credentials", str(tmp_path / "elsewhere.json"))
    assert [child for child in psutil.Process().children() if "--until-eof" in child.cmdline()] == []
