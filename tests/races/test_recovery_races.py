"""A restarted terminal that never called the acquirer races with the workers, the acquirer and a late result."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from test_promises_unknown import race

from conftest import short_and_long
from device_scene import APPROVED, DECLINED, Desk, answered, new_boot, open_desk, refused
from jobs_scene import SAID, FakeAcquirer, context_of, inquire, inquiry, process_reversals, reversals_of
from paydesk.engine.invariants import check
from paydesk.engine.orders import status
from paydesk.engine.orders.expiry import UNKNOWN_OUTCOME
from paydesk.engine.orders.order import Order
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.platform.operation import Answer
from paydesk.platform.storage.database import Database

ROUNDS = short_and_long(8, 48)
FAILED = status.FAILED["processing_error"]


@pytest.fixture
async def desk(database: Database) -> Desk:
    """A terminal that has sent hello."""
    return await open_desk(database)


async def restart(desk: Desk, order: Order) -> str:
    """Start a new session whose journal says that the acquirer was not called; return the verdict."""
    entry = {"lease_id": order.ulid, "last_step": "authorizing", "sent": False}
    verdict: str = answered(await desk.hello(entry, boot_id=new_boot()))["leases"][0]["verdict"]
    return verdict


async def mark_unknown(desk: Desk) -> None:
    """Run the worker that moves permitted orders to `check_on_terminal` once."""
    # It skips an order that a hello has locked, so it may be needed again.
    await UNKNOWN_OUTCOME.step(context_of(desk, Acquirers(test=FakeAcquirer())))


async def end(desk: Desk, order: Order) -> None:
    """End the order if it is live, so that the terminal is free."""
    if (await desk.now(order)).status in status.LIVE:
        answered(await desk.report(order, DECLINED))


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_an_abort_against_the_unknown_outcome(desk: Desk, rounds: int) -> None:
    """The permit has expired: the order fails at once, whether or not an inquiry has begun."""
    outcomes: Counter[tuple[str, str, int]] = Counter()
    for number in range(rounds):
        order = await desk.granted()
        desk.clock.advance(60_000)
        verdict, _ = await race(number, restart(desk, order), mark_unknown(desk))
        ended = await desk.now(order)
        assert ended.state == FAILED
        outcomes[verdict, ended.origin or "", ended.version] += 1
    assert set(outcomes) == {("abort", "terminal", 3), ("abort", "terminal", 4)}
    assert await check.check(desk.database, desk.clock.now_ms()) == []


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_a_resumption_against_the_unknown_outcome(desk: Desk, rounds: int) -> None:
    """The order is resumed, and the permit is given again or refused; or the order has failed."""
    outcomes: Counter[tuple[str, bool]] = Counter()
    for number in range(rounds):
        order = await desk.granted()
        desk.clock.advance(45_000)
        verdict, _ = await race(number, restart(desk, order), mark_unknown(desk))
        permit = await desk.progress(order, "authorizing")
        outcomes[verdict, isinstance(permit, Answer)] += 1
        if not isinstance(permit, Answer):
            assert refused(permit) == "order_canceled"
        await end(desk, order)
        assert (await desk.now(order)).status == "failed"
    assert set(outcomes) <= {("resume", True), ("resume", False), ("abort", False)}
    assert {verdict for verdict, _ in outcomes} == {"resume", "abort"}
    assert await check.check(desk.database, desk.clock.now_ms()) == []


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_an_abort_against_a_late_approval(desk: Desk, rounds: int) -> None:
    """The journal was wrong: the order is processed, or it has failed and the approval is reversed."""
    outcomes: Counter[tuple[str, str, int]] = Counter()
    for number in range(rounds):
        order = await desk.granted()
        desk.clock.advance(60_000)
        result = {**APPROVED, "reference_id": str(90310000000000 + number)}
        verdict, _ = await race(number, restart(desk, order), desk.report(order, result))
        ended = await desk.now(order)
        outcomes[verdict, ended.status, len(await reversals_of(desk, order))] += 1
    assert set(outcomes) == {("abort", "failed", 1), ("forget", "processed", 0)}
    assert await check.check(desk.database, desk.clock.now_ms()) == []


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_an_abort_against_the_acquirers_approval(desk: Desk, rounds: int) -> None:
    """The journal was wrong: the inquiry processes the order, or finds it failed and reverses the payment."""
    outcomes: Counter[tuple[str, str, str]] = Counter()
    for number in range(rounds):
        acquirer, order = FakeAcquirer(), await desk.granted()
        desk.clock.advance(60_000)
        await mark_unknown(desk)
        acquirer.say(replace(SAID, reference_id=str(90210000000000 + number)))
        verdict, _ = await race(number, restart(desk, order), inquire(desk, acquirer))
        await process_reversals(desk, acquirer)
        ended = await desk.now(order)
        outcomes[verdict, ended.status, " ".join(row[3] for row in await reversals_of(desk, order))] += 1
        assert (await inquiry(desk, order))[1] == "approved"
    assert set(outcomes) == {("abort", "failed", "reversed"), ("forget", "processed", "")}
    assert await check.check(desk.database, desk.clock.now_ms()) == []


async def test_two_starts_at_once_have_one_session(desk: Desk) -> None:
    """Both are judged; only the newest session gets the permit again."""
    order = await desk.granted()
    entry = {"lease_id": order.ulid, "last_step": "authorizing", "sent": False}
    boots = [new_boot(), new_boot()]
    await asyncio.gather(*(desk.hello(entry, boot_id=boot) for boot in boots))
    permits = [await desk.progress(order, "authorizing", boot_id=boot) for boot in boots]
    assert sorted(isinstance(permit, Answer) for permit in permits) == [False, True]
