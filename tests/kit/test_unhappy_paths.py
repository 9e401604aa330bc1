"""Every unhappy path of a sale with the till of examples/till, and planted defects that the paths find."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dev_thread import dev
from paydesk_dev.paths.path import ACTIONS, all_paths
from paydesk_dev.paths.play import Play
from paydesk_dev.testing.paydesk import Paydesk
from paydesk_dev.testing.service import Service
from pytest_process import Ran
from seeds import seeded
from waiting import wait_until

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples" / "till"))

from test_till import KilledClient, PlayedTill, end_of_threads  # noqa: E402 - the example is no package
from till_client import Client, Document, rows  # noqa: E402

from till import Till, main  # noqa: E402

PATHS = all_paths()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Yield a running service."""
    folder = tmp_path_factory.mktemp("paths")
    with dev(folder):
        yield Service.of_file(folder / ".paydesk" / "credentials.json")


@pytest.mark.parametrize("path_id", PATHS)
def test_the_till_of_the_example_ends_each_path_as_it_has_to(path_id: str, service: Service, tmp_path: Path) -> None:
    """It charges once, and hands over the goods for a payment alone."""
    assert _problems(Play(PATHS[path_id], service, quiet_seconds=1), tmp_path) == []


def _problems(
    play: Play, folder: Path, till: type[Till] = Till, client: type[KilledClient] = KilledClient
) -> list[str]:
    played = PlayedTill(play, folder / "till.db", till, client)
    try:
        return play.run(played)
    finally:
        played.close()


@pytest.mark.slow
@pytest.mark.on_postgres
@pytest.mark.long("it plays every path, one after the other")
def test_every_path_in_another_order(database_url: str, tmp_path: Path) -> None:
    """On both databases; the clock moves on, and a path does not depend on those before it."""
    with dev(tmp_path, PAYDESK_DATABASE_URL=database_url):
        service = Service.of_file(tmp_path / ".paydesk" / "credentials.json")
        found = {}
        for path in seeded().sample([*PATHS.values()], len(PATHS)):
            folder = tmp_path / path.id
            folder.mkdir()
            found[path.id] = _problems(Play(path, service, quiet_seconds=1), folder)
    assert {path_id: problems for path_id, problems in found.items() if problems} == {}


@pytest.mark.slow
@pytest.mark.long("pytest and its workers run as processes")
def test_the_tests_of_the_example_pass_as_they_are(tmp_path: Path) -> None:
    """In four workers, each with a service of its own, as a developer runs them."""
    for file in ("till.py", "till_client.py"):
        (tmp_path / file).write_bytes((ROOT / "examples" / "till" / file).read_bytes())
    source = (ROOT / "examples" / "till" / "test_till.py").read_text()
    ran = Ran.of(tmp_path, source, "-n", "4", "-p", "xdist")
    assert (ran.code, ran.outcomes) == (0, {"passed": len(PATHS)}), ran.output


@pytest.mark.parametrize(
    ("path_id", "column", "amount"),
    [
        ("paid-with-tip", "paid", "27.39"),
        ("refunded-in-parts", "refunded", "24.90"),
        ("refund-fails-late", "refunded", "0"),
    ],
)
def test_the_till_books_what_was_paid_and_refunded(
    path_id: str, column: str, amount: str, service: Service, tmp_path: Path
) -> None:
    """A tip is paid too, and a refund that fails later is none."""
    play, file = Play(PATHS[path_id], service, quiet_seconds=1), tmp_path / "till.db"
    played = PlayedTill(play, file)
    assert play.run(played) == []
    wait_until(lambda: rows(str(file), "SELECT * FROM sales")[0][column] == amount)
    played.close()


def test_the_file_can_be_played() -> None:
    """Each step is a fault of the grammar, or an action of the till, the buyer or an operator."""
    for path in PATHS.values():
        for step in path.steps:
            actor, *words = step.words
            assert step.fault or actor not in ACTIONS or words[0] in ACTIONS[actor], step.line
            assert step.fault or hasattr(Play, f"_{actor}"), step.line


class _NewKeyEachTime(KilledClient):
    """Sends a repeat with another key."""

    def send(self, method: str, path: str, body: Any, headers: Mapping[str, str], *more: Any) -> Any:
        return super().send(method, path, body, {**headers, "X-Idempotency-Key": str(uuid.uuid4())}, *more)


