"""The plugin of pytest, as a developer of a till uses it: each test here runs pytest on a small file."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev_thread import dev
from paydesk_process import credentials, environment, request
from postgres_server import PostgresServer
from pytest_process import Ran

TILL = '''
import time
import pytest

def sale(paydesk, terminal, reference="s1"):
    """A till that blocks while the buyer pays."""
    order = paydesk.create(terminal, reference=reference)
    while order.status in ("created", "at_terminal"):
        time.sleep(0.02)
        order = paydesk.order(order)
    return order
'''


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the credentials file of a running service with demo data."""
    folder = tmp_path_factory.mktemp("shared")
    with dev(folder):
        yield folder / ".paydesk" / "credentials.json"


def test_it_imports_pytest_alone() -> None:
    """A developer who does not use it pays half a millisecond."""
    code = (
        "import sys, pytest; before = set(sys.modules); import paydesk_dev.testing.plugin;"
        " print(*sorted(set(sys.modules) - before))"
    )
    ended = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    loaded = set(ended.stdout.split())
    assert loaded == {"paydesk_dev", "paydesk_dev.testing", "paydesk_dev.testing.plugin"}


@pytest.mark.long("it starts a service as a process")
def test_a_till_is_tested_against_a_service_of_its_own(tmp_path: Path) -> None:
    """The buyer's steps are planned; charges are the acquirer's word; a later test begins at the moved time."""
    ran = Ran.of(
        tmp_path,
        TILL
        + """
def test_wrong_pin(paydesk, paydesk_terminal):
    paydesk_terminal.will.insert("wrong_pin").pin(times=3).remove_card()
    order = sale(paydesk, paydesk_terminal)
    assert (order.status, order.detail) == ("failed", "max_attempts_exceeded")
    assert paydesk.charges() == []

def test_paid_and_refunded(paydesk, paydesk_terminal, paydesk_webhooks):
    paydesk_terminal.will.tap()
    order = sale(paydesk, paydesk_terminal)
    assert [(one.order_id, one.charged_amount) for one in paydesk.charges()] == [(order.id, "24.90")]
    assert paydesk_webhooks.wait_for("order.processed", order).version == order.version
    paydesk.refund(order, "5.00")
    assert paydesk.charges()[0].charged_amount == "19.90"
    paydesk.refund(order)
    assert paydesk.charges() == []
    assert [one.id for one in paydesk.orders("s1")] == [order.id]

def test_a_receiver_of_the_test(paydesk, paydesk_terminal, paydesk_webhooks):
    statuses = [503, *[204] * 20]
    paydesk_webhooks.receiver(lambda headers, body, target: statuses.pop(0))
    paydesk_terminal.will.call(lambda: None).wait_for("present_card").tap()
    order = sale(paydesk, paydesk_terminal)
    first = paydesk_webhooks.received()[0]
    assert (first.action, first.answer) == ("order.created", 503)

def test_the_clock(paydesk, paydesk_terminal, paydesk_clock):
    before = paydesk_clock.now()
    order = paydesk.create(paydesk_terminal)
    paydesk_terminal.wait_for("present_card")
    assert paydesk_clock.until("expired", order).status == "canceled"
    assert (paydesk_clock.now() - before).total_seconds() > 600

def test_half_a_year(paydesk, paydesk_terminal, paydesk_clock):
    order = paydesk.create(paydesk_terminal)
    paydesk_clock.advance("200d")
    with pytest.raises(AssertionError, match="401 unauthorized"):
        paydesk.service.ask("GET", "/users/me", token=paydesk.access_token)
    assert paydesk.wait_for("canceled", order).detail == "expired"

def test_after_half_a_year(paydesk, paydesk_terminal, paydesk_webhooks):
    order = paydesk.create(paydesk_terminal)
    assert paydesk_terminal.tap().name in ("present_card", "authorizing", "approved")
    paydesk.wait_for("processed", order)
    assert paydesk_webhooks.wait_for("order.processed", order).signature_valid

@pytest.mark.paydesk(country="CHL", currency="CLP", access_seconds=60)
def test_another_country(paydesk, paydesk_sellers):
    assert paydesk.create(paydesk.terminal("approve:0.05s"), "2490").currency == "CLP"
    assert paydesk_sellers().user_id != paydesk.user_id

def test_a_cancel(paydesk, paydesk_terminal):
    order = paydesk.create(paydesk_terminal)
    paydesk_terminal.wait_for("present_card")
    assert paydesk.cancel(order) in (200, 202)
    assert paydesk.wait_for("canceled", order, detail="canceled_by_api").id == order.id
    assert paydesk.environment(paydesk_terminal)["PAYDESK_TERMINAL_ID"] == paydesk_terminal.id
""",
    )
    assert (ran.code, ran.outcomes) == (0, {"passed": 8}), ran.output


