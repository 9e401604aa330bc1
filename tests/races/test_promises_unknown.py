"""The words of acquirer, terminal and operator race for an order whose outcome nobody knew: one of them is it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from asking_scene import SAID, ToldAcquirer, give_back, inquire, reversals_of, unknown
from device_scene import APPROVED, DECLINED, Desk, open_desk
from paydesk.core.errors import Refusal
from paydesk.invariants import check
from paydesk.operation import Answer
from paydesk.orders import store
from paydesk.orders.order import Order
from paydesk.payments import resolving
from paydesk.payments.acquirer import Approved, NotFound
from paydesk.storage.database import Database, Transaction

ROUNDS = 48
SPREAD_SECONDS = 0.004
HEAD_START_SECONDS = 0.05


@pytest.fixture
async def desk(database: Database) -> Desk:
    """A terminal that has said hello."""
    return await open_desk(database)


async def race(number: int, one: Coroutine[Any, Any, Any], other: Coroutine[Any, Any, Any]) -> tuple[Any, Any]:
    """What comes of both: in some rounds either has a start, in the others they come at random moments."""

    async def begin(after_seconds: float, runner: Coroutine[Any, Any, Any]) -> Any:
        await asyncio.sleep(after_seconds)
        return await runner

    delays = {0: (0, HEAD_START_SECONDS), 1: (HEAD_START_SECONDS, 0)}.get(
        number % 8, (random.random() * SPREAD_SECONDS, random.random() * SPREAD_SECONDS)
    )
    return await asyncio.gather(begin(delays[0], one), begin(delays[1], other))


def approval(number: int) -> Approved:
    """What the acquirer says of a round's payment, which has a number of its own."""
    return replace(SAID, reference_id=str(90210000000000 + number))


async def given_back(desk: Desk, acquirer: ToldAcquirer, order: Order) -> list[str]:
    """How far what is to be given back of the order has come, once the worker was at it."""
    await give_back(desk, acquirer)
    return [row[3] for row in await reversals_of(desk, order)]


async def test_an_approval_told_by_both_is_one_payment(desk: Desk) -> None:
    """Acquirer and terminal tell of the same approval at once: processed, once, and nothing ever goes back."""
    first: Counter[bool] = Counter()
    for number in range(ROUNDS):
        acquirer, order = ToldAcquirer(), await unknown(desk)
        said = approval(number)
        acquirer.say(said)
        told = desk.report(order, {**APPROVED, "reference_id": said.reference_id})
        _, answer = await race(number, inquire(desk, acquirer), told)
        first[isinstance(answer, Answer)] += 1
        paid = await desk.now(order)
        assert (paid.status, paid.version, paid.reference_id) == ("processed", 4, said.reference_id)
        await inquire(desk, acquirer)
        assert await given_back(desk, acquirer, order) == []
    assert len(first) == 2, "either comes first at times"
    assert await check.check(desk.database, desk.clock.now_ms()) == []


async def test_a_decline_against_the_acquirers_approval(desk: Desk) -> None:
    """Processed and the decline is evidence, or failed and the approval goes back: the buyer never pays for nothing."""
    outcomes: Counter[tuple[str, str]] = Counter()
    for number in range(ROUNDS):
        acquirer, order = ToldAcquirer(), await unknown(desk)
        acquirer.say(approval(number))
        await race(number, inquire(desk, acquirer), desk.report(order, DECLINED))
        ended = await desk.now(order)
        assert ended.version == 4
        outcomes[ended.status, " ".join(await given_back(desk, acquirer, order))] += 1
    assert set(outcomes) == {("processed", ""), ("failed", "reversed")}
    assert await check.check(desk.database, desk.clock.now_ms()) == []


async def test_an_approval_against_what_is_being_undone(desk: Desk) -> None:
    """The acquirer knew nothing for ten minutes, and the terminal comes back that moment: paid or undone, not both."""
    outcomes: Counter[tuple[str, int, str]] = Counter()
    for number in range(ROUNDS):
        acquirer, order = ToldAcquirer(), await unknown(desk)
        acquirer.say(NotFound())
        await inquire(desk, acquirer)
        desk.clock.advance(600_000)
        said = approval(number)
        told = desk.report(order, {**APPROVED, "reference_id": said.reference_id})
        await race(number, inquire(desk, acquirer), told)
        undone = len(acquirer.reversed_keys)
        acquirer.say(said)
        ended = await desk.now(order)
        outcomes[ended.status, undone, " ".join(await given_back(desk, acquirer, order))] += 1
    assert set(outcomes) == {("processed", 0, ""), ("failed", 1, "reversed")}
    assert await check.check(desk.database, desk.clock.now_ms()) == []


async def test_an_operator_against_the_acquirer(desk: Desk) -> None:
    """The acquirer speaks at last while an operator declines: one outcome; what was charged for nothing goes back."""
    outcomes: Counter[tuple[str, str]] = Counter()
    for number in range(ROUNDS):
        acquirer, order = ToldAcquirer(), await unknown(desk)
        acquirer.say(approval(number))
        desk.clock.advance(600_000)

        async def resolve(order: Order = order) -> None:
            async def work(tx: Transaction) -> None:
                held = await store.lock(tx, order.seller_id, order.order_id)
                assert held is not None
                now_ms = desk.clock.now_ms()
                await resolving.resolve(tx, held, "declined", now_ms, after_seconds=600, has_acquirer=True)

            with contextlib.suppress(Refusal):
                await desk.database.write(
                    work, conflict_keys=[f"order:{order.order_id}", f"terminal:{order.terminal_id}"]
                )

        await race(number, inquire(desk, acquirer), resolve())
        ended = await desk.now(order)
        assert ended.version == 4
        outcomes[ended.status, " ".join(await given_back(desk, acquirer, order))] += 1
    assert set(outcomes) == {("processed", ""), ("failed", "reversed")}
    assert await check.check(desk.database, desk.clock.now_ms()) == []