class _NewKeyAfterTimeOut(Till):
    """Sells with another key after it has given up. It learns the order from a notification, which hides this."""

    def sale(self, reference: str, amount: str) -> str:
        new_key = "UPDATE sales SET key = ? WHERE reference = ? AND order_id IS NULL"
        rows(self.file, new_key, str(uuid.uuid4()), reference)
        return super().sale(reference, amount)

    def receive(self, headers: Mapping[str, str], body: bytes, target: str = "") -> int:
        order = json.loads(body)["data"]
        self.change(order["external_reference"], order_id=order["id"])
        return super().receive(headers, body, target)


class _PollsWithoutEnd(Till):
    """Waits for `processed` alone."""

    def book(self, sale: sqlite3.Row, order: Document) -> bool:
        status = order["status"] if order["status"] in ("processed", "failed") else "at_terminal"
        return super().book(sale, {**order, "status": status})


class _PollsWithoutPause(Till):
    """Asks again at once."""

    def look(self, sale: sqlite3.Row) -> bool:
        while super().look(self.find(sale["reference"])):
            pass
        return False


class _TrustsNotifications(Till):
    """Hands over the goods for a notification, signed or not."""

    def receive(self, headers: Mapping[str, str], body: bytes, target: str = "") -> int:
        order = json.loads(body)["data"]
        if order["status"] == "processed":
            self.change(order["external_reference"], status="paid", watched=0)
        return super().receive(headers, body, target)


class _RefundsTwice(Till):
    """Refunds with another key when it is asked again."""

    def refund(self, reference: str, amount: str | None = None) -> sqlite3.Row:
        rows(self.file, "UPDATE refunds SET status = 'processed', is_shown = 1")
        return super().refund(reference, amount)


class _HandsOverTooEarly(Till):
    """Takes `at_terminal` for a payment."""

    def book(self, sale: sqlite3.Row, order: Document) -> bool:
        status = "processed" if order["status"] == "at_terminal" else order["status"]
        return super().book(sale, {**order, "status": status})


class _TakesNotFoundForRefused(Till):
    """Gives a sale up after 404."""

    def look(self, sale: sqlite3.Row) -> bool:
        if sale["order_id"] and self.client.call("GET", f"/v1/orders/{sale['order_id']}")[0] == 404:
            self.change(sale["reference"], status="unpaid", watched=0)
            return False
        return super().look(sale)


class _TakesAcceptedForCanceled(Till):
    """Takes 202 of a cancel for its end."""

    def cancel(self, reference: str) -> None:
        self.has_canceled = True
        super().cancel(reference)

    def book(self, sale: sqlite3.Row, order: Document) -> bool:
        canceled = {"status": "canceled"} if hasattr(self, "has_canceled") else {}
        return super().book(sale, {**order, **canceled})


class _RefundsTwiceLater(_RefundsTwice):
    """Does so after it has asked for something else that is slow."""

    def refund(self, reference: str, amount: str | None = None) -> sqlite3.Row:
        self.client.send("GET", "/users/me", None, {"Paydesk-Fault": "slow:0.3s"}, self.client.tokens["access"])
        return super().refund(reference, amount)


class _RefundsTooLittle(Till):
    """Refunds one less."""

    def refund(self, reference: str, amount: str | None = None) -> sqlite3.Row:
        return super().refund(reference, amount and str(Decimal(amount) - 1))


class _BelievesAll(Till):
    """Checks no signature."""

    def receive(self, headers: Mapping[str, str], body: bytes, target: str = "") -> int:
        super().receive(headers, body, target)
        return 204


class _IgnoresRetryAfter(KilledClient):
    """Repeats after a pause of its own."""

    def send(self, *request: Any) -> Any:
        status, _, document = super().send(*request)
        return status, "0.01", document


class _NewKeyAtOnce(_IgnoresRetryAfter, _NewKeyEachTime):
    """Sends a repeat with another key, after 10 ms."""


