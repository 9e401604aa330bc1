"""Concurrent refunds never exceed the paid amount, a key is one refund, and the acquirer's ledger agrees.

`RACE_ROUNDS=2000` plays the long form: so many rounds of each on each database, half of them with commits that are
shared and half with one each. `-s` prints what they came to.
"""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from conftest import short_and_long
from nodes import two_nodes
from paydesk.core.clock import MovableClock
from paydesk.http import three_phase
from paydesk.settings import Settings
from paydesk.storage.database import Database
from refund_scene import Refunder, ledgers_agree, only, pay, refund, worker
from service import Device, Reply, Service

pytestmark = pytest.mark.usefixtures("batching", "patient_database")

ROUNDS = short_and_long(20, int(os.environ.get("RACE_ROUNDS", "120")) // 2)
ROUNDS_MAX = 2000
TERMINALS = 20
PATIENT = Settings(refund_answer_seconds=60)
"""However loaded the machine: what is decided is answered."""
SPREAD_SECONDS = 0.01
HOUR_MS = 3_600_000


Play = Callable[[Service, Service, Device], Awaitable[str]]
"""One round on one terminal, of which two nodes hear; what it came to."""


async def play(database: Database, database_url: str, rounds: int, one_round: Play) -> Counter[str]:
    """Play the rounds concurrently on all terminals; afterwards both ledgers agree."""
    outcomes: Counter[str] = Counter()
    async with two_nodes(database, database_url, settings=PATIENT) as (one, other):

        async def on_one_terminal() -> None:
            device = await one.device(await one.terminal())
            for _ in range(rounds // TERMINALS):
                outcomes[await one_round(one, other, device)] += 1

        await asyncio.gather(*(on_one_terminal() for _ in range(TERMINALS)))
    await ledgers_agree(database)
    assert outcomes.total() == rounds
    print(f"{database.name}: {dict(outcomes)}")  # noqa: T201 - the figures of a run with -s
    return outcomes


async def at_once(*calls: Callable[[], Awaitable[Reply]]) -> list[Reply]:
    """Return the replies to calls that begin at once, or each at a random moment."""
    spread = random.choice((0, SPREAD_SECONDS))

    async def one(call: Callable[[], Awaitable[Reply]]) -> Reply:
        await asyncio.sleep(random.random() * spread)
        return await call()

    return list(await asyncio.gather(*(one(call) for call in calls)))


def codes(replies: list[Reply]) -> list[str]:
    """Return each reply's status, with its error code."""
    return sorted(str(reply.status) if reply.status == 201 else reply.code for reply in replies)


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_eight_parts_that_exceed_the_payment(database: Database, database_url: str, rounds: int) -> None:
    """Of eight parts of a sixth and a bit six are refunded and two rejected."""
    outcomes = await play(database, database_url, rounds, _eight_parts)
    assert set(outcomes) == {"six"}


async def _eight_parts(one: Service, other: Service, device: Device) -> str:
    order_id = await pay(device, "10.00")
    replies = await at_once(*(partial(refund, (one, other)[place % 2], order_id, "1.60") for place in range(8)))
    refused = [reply for reply in replies if reply.status != 201]
    assert {reply.code for reply in refused} <= {"refund_in_progress", "refund_amount_exceeds"}, codes(replies)
    assert {only(reply)["status"] for reply in replies if reply.status == 201} == {"processed"}
    payment = (await one.get(order_id))["transactions"]["payments"][0]
    assert (payment["refunded_amount"], payment["status_detail"]) == ("9.60", "partially_refunded")
    return {6: "six"}.get(8 - len(refused), f"{8 - len(refused)} were refunded")


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_a_whole_refund_against_a_part(database: Database, database_url: str, rounds: int) -> None:
    """The part and then the rest, or one of the two alone; a rejected one can be requested again."""
    outcomes = await play(database, database_url, rounds, _whole_against_part)
    while len(outcomes) == 1 and outcomes.total() < ROUNDS_MAX:
        # On a loaded machine one of the two may be late for all of so few rounds.
        outcomes += await play(database, database_url, rounds, _whole_against_part)
    assert set(outcomes) <= {
        "both",
        "part, whole refund_in_progress",
        "whole, part refund_in_progress",
        "whole, part order_already_refunded",
    }
    assert len(outcomes) > 1


async def _whole_against_part(one: Service, other: Service, device: Device) -> str:
    order_id = await pay(device, "10.00")
    key = str(uuid.uuid4())
    whole, part = await at_once(partial(refund, one, order_id, key=key), partial(refund, other, order_id, "4.00"))
    order = await other.get(order_id)
    if whole.status == 201 == part.status:
        assert (only(whole)["amount"], order["status"]) == ("6.00", "refunded")
        return "both"
    if whole.status == 201:
        assert (only(whole)["amount"], order["status"]) == ("10.00", "refunded")
        return f"whole, part {part.code}"
    assert part.status == 201
    assert order["status_detail"] == "partially_refunded"
    again = await refund(other, order_id, key=key)
    assert (again.status, only(again)["amount"]) == (201, "6.00")
    return f"part, whole {whole.code}"


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_whole_refunds_under_different_keys(database: Database, database_url: str, rounds: int) -> None:
    """One of them succeeds."""
    outcomes = await play(database, database_url, rounds, _whole_against_whole)
    assert set(outcomes) == {"one"}


async def _whole_against_whole(one: Service, other: Service, device: Device) -> str:
    order_id = await pay(device)
    replies = await at_once(*(partial(refund, node, order_id) for node in (one, other, one)))
    refused = {reply.code for reply in replies if reply.status != 201}
    assert refused <= {"refund_in_progress", "order_already_refunded"}, codes(replies)
    assert (await one.get(order_id))["status"] == "refunded"
    return {1: "one"}.get(codes(replies).count("201"), "several")


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_refunds_under_one_key(database: Database, database_url: str, rounds: int) -> None:
    """One refund and one response, which the others replay byte for byte."""
    outcomes = await play(database, database_url, rounds, _one_key)
    assert set(outcomes) == {"one"}


async def _one_key(one: Service, other: Service, device: Device) -> str:
    order_id, key = await pay(device), str(uuid.uuid4())
    nodes = (one, other) * 3
    replies = await at_once(*(partial(refund, node, order_id, "5.00", key=key) for node in nodes))
    assert {(reply.status, reply.raw) for reply in replies} == {(201, replies[0].raw)}, codes(replies)
    assert sum("x-idempotent-replayed" not in reply.headers for reply in replies) == 1
    order = await other.get(order_id)
    assert order["transactions"]["payments"][0]["refunded_amount"] == "5.00"
    assert order["version"] == 4
    return {1: "one"}.get(len(order["transactions"]["refunds"]), "several")


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_a_request_against_the_worker(database: Database, database_url: str, rounds: int) -> None:
    """A worker that ignores leases claims the refund: one movement and one response."""
    later = MovableClock()
    later.advance(HOUR_MS)

    async def one_round(one: Service, other: Service, device: Device) -> str:
        order_id, key = await pay(device), str(uuid.uuid4())
        taker = worker(other, wall=later)
        asked = [partial(refund, node, order_id, "5.00", key=key) for node in (one, other)]

        async def take_up() -> None:
            for _ in range(3):
                await asyncio.sleep(random.random() * SPREAD_SECONDS)
                await taker.start_due()
            await taker.settle()

        replies, _ = await asyncio.gather(at_once(*asked), take_up())
        assert {(reply.status, reply.raw) for reply in replies} == {(201, replies[0].raw)}
        assert (await refund(one, order_id, "5.00", key=key)).raw == replies[0].raw
        order = await one.get(order_id)
        (shown,) = order["transactions"]["refunds"]
        assert (shown["status"], order["version"]) == ("processed", 4)
        return str(only(replies[0])["status"])

    outcomes = await play(database, database_url, rounds, one_round)
    assert set(outcomes) <= {"processed", "processing"}


async def test_a_repeat_on_another_node_is_notified(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not have to poll for the response."""
    monkeypatch.setattr(three_phase, "POLL_INTERVAL_SECONDS", 60)
    monkeypatch.setattr(three_phase, "REPEAT_WAITS_SECONDS_MAX", 60)
    refunder = Refunder(closed=True)
    async with two_nodes(database, database_url, acquirers=refunder.acquirers) as (one, other):
        order_id = await pay(await one.device(await one.terminal()))
        first = asyncio.create_task(refund(one, order_id, key="key"))
        await refunder.was_asked.wait()
        with other.database.signals.subscribe("never") as never:
            repeat = asyncio.create_task(refund(other, order_id, key="key"))
            await never.wait(0.3)
        refunder.opens.set()
        async with asyncio.timeout(30):
            assert (await repeat).raw == (await first).raw