@pytest.mark.long("pytest runs as a process")
def test_what_did_not_happen_fails_the_test_itself(tmp_path: Path, shared: Path) -> None:
    """A step that was not possible fails it, so that `xfail` sees it; a wait says what was there instead."""
    ran = Ran.of(
        tmp_path,
        TILL
        + """
def test_a_step_without_an_order(paydesk_terminal):
    paydesk_terminal.will.tap()

@pytest.mark.xfail(strict=True)
def test_a_step_too_many(paydesk, paydesk_terminal):
    paydesk_terminal.will.tap().pin()
    assert sale(paydesk, paydesk_terminal).status == "processed"

def test_a_card_that_does_not_exist(paydesk, paydesk_terminal):
    paydesk_terminal.will.tap("no_such_card")
    paydesk.create(paydesk_terminal)
    paydesk_terminal.wait_for("present_card")

def test_a_wait(paydesk, paydesk_terminal):
    paydesk_terminal.will.press_cancel()
    order = sale(paydesk, paydesk_terminal, "lost")
    paydesk.wait_for("processed", order)

def test_an_unknown_step(paydesk_terminal):
    paydesk_terminal.will.kick()
""",
        f"--paydesk-credentials={shared}",
    )
    assert (ran.code, ran.outcomes) == (1, {"failed": 4, "xfailed": 1}), ran.output
    assert "tap was not possible at PAYDESK_VIRTUAL__" in ran.output
    assert "must be one of visa_approved" in ran.output
    assert "does not reach processed: it is canceled (canceled_on_terminal)" in ran.output
    assert "'Plan' object has no attribute 'kick'" in ran.output
    # The section of the report.
    section = ran.output[ran.output.index("paydesk ---", ran.output.index("test_a_wait ")) :]
    assert " lost 24.90 BRL: canceled (canceled_on_terminal)" in section
    assert "steps: created (created), at_terminal" in section
    assert "notifications: order.created 200" in section
    assert "/console/orders/ORD" in section


@pytest.mark.long("pytest runs as a process, with two workers")
def test_workers_share_a_service(tmp_path: Path, shared: Path) -> None:
    """Each test has its own seller; at the end no terminal is left, also after a failure; the clock is refused."""
    ran = Ran.of(
        tmp_path,
        TILL
        + """
@pytest.mark.parametrize("number", range(6))
def test_a_sale(paydesk, paydesk_terminal, paydesk_webhooks, number):
    paydesk_terminal.will.tap()
    order = sale(paydesk, paydesk_terminal)
    assert paydesk_webhooks.wait_for("order.processed").order_id == order.id
    assert len(paydesk.orders()) == 1

def test_it_fails_with_an_open_order(paydesk, paydesk_terminal):
    paydesk.create(paydesk_terminal)
    paydesk_terminal.wait_for("present_card")
    paydesk_terminal.power_off()
    assert False

def test_the_clock(paydesk_clock):
    pass
""",
        *("-n", "2", "-p", "xdist"),
        ini=f"paydesk_credentials = {shared}\n",
    )
    assert (ran.code, ran.outcomes) == (1, {"passed": 6, "failed": 1, "error": 1}), ran.output
    assert "the clock of a shared service is not moved" in ran.output
    found = credentials(shared.parent.parent)
    _, listed = request("GET", f"{found['base_url']}/operator/v1/terminals", found["operator"]["token"])
    assert [one["id"] for one in listed["data"] if one["seller_id"] != found["seller"]["user_id"]] == []
    skipping = "paydesk_shared_clock = skip\npaydesk_credentials = " + str(shared)
    ran = Ran.of(tmp_path, "def test_the_clock(paydesk_clock): pass", ini=skipping)
    assert (ran.code, ran.outcomes) == (0, {"skipped": 1}), ran.output