class _RepeatsRefused(KilledClient):
    """Sends an order again, a hundred times, that was refused."""

    def send(self, method: str, path: str, *more: Any) -> Any:
        answer = super().send(method, path, *more)
        for _ in range(100 if answer[0] == 403 else 0):
            super().send(method, path, *more)
        return answer


DEFECTS: list[tuple[str, type[Till], type[KilledClient], str]] = [
    ("create-answer-lost", Till, _NewKeyEachTime, "not with processed accredited and"),
    ("create-given-up", _NewKeyAfterTimeOut, KilledClient, "not with processed accredited and"),
    ("nobody-comes", _PollsWithoutEnd, KilledClient, "the till still says that it is open"),
    ("reboot-at-each-step", _PollsWithoutPause, KilledClient, "The till asked"),
    ("forged", _TrustsNotifications, KilledClient, "there is no payment of its amount"),
    ("refund-answer-lost", _RefundsTwice, KilledClient, "10.00 of .* were refunded"),
    ("red-key", _HandsOverTooEarly, KilledClient, "there is no payment of its amount"),
    ("not-found-at-first", _TakesNotFoundForRefused, KilledClient, "is paid, and the till says that it is unpaid"),
    ("cancel-too-late", _TakesAcceptedForCanceled, KilledClient, "is paid, and the till says that it is unpaid"),
    ("refund-answer-lost", _RefundsTwiceLater, KilledClient, "10.00 of .* were refunded"),
    ("refund-answer-lost", _RefundsTooLittle, KilledClient, "4.00 of .* were refunded, .* asked for 5.00"),
    ("create-limited", Till, _NewKeyAtOnce, "create_order with another key after 429"),
    ("create-limited", Till, _IgnoresRetryAfter, "s after 429, and Retry-After was 2 s"),
    ("create-busy", Till, _NewKeyAtOnce, "create_order with another key after 423"),
    ("create-unheard", Till, _NewKeyAtOnce, "create_order with another key after no answer"),
    ("forged", _BelievesAll, KilledClient, "answers 204 to a notification that is (?s:.*)bad_(?s:.*)old_"),
    ("test-and-live-mixed", Till, _RepeatsRefused, "The till asked create_order 101 times"),
]
"""The path that finds the defect of a till or of its client, and with which words."""


@pytest.mark.parametrize(("path_id", "till", "client", "words"), DEFECTS)
def test_a_planted_defect_is_found_by_its_path(
    path_id: str, till: type[Till], client: type[KilledClient], words: str, service: Service, tmp_path: Path
) -> None:
    """And says what is wrong."""
    found = _problems(Play(PATHS[path_id], service, seconds=3, quiet_seconds=1), tmp_path, till, client)
    assert re.search(words, "\n".join(found)), found


class _LeavesAllToPersons(PlayedTill):
    """Says `person`, whatever comes of the order."""

    def status(self, _reference: str) -> str:
        return "person"


@pytest.mark.parametrize("path_id", ["paid-by-tap", "declined"])
def test_a_till_that_leaves_each_sale_to_a_person_is_found(path_id: str, service: Service, tmp_path: Path) -> None:
    """Only a path that says so ends with a person."""
    play = Play(PATHS[path_id], service, quiet_seconds=1)
    played = _LeavesAllToPersons(play, tmp_path / "till.db")
    assert play.run(played) == ["The till leaves the sale to a person, and can go on by itself."]
    played.close()


def test_a_notification_hides_a_new_key_after_a_time_out(service: Service, tmp_path: Path) -> None:
    """So paths about keys drop the notifications."""
    path = PATHS["create-given-up"]
    let_through = replace(path, steps=tuple(step for step in path.steps if not step.line.startswith("webhook")))
    assert len(let_through.steps) == len(path.steps) - 1
    assert _problems(Play(let_through, service, quiet_seconds=1), tmp_path, _NewKeyAfterTimeOut) == []


