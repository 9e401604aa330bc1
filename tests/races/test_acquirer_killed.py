"""`kill -9` of the simulated acquirer: repeated requests get the same results, and its ledger has each once."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from acquirer_process import AMOUNT_MINOR, ask, capabilities_for, payment_of, requests
from acquirer_scene import SELLER, Bank, new_key, new_payment
from conftest import first_and_others, short_and_long
from forks import Forks
from paydesk.engine.invariants.simulator_ledger import WHOLE_RULES as BOOK_RULES
from paydesk.engine.payments.acquirer import Approved, NotSent, Result, Unknown
from paydesk.platform.storage.connect import open_database
from paydesk_process import environment
from seeds import seed

SIGKILLED = -signal.SIGKILL
BOOK_AGAINST_ITSELF = next(rule.sql for rule in BOOK_RULES if rule.name == "simulator_ledger_inconsistent")


FORKS = Forks("acquirer_process")


@contextlib.asynccontextmanager
async def _bank(database_url: str, operation: str = "") -> AsyncIterator[Bank]:
    database = await open_database(database_url)
    yield Bank(database, capabilities=capabilities_for(operation))
    await database.close()


TABLES = {"payment": "simulator_payments", "confirmation": "simulator_confirmation_movements"}


async def _result(bank: Bank, operation: str, payment_id: str, key: str) -> Result:
    """Return the final result of the request."""
    for _ in range(10):
        outcome = await ask(bank, operation, payment_of(payment_id), key)
        if not isinstance(outcome, Unknown | NotSent):
            return outcome
    raise AssertionError(f"no answer to {operation} {key}")


@pytest.mark.parametrize("operation", [*first_and_others("refund", "payment", "reversal"), "confirmation"])
async def test_killed_before_or_after_the_commit(database_url: str, tmp_path: Path, operation: str) -> None:
    """After a repeat it has charged, refunded, reversed or confirmed once."""
    for label in ("before_commit", "after_commit"):
        payment_id, key = new_payment().payment_id, new_key()
        if operation != "payment":
            async with _bank(database_url, operation) as bank:
                assert isinstance(await ask(bank, "payment", payment_of(payment_id), ""), Approved)
        fork = FORKS.start([database_url, operation, label, payment_id, key], environment(), tmp_path / "log")
        assert fork.wait() == SIGKILLED, (tmp_path / "log").read_text()
        async with _bank(database_url) as bank:
            table = TABLES.get(operation, "simulator_movements")
            sql = f"SELECT COUNT(*) FROM {table} WHERE seller_id = $1 AND payment_id = $2"
            there = await bank.row(sql, SELLER, payment_id)
            assert there == (int(label == "after_commit"),)
            outcome = await _result(bank, operation, payment_id, key)
            assert isinstance(outcome, Approved)
            assert await _result(bank.again(), operation, payment_id, key) == outcome
            assert await bank.row(sql, SELLER, payment_id) == (1,)
            assert await bank.row(BOOK_AGAINST_ITSELF) is None


@pytest.mark.parametrize("kills", short_and_long(2, 6))
async def test_killed_at_any_moment(database_url: str, tmp_path: Path, kills: int) -> None:
    """Results stay the same, refunds stay within the payment, and the ledger is consistent."""
    chosen = seed()
    moments, log, run = random.Random(chosen), tmp_path / "log", str(chosen)
    for number in range(kills):
        arguments = [database_url, "everything", str(chosen + number), run, ""]
        before = log.stat().st_size if log.exists() else 0
        fork = FORKS.start(arguments, environment(), log)
        _wait_for_a_result(log, before, number + 2 + moments.randrange(20))
        fork.send_signal(signal.SIGKILL)
        assert fork.wait() == SIGKILLED, log.read_text()
    async with _bank(database_url) as bank:
        final = {
            (operation, payment_id, key): await _result(bank, operation, payment_id, key)
            for operation, payment_id, key in dict.fromkeys(requests(run, chosen))
        }
        reversed_ids = {payment_id for operation, payment_id, _ in final if operation == "reversal"}
        results = 0
        for line in log.read_text().splitlines():
            operation, payment_id, key, outcome = line.split(" ", 3)
            if outcome.startswith(("Unknown", "NotSent")):
                continue
            results += 1
            if operation != "payment" or payment_id not in reversed_ids:
                assert outcome == str(final[operation, payment_id, key]), line
        assert results > kills
        assert await bank.row(BOOK_AGAINST_ITSELF) is None
        refunded = await bank.row(
            "SELECT MAX(refunded_minor), SUM(refunded_minor) FROM simulator_payments WHERE seller_id = $1", SELLER
        )
        assert refunded is not None
        assert refunded[0] <= AMOUNT_MINOR
        assert refunded[1] > 0


def _wait_for_a_result(log: Path, before: int, results_min: int) -> None:
    """Wait until the log has grown, and has so many results that are final."""
    deadline = time.monotonic() + 30
    while not log.exists() or log.stat().st_size <= before or _final_results(log) < results_min:
        assert time.monotonic() < deadline, "the acquirer gives no result"
        time.sleep(0.005)  # Another process gives no sign of its own.


def _final_results(log: Path) -> int:
    outcomes = [line.split(" ", 3)[-1] for line in log.read_text().splitlines()]
    return sum(not outcome.startswith(("Unknown", "NotSent")) for outcome in outcomes)
