"""Acquirer, terminal and operator race for the outcome of an order: one of them sets it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from conftest import short_and_long
from device_scene import APPROVED, DECLINED, Desk, open_desk
from event_loops import turns
from jobs_scene import SAID, FakeAcquirer, inquire, process_reversals, reversals_of, unknown
from paydesk.core.errors import Refusal
from paydesk.engine.invariants import check
from paydesk.engine.orders import store
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.engine.payments import resolving
from paydesk.engine.payments.acquirer import Approved, NotFound
from paydesk.engine.payments.acquirers import CheckedAcquirer
from paydesk.engine.payments.outcomes import Paid
from paydesk.platform.operation import Answer
from paydesk.platform.settings import Settings
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Database, Transaction

ROUNDS = short_and_long(8, 48)
LAGS = (0, 3, 1, 9, 5, 2, 14, 7)
"""By how many turns of the loop one of two is late in the rounds in which both begin at once."""


@pytest.fixture
async def desk(database: Database) -> Desk:
    """A terminal that has sent hello."""
    return await open_desk(database)


async def race(number: int, one: Coroutine[Any, Any, Any], other: Coroutine[Any, Any, Any]) -> tuple[Any, Any]:
    """Return both results; of four rounds one begins when the other has ended, either way, and two at once."""
    if number % 4 == 0:
        return await one, await other
    if number % 4 == 1:
        second = await other
        return await one, second

    async def late(lag: int, runner: Coroutine[Any, Any, Any]) -> Any:
        await turns(lag)
        return await runner

    lags = (0, LAGS[number // 4 % len(LAGS)])
    first, second = await asyncio.gather(*map(late, lags if number % 4 == 2 else lags[::-1], (one, other)))
    return first, second


def approval(number: int) -> Approved:
    """Return the acquirer's approval of a round, with a reference of its own."""
    return replace(SAID, reference_id=str(90210000000000 + number))


async def reversal_statuses(desk: Desk, acquirer: FakeAcquirer, order: Order) -> list[str]:
    """Run the worker of reversals and return the statuses of the order's."""
    await process_reversals(desk, acquirer)
    return [row[3] for row in await reversals_of(desk, order)]


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_an_approval_from_both_is_one_payment(desk: Desk, rounds: int) -> None:
    """Acquirer and terminal report the same approval: processed once, and nothing is reversed."""
    first: Counter[bool] = Counter()
    for number in range(rounds):
        acquirer, order = FakeAcquirer(), await unknown(desk)
        said = approval(number)
        acquirer.say(said)
        report = desk.report(order, {**APPROVED, "reference_id": said.reference_id})
        _, answer = await race(number, inquire(desk, acquirer), report)
        first[isinstance(answer, Answer)] += 1
        paid = await desk.now(order)
        assert (paid.status, paid.version, paid.reference_id) == ("processed", 4, said.reference_id)
        await inquire(desk, acquirer)
        assert await reversal_statuses(desk, acquirer, order) == []
    assert len(first) == 2, "either comes first in some rounds"
    assert await check.check(desk.database, desk.clock.now_ms()) == []


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_a_decline_against_the_acquirers_approval(desk: Desk, rounds: int) -> None:
    """Processed with the decline recorded, or failed with the approval reversed."""
    outcomes: Counter[tuple[str, str]] = Counter()
    for number in range(rounds):
        acquirer, order = FakeAcquirer(), await unknown(desk)
        acquirer.say(approval(number))
        await race(number, inquire(desk, acquirer), desk.report(order, DECLINED))
        ended = await desk.now(order)
        assert ended.version == 4
        outcomes[ended.status, " ".join(await reversal_statuses(desk, acquirer, order))] += 1
    assert set(outcomes) == {("processed", ""), ("failed", "reversed")}
    assert await check.check(desk.database, desk.clock.now_ms()) == []


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_an_approval_while_being_reversed(desk: Desk, rounds: int) -> None:
    """Not found two minutes after the permit, and the terminal reports at that moment: paid or reversed, not both."""
    outcomes: Counter[tuple[str, int, str]] = Counter()
    for number in range(rounds):
        acquirer, order = FakeAcquirer(), await unknown(desk)
        acquirer.say(NotFound())
        await inquire(desk, acquirer)
        desk.clock.advance(120_000)
        said = approval(number)
        report = desk.report(order, {**APPROVED, "reference_id": said.reference_id})
        await race(number, inquire(desk, acquirer), report)
        undone = len(acquirer.reversed_keys)
        acquirer.say(said)
        ended = await desk.now(order)
        outcomes[ended.status, undone, " ".join(await reversal_statuses(desk, acquirer, order))] += 1
    assert set(outcomes) == {("processed", 0, ""), ("failed", 1, "reversed")}
    assert await check.check(desk.database, desk.clock.now_ms()) == []


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_an_operator_against_the_acquirer(desk: Desk, rounds: int) -> None:
    """The acquirer approves while an operator declines: one outcome; a charge without it is reversed."""
    outcomes: Counter[tuple[str, str]] = Counter()
    for number in range(rounds):
        acquirer, order = FakeAcquirer(), await unknown(desk)
        acquirer.say(approval(number))
        desk.clock.advance(180_000)

        async def resolve(order: Order = order, acquirer: FakeAcquirer = acquirer) -> None:
            async def work(tx: Transaction) -> None:
                held = await store.lock(tx, order.seller_id, order.order_id)
                assert held is not None
                change = Change(tx, desk.clock.now_ms(), PLAIN)
                await resolving.resolve(
                    change, held, "declined", Paid(), settings=Settings(), acquirer=CheckedAcquirer(acquirer)
                )

            with contextlib.suppress(Refusal):
                await desk.database.write(
                    work, conflict_keys=[conflict_keys.order(order.order_id), conflict_keys.terminal(order.terminal_id)]
                )

        await race(number, inquire(desk, acquirer), resolve())
        ended = await desk.now(order)
        assert ended.version == 4
        outcomes[ended.status, " ".join(await reversal_statuses(desk, acquirer, order))] += 1
    assert set(outcomes) == {("processed", ""), ("failed", "reversed")}
    assert await check.check(desk.database, desk.clock.now_ms()) == []