class _Shop:
    """A till without notifications, whose commands can be run as a cashier does."""

    def __init__(self, service: Service, folder: Path, script: str = "manual") -> None:
        self.paydesk = Paydesk.create_in(service, 10, name="till")
        self.terminal = self.paydesk.terminal(script)
        self.environment, self.file = self.paydesk.environment(self.terminal), str(folder / "till.db")
        self.client = Client(self.file, self.environment, timeout=1, pause=0.1, patience=0.5)
        self.till = Till(self.file, self.environment, self.client)

    def run(self, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
        """Run a command and return its exit code."""
        for name, value in {**self.environment, "TILL_FILE": self.file}.items():
            monkeypatch.setenv(name, value)
        return main(*words)

    def sell_while_lost(self, reference: str, kind: str = "answer_lost") -> None:
        """Sell, with a fault that leaves the create without an answer."""
        fault = self.paydesk.faults.add("create_order", kind, times=None)
        assert self.till.sale(reference, "24.90") == "open"
        fault.remove()

    def age(self, seconds: int) -> None:
        """Let the sales be older."""
        rows(self.file, "UPDATE sales SET begun = begun - ?", seconds)


@pytest.fixture
def shop(service: Service, tmp_path: Path) -> Iterator[_Shop]:
    """Yield a shop whose buyers come at once."""
    shop = _Shop(service, tmp_path, "approve")
    yield shop
    shop.paydesk.close()
    end_of_threads()


@pytest.fixture
def quiet_shop(service: Service, tmp_path: Path) -> Iterator[_Shop]:
    """Yield a shop without buyers."""
    shop = _Shop(service, tmp_path)
    yield shop
    shop.paydesk.close()
    end_of_threads()


def test_a_refused_refund_is_shown(
    shop: _Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its reason and an exit code of its own; the same amount is another refund afterwards."""
    assert shop.run(monkeypatch, "sale", "s1", "24.90") == 0
    shop.paydesk.refund(shop.paydesk.orders()[0])
    assert shop.run(monkeypatch, "refund", "s1", "5.00") == 1
    assert "The refund of 5.00 is refused with 409: " in capsys.readouterr().out
    assert [row["is_shown"] for row in rows(shop.file, "SELECT * FROM refunds")] == [1]


def test_a_refund_is_the_same_until_the_cashier_has_seen_its_end(
    shop: _Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even if a sweep has completed it; another amount is refused in words, and afterwards the amount is a new one."""
    shop.till.sale("s1", "24.90")
    fault = shop.paydesk.faults.add("refund_order", "answer_lost", times=None)
    assert shop.till.refund("s1", "5.00")["status"] == "open"
    fault.remove()
    shop.till.sweep()
    assert shop.run(monkeypatch, "refund", "s1", "6.00") == 2
    assert "Refund 5.00 of s1 again: its end is not known." in capsys.readouterr().out
    assert shop.run(monkeypatch, "refund", "s1", "5.0") == 0
    assert [charge.refunded_amount for charge in shop.paydesk.charges()] == ["5.00"]
    assert shop.run(monkeypatch, "refund", "s1", "5.00") == 0
    assert [charge.refunded_amount for charge in shop.paydesk.charges()] == ["10.00"]


def test_a_cancel_before_the_create_is_answered_is_obeyed(quiet_shop: _Shop) -> None:
    """The order is found by its reference, and canceled."""
    quiet_shop.sell_while_lost("s1")
    quiet_shop.till.cancel("s1")
    wait_until(lambda: quiet_shop.till.find("s1")["status"] == "unpaid")
    assert [order.status for order in quiet_shop.paydesk.orders()] == ["canceled"]


def test_a_canceled_sale_without_an_order_gets_none(quiet_shop: _Shop) -> None:
    """Not by a sweep either; it is unpaid as soon as no create can arrive any more."""
    quiet_shop.sell_while_lost("s1", "reset")
    rows(quiet_shop.file, "UPDATE sales SET is_canceled = 1")
    quiet_shop.till.sweep()
    assert quiet_shop.till.find("s1")["status"] == "open"
    quiet_shop.age(301)
    quiet_shop.till.sweep()
    assert quiet_shop.till.find("s1")["status"] == "unpaid"
    assert quiet_shop.paydesk.orders() == []


def test_a_sweep_creates_nothing_late(quiet_shop: _Shop) -> None:
    """The buyer has gone; but an order that was made is found."""
    quiet_shop.sell_while_lost("s1")
    quiet_shop.age(301)
    quiet_shop.till.sweep()
    assert quiet_shop.till.find("s1")["order_id"] == quiet_shop.paydesk.orders()[0].id
    quiet_shop.till.cancel("s1")
    quiet_shop.sell_while_lost("s2", "reset")
    quiet_shop.age(301)
    quiet_shop.till.sweep()
    assert quiet_shop.till.find("s2")["status"] == "unpaid"
    assert len(quiet_shop.paydesk.orders()) == 1


def test_a_sweep_looks_once_at_each_sale(quiet_shop: _Shop) -> None:
    """One at the terminal does not keep those after it waiting."""
    quiet_shop.sell_while_lost("s1")
    quiet_shop.sell_while_lost("s2", "reset")
    quiet_shop.age(301)
    quiet_shop.till.sweep()
    assert [quiet_shop.till.find(one)["status"] for one in ("s1", "s2")] == ["open", "unpaid"]


def test_what_is_not_known_has_its_own_exit_code(
    quiet_shop: _Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """4, for it may still be charged; and what is not possible is 2, in words."""
    quiet_shop.sell_while_lost("s1")
    monkeypatch.setattr(Till, "follow", lambda till, reference, **_: till.find(reference)["status"])
    monkeypatch.setattr(Till, "hint", lambda *_: None)
    assert quiet_shop.run(monkeypatch, "cancel", "s1") == 4
    for words in (("cancel", "s9"), ("refund", "s9"), ("refund", "s1", "many"), ("sale", "s1", "1.00")):
        assert quiet_shop.run(monkeypatch, *words) == 2
    said = capsys.readouterr().out
    assert "There is no sale s9." in said
    assert "many is no amount, such as 5.00." in said
    assert "s1 is a sale of 24.90, not of 1.00." in said


def test_a_hint_while_the_order_is_read_is_not_lost(shop: _Shop) -> None:
    """The sale is read again."""
    shop.till.sale("s1", "24.90")
    shop.till.watch("s1")
    sale = shop.till.find("s1")
    shop.till.watch("s1")
    assert shop.till.look(sale) is False
    assert shop.till.find("s1")["watched"]


def test_new_tokens_of_the_environment_are_used(shop: _Shop) -> None:
    """Those that the till has renewed itself stay while those are the same; the file is private."""
    renewed = "UPDATE tokens SET access = 'renewed'"
    rows(shop.file, renewed)
    assert Client(shop.file, shop.environment).tokens["access"] == "renewed"
    later = {**shop.environment, "PAYDESK_ACCESS_TOKEN": "later", "PAYDESK_REFRESH_TOKEN": "refresh"}
    assert tuple(Client(shop.file, later).tokens) == ("later", "refresh")
    assert Path(shop.file).stat().st_mode & 0o777 == 0o600


def test_a_date_to_retry_after_is_no_error(shop: _Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The till waits as long as it would without."""
    answers = iter([(503, "Fri, 27 Nov 2026 15:00:00 GMT", {}), (200, "", {"id": "x"})])
    monkeypatch.setattr(shop.client, "send", lambda *_: next(answers))
    assert shop.client.call("GET", "/v1/orders/x") == (200, {"id": "x"})


def test_a_cancel_without_an_answer_is_repeated_by_a_sweep(quiet_shop: _Shop) -> None:
    """And raises nothing."""
    quiet_shop.sell_while_lost("s1")
    quiet_shop.till.sweep()
    fault = quiet_shop.paydesk.faults.add("cancel_order", "reset", times=None)
    quiet_shop.till.cancel("s1")
    wait_until(lambda: not quiet_shop.till.hints)
    assert quiet_shop.till.find("s1")["status"] == "open"
    fault.remove()
    quiet_shop.till.sweep()
    wait_until(lambda: quiet_shop.paydesk.orders()[0].status == "canceled")


def test_a_repeat_names_the_same_terminal(quiet_shop: _Shop) -> None:
    """Another one in the environment would make it another request."""
    quiet_shop.sell_while_lost("s1")
    moved = {**quiet_shop.environment, "PAYDESK_TERMINAL_ID": quiet_shop.paydesk.terminal().id}
    Till(quiet_shop.file, moved, quiet_shop.client).sweep()
    assert quiet_shop.till.find("s1")["order_id"] == quiet_shop.paydesk.orders()[0].id
    assert len(quiet_shop.paydesk.orders()) == 1
