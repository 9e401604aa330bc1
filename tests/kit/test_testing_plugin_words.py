"""The plugin of pytest where a test is wrong, or something in it has failed: at once, and in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev_thread import dev
from paydesk.engine.orders.status import AT_TERMINAL, CREATED, PARTIALLY_REFUNDED, PROCESSED, REFUNDED
from paydesk_dev.testing.expected import can_become
from pytest_process import Ran
from tables import each


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the credentials file of a running service with demo data."""
    folder = tmp_path_factory.mktemp("shared")
    with dev(folder):
        yield folder / ".paydesk" / "credentials.json"


@each(
    "current, status, detail, can",
    [
        (CREATED.payment_detail, "expired", "", True),
        (AT_TERMINAL.payment_detail, "action_required", "", True),
        (AT_TERMINAL.payment_detail, "processed", "partially_refunded", True),
        (AT_TERMINAL.payment_detail, "created", "", False),
        (AT_TERMINAL.payment_detail, "processed", "insufficient_amount", False),
        (PROCESSED.payment_detail, "failed", "", False),
        (PROCESSED.payment_detail, "refunded", "", True),
        (PROCESSED.payment_detail, "processed", "partially_refunded", True),
        (PARTIALLY_REFUNDED.payment_detail, "processed", "accredited", False),
        (REFUNDED.payment_detail, "refunded", "other", False),
        ("canceled_by_api", "canceled", "expired", False),
        ("expired", "expired", "", False),
        ("a_detail_of_later", "processed", "", True),
    ],
)
def test_what_an_order_can_still_become(current: str, status: str, detail: str, *, can: bool) -> None:
    """By the moves of the lifecycle."""
    assert can_become(status, detail, current) is can