@pytest.mark.long("pytest runs as a process")
def test_faults_are_the_tests_own(tmp_path: Path, shared: Path) -> None:
    """One that fires less often than expected fails the test, unless it may miss; all are removed at the end."""
    ran = Ran.of(
        tmp_path,
        TILL
        + """
def test_the_answer_is_lost(paydesk, paydesk_terminal, paydesk_faults):
    fault = paydesk_faults.add("create_order", "answer_lost")
    paydesk_terminal.will.tap()
    with pytest.raises(AssertionError, match="does not answer"):
        paydesk.create(paydesk_terminal, key="k1")
    assert len(fault.wait()) == 1
    order = paydesk.create(paydesk_terminal, key="k1")
    paydesk.wait_for("processed", order)
    assert len(paydesk.charges()) == 1

def test_one_that_is_held(paydesk, paydesk_terminal, paydesk_faults):
    import threading
    fault = paydesk_faults.add("create_order", "late")
    creating = threading.Thread(target=paydesk.create, args=(paydesk_terminal,))
    creating.start()
    fault.wait()
    assert paydesk.orders() == []
    fault.release()
    creating.join()
    assert len(paydesk.orders()) == 1

def test_those_of_webhooks(paydesk, paydesk_sellers, paydesk_terminal, paydesk_faults, paydesk_webhooks):
    fault = paydesk_faults.add("order.processed", "twice", edge="webhook")
    paydesk_faults.add("order.created", "bad_signature", edge="webhook")
    other = paydesk_sellers()
    terminal = other.terminal()
    for one, at in ((other, terminal), (paydesk, paydesk_terminal)):
        at.will.tap()
        order = one.create(at)
        one.wait_for("processed", order)
    assert paydesk_webhooks.wait_for("order.processed", order, count=2).signature_valid
    assert fault.wait()[0].order == order.id
    assert not paydesk_webhooks.wait_for("order.created", order).signature_valid
    assert other.webhooks.wait_for("order.created").signature_valid
    other.webhooks.wait_for("order.processed")
    assert len(other.webhooks.received("order.processed")) == 1

def test_an_unused_one(paydesk, paydesk_faults):
    paydesk_faults.add("create_order", "busy", times=2)

@pytest.mark.xfail(strict=True)
def test_an_unused_one_is_expected(paydesk, paydesk_faults):
    paydesk_faults.add("create_order", "busy", times=None)

def test_one_that_may_miss(paydesk, paydesk_faults):
    paydesk_faults.add("create_order", "busy", may_miss=True, reference="s1", every=3, seed=7)
    assert paydesk_faults.added[0].fired == []
""",
        f"--paydesk-credentials={shared}",
    )
    assert (ran.code, ran.outcomes) == (1, {"passed": 4, "failed": 1, "xfailed": 1}), ran.output
    assert re.search(r"The fault till create_order busy \(test_till.py:\d+\) fired 0 of 2 times\.", ran.output)
    found = credentials(shared.parent.parent)
    _, left = request("GET", f"{found['base_url']}/dev/faults", found["operator"]["token"])
    assert left["data"] == []


OWN_CLOCKS = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_moves_the_clock(paydesk_clock, paydesk_service, number, paydesk, paydesk_terminal):
    paydesk_clock.advance("1h")
    order = paydesk.create(paydesk_terminal)
    paydesk_terminal.tap()
    paydesk.wait_for("processed", order)
"""


@pytest.mark.slow
@pytest.mark.long("two services start as processes")
def test_each_worker_has_a_service_of_its_own(tmp_path: Path) -> None:
    """With a database of its own: the clocks of two workers differ."""
    url = f"sqlite:{tmp_path}/{{worker}}.db"
    ran = Ran.of(tmp_path, OWN_CLOCKS, "-n", "2", "-p", "xdist", PAYDESK_DATABASE_URL=url)
    assert (ran.code, ran.outcomes) == (0, {"passed": 4}), ran.output
    assert {"gw0.db", "gw1.db"} <= {file.name for file in tmp_path.iterdir()}


@pytest.mark.slow
@pytest.mark.long("two services start as processes")
def test_each_worker_has_a_database_of_postgresql(
    tmp_path: Path, postgres_server: PostgresServer, migrated_postgres: str
) -> None:
    """It must be there: `{worker}` is its worker's name."""
    for worker in ("gw0", "gw1"):
        postgres_server.create_database(f"plugin_{worker}", migrated_postgres)
    url = postgres_server.url("plugin_gw0").replace("plugin_gw0", "plugin_{worker}")
    ran = Ran.of(tmp_path, OWN_CLOCKS, "-n", "2", "-p", "xdist", PAYDESK_DATABASE_URL=url)
    assert (ran.code, ran.outcomes) == (0, {"passed": 4}), ran.output


@pytest.mark.long("pytest runs as a process, twice")
def test_a_database_that_workers_would_share_is_refused(tmp_path: Path) -> None:
    """And so is a file that is no credentials file; both in words, before anything starts."""
    source = "def test_it(paydesk): pass"
    ran = Ran.of(tmp_path, source, PAYDESK_DATABASE_URL=f"sqlite:{tmp_path}/one.db")
    assert ran.outcomes == {"error": 1}
    assert "PAYDESK_DATABASE_URL has no {worker}" in ran.output
    ran = Ran.of(tmp_path, source, f"--paydesk-credentials={tmp_path / 'pytest.ini'}")
    assert ran.outcomes == {"error": 1}
    assert "pytest.ini is not a credentials file of `paydesk dev`" in ran.output


@pytest.mark.long("pytest and a service start as processes")
def test_a_service_that_does_not_start_says_why(tmp_path: Path) -> None:
    """With the end of its log."""
    ran = Ran.of(tmp_path, "def test_it(paydesk): pass", PAYDESK_LOG_LEVEL="loud")
    assert ran.outcomes == {"error": 1}
    assert "`paydesk dev` did not start (exit 2)" in ran.output
    assert "log_level" in ran.output.lower()
