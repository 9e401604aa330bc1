"""Every unhappy path of a sale with the till of examples/till, and planted defects that the paths find."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import time
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
from paydesk_dev.testing.service import Service
from pytest_process import Ran
from seeds import seeded
from waiting import wait_until

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples" / "till"))

from test_till import KilledClient, PlayedTill  # noqa: E402 - the example is no package
from till_client import Document, rows  # noqa: E402

from till import Till  # noqa: E402

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
            self.change(order["external_reference"], status="paid", is_watched=0)
        return super().receive(headers, body, target)


class _RefundsTwice(Till):
    """Refunds with another key when it is asked again."""

    def refund(self, reference: str, amount: str | None = None) -> str:
        rows(self.file, "UPDATE refunds SET is_answered = 1")
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
            self.change(sale["reference"], status="unpaid", is_watched=0)
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
    """Does so a moment after it was asked."""

    def refund(self, reference: str, amount: str | None = None) -> str:
        time.sleep(0.3)
        return super().refund(reference, amount)


class _RefundsTooLittle(Till):
    """Refunds one less."""

    def refund(self, reference: str, amount: str | None = None) -> str:
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