AT_ONCE = '''
import time
import pytest
from paydesk_dev.testing.errors import NotFired, NotReached, NotShown

@pytest.fixture(autouse=True)
def at_once():
    """No wait takes its time, which is 60 s."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < 30

def order_of(paydesk, terminal):
    """Return an order whose terminal waits for a card."""
    order = paydesk.create(terminal)
    terminal.wait_for("present_card")
    return order

def test_an_order_that_has_ended(paydesk, paydesk_terminal):
    order = order_of(paydesk, paydesk_terminal)
    paydesk_terminal.tap()
    paydesk.wait_for("processed", order)
    for status, detail in (("failed", ""), ("at_terminal", ""), ("processed", "x")):
        with pytest.raises(NotReached, match="it is processed .accredited"):
            paydesk.wait_for(status, order, detail=detail)

def test_a_mistake_is_refused(paydesk, paydesk_terminal, paydesk_webhooks, paydesk_faults):
    order = paydesk.create(paydesk_terminal)
    for wrong, expected in (
        (lambda: paydesk.wait_for("payed", order), "No order is 'payed'. The statuses are created"),
        (lambda: paydesk_webhooks.wait_for("order.paid"), "No webhook has the action 'order.paid'. The actions are"),
        (lambda: paydesk_webhooks.received("order.paid"), "No webhook has the action 'order.paid'"),
        (lambda: paydesk_webhooks.receiver(3), "a receiver is a function of headers, body and target; it is 3"),
        (lambda: paydesk_terminal.pin(times=0), "times must be 1 or more; it is 0"),
        (lambda: paydesk_terminal.will.pin(times=0), "times must be 1 or more; it is 0"),
        (lambda: paydesk_terminal.will.pause("x"), "a pause is a number of seconds, from 0; it is 'x'"),
        (lambda: paydesk_terminal.will.pause(-1), "a pause is a number of seconds, from 0; it is -1"),
        (lambda: paydesk_terminal.will.call(3), "call takes a function without arguments; it is 3"),
        (lambda: paydesk.ask("GET", "v1/orders"), "a path begins with /, such as /v1/orders; it is 'v1/orders'"),
    ):
        with pytest.raises((ValueError, TypeError)) as raised:
            wrong()
        assert expected in str(raised.value)

def test_fields_of_faults(paydesk, paydesk_terminal, paydesk_faults):
    add, id = paydesk_faults.add, paydesk_terminal.id
    order = paydesk.create(paydesk_terminal, reference="s1")
    for fault, line in (
        (add("create_order", "busy", may_miss=True, terminal=id), f"terminal={id}"),
        (add("create_order", "busy", may_miss=True, terminal=paydesk_terminal), f"terminal={id}"),
        (add("refund_order", "busy", may_miss=True, order=order), f"order={order.id}"),
        (add("create_token", "busy", may_miss=True, grant="refresh_token"), "grant=refresh_token"),
        (add("payment", "decline:high_risk", edge="acquirer", may_miss=True, per="key", card="late"), "per=key"),
    ):
        assert line in paydesk.service.ask("GET", fault._path)["line"]

@pytest.mark.paydesk(country="CHL", currency="CLP")
class TestMarks:
    @pytest.mark.paydesk(access_seconds=60)
    def test_they_are_merged(self, paydesk, paydesk_terminal):
        order = paydesk.create(paydesk_terminal)
        assert (order.currency, order.total_amount) == ("CLP", "2490")

def test_all_pages(paydesk, paydesk_terminal, paydesk_webhooks):
    paydesk_webhooks.send_to("http://127.0.0.1:9/")
    order = order_of(paydesk, paydesk_terminal)
    for _ in range(230):
        paydesk.order(order)
    end = time.monotonic() + 20
    while len(paydesk.requests(operation="get_order")) < 230:
        assert time.monotonic() < end
    assert [one.status for one in paydesk.requests(operation="create_order")] == [201]
    assert [one.status for one in paydesk.requests(order, operation="create_order")] == [201]
    assert not [one.operation for one in paydesk.requests(order) if one.operation.startswith("device")]

def test_a_quiet_till(paydesk, paydesk_terminal, paydesk_faults):
    fault = paydesk_faults.add("search_orders", "busy")
    asked = []
    def ask():
        try:
            paydesk.ask("GET", "/v1/orders")
        except AssertionError:
            pass
        asked.append(time.monotonic())
    for _ in range(6):
        paydesk_terminal.will.call(ask).pause(0.5)
    assert len(fault.wait_quiet(2)) == 1
    assert len(asked) == 6
'''


@pytest.mark.long("pytest runs as a process")
def test_a_mistake_does_not_wait(tmp_path: Path, shared: Path) -> None:
    """It is refused with what to write; what can no longer come is not waited for; lists are read to their end."""
    ran = Ran.of(tmp_path, AT_ONCE, f"--paydesk-credentials={shared}", "--paydesk-wait=60")
    assert (ran.code, ran.outcomes) == (0, {"passed": 6}), ran.output


CAUSES = '''
import time
import pytest

@pytest.fixture(autouse=True)
def at_once():
    """No wait takes its time, which is 60 s."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < 30

def test_a_receiver_fails(paydesk, paydesk_terminal, paydesk_webhooks):
    def receive(headers, body, target):
        raise KeyError("of the receiver")
    paydesk_webhooks.receiver(receive)
    paydesk.wait_for("processed", paydesk.create(paydesk_terminal))

def raising(paydesk, terminal, error):
    def fail():
        raise error
    terminal.will.wait_for("present_card").call(fail).tap()
    return paydesk.create(terminal)

def test_an_order(paydesk, paydesk_terminal):
    paydesk.wait_for("processed", raising(paydesk, paydesk_terminal, ValueError("while an order")))

def test_a_webhook(paydesk, paydesk_terminal, paydesk_webhooks):
    raising(paydesk, paydesk_terminal, ValueError("while a webhook"))
    paydesk_webhooks.wait_for("order.processed")

def test_a_screen(paydesk, paydesk_terminal):
    raising(paydesk, paydesk_terminal, ValueError("while a screen"))
    paydesk_terminal.wait_for("pin")

def test_a_step(paydesk, paydesk_terminal):
    raising(paydesk, paydesk_terminal, ValueError("while a step"))
    paydesk_terminal.pin()

def test_a_fault(paydesk, paydesk_terminal, paydesk_faults):
    fault = paydesk_faults.add("refund_order", "busy")
    raising(paydesk, paydesk_terminal, ValueError("while a fault"))
    fault.wait()

def test_the_plan(paydesk, paydesk_terminal):
    paydesk_terminal.will.tap("no_such_card")
    order = paydesk.create(paydesk_terminal)
    paydesk.wait_for("processed", order)

def test_it_skips(paydesk, paydesk_terminal):
    paydesk.wait_for("processed", raising(paydesk, paydesk_terminal, pytest.skip.Exception("by the plan")))

def test_it_exits(paydesk, paydesk_terminal):
    paydesk.wait_for("processed", raising(paydesk, paydesk_terminal, SystemExit(3)))

@pytest.fixture
def broken(paydesk, paydesk_terminal):
    yield paydesk.create(paydesk_terminal, reference="setup")
    raise ValueError("while it ends")

@pytest.fixture
def never(broken):
    raise ValueError("while it begins")

def test_setup(never):
    pass

def test_teardown(broken):
    pass

@pytest.mark.paydesk("CHL")
def test_a_mark(paydesk):
    pass

@pytest.mark.paydesk(contry="CHL")
def test_a_field(paydesk):
    pass
'''


@pytest.mark.long("pytest runs as a process")
def test_a_wait_ends_with_the_cause(tmp_path: Path, shared: Path) -> None:
    """What a receiver or a planned function raises ends each wait, with its type and its line."""
    ran = Ran.of(tmp_path, CAUSES, f"--paydesk-credentials={shared}", "--paydesk-wait=60", "-rA")
    assert (ran.code, ran.outcomes) == (1, {"failed": 8, "skipped": 1, "passed": 1, "errors": 5}), ran.output
    assert "KeyError: 'of the receiver'" in ran.output
    for wait in ("an order", "a webhook", "a screen", "a step", "a fault"):
        assert f"ValueError: while {wait}" in ran.output
    assert "SystemExit: 3" in ran.output
    assert "The planned step tap (test_till.py:45) failed: Refused: POST" in ran.output
    assert "SKIPPED" in ran.output
    # In setup and in teardown.
    assert ran.output.count(" setup 24.90 BRL: ") == 3
    assert "the mark paydesk takes names" in ran.output
    assert "'$.contry' - is not known here" in ran.output
    assert "def ask(" not in ran.output


@pytest.mark.long("pytest runs as a process, several times, and a service starts")
def test_wrong_settings_and_a_service_that_has_ended(tmp_path: Path) -> None:
    """They are named; so is the log of the service."""
    source = """
import pytest

def test_it(paydesk, paydesk_clock):
    with pytest.raises(ValueError, match="No order is 'bogus'"):
        before = paydesk_clock.now()
        paydesk_clock.until("bogus", paydesk.create(paydesk.terminal()))
    assert (paydesk_clock.now() - before).total_seconds() < 60
    process = paydesk.service._process
    process.kill()
    process.wait()
    paydesk.orders()
"""
    for options, ini, expected in (
        (["--paydesk-wait=x"], "", "--paydesk-wait must be a number of seconds, from 0 to 86400; it is 'x'"),
        (["--paydesk-wait=nan"], "", "--paydesk-wait must be a number of seconds"),
        ([], "paydesk_wait = -1", "paydesk_wait must be a number of seconds, from 0 to 86400; it is '-1'"),
        ([], "paydesk_shared_clock = none", "paydesk_shared_clock must be error or skip; it is 'none'"),
    ):
        ran = Ran.of(tmp_path, source, *options, ini=ini)
        assert (ran.code, expected in ran.output) == (4, True), ran.output
    ran = Ran.of(tmp_path, source)
    assert f"has ended (exit -9), log: {tmp_path}" in ran.output, ran.output
