"""Concurrent refunds never exceed the paid amount, a key is one refund, and the acquirer's ledger agrees.

`RACE_ROUNDS=2000` plays the long form: so many rounds of each on each database, half of them with commits that are
shared and half with one each. `-s` prints what they came to.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from conftest import short_and_long
from event_loops import turns
from nodes import two_nodes
from paydesk.core.clock import MovableClock
from paydesk.platform.http import three_phase
from paydesk.platform.settings import Settings
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Database
from refund_scene import Refunder, ledgers_agree, only, pay, refund, worker
from service import Device, Reply, Service
from waiting import until

pytestmark = pytest.mark.usefixtures("batching", "patient_database")

ROUNDS = short_and_long(8, int(os.environ.get("RACE_ROUNDS", "120")) // 2)
TERMINALS_MAX = 20
PATIENT = Settings(refund_answer_seconds=60)
"""However loaded the machine: what is decided is answered."""
LAGS = (0, 1, 4, 2, 9, 16, 6, 25)
"""By how many turns of the loop calls that begin at once are late, in turn."""
HOUR_MS = 3_600_000


Play = Callable[[Service, Service, Device, int], Awaitable[str]]
"""The round with this number on one terminal, of which two nodes hear; what it came to."""


async def play(database: Database, database_url: str, rounds: int, one_round: Play) -> Counter[str]:
    """Play the rounds concurrently on all terminals; afterwards both ledgers agree."""
    outcomes, count = Counter[str](), min(rounds, TERMINALS_MAX)
    async with two_nodes(database, database_url, settings=PATIENT) as (one, other):

        async def on_one_terminal(place: int) -> None:
            device = await one.device(await one.terminal())
            for number in range(rounds // count):
                outcomes[await one_round(one, other, device, place + number)] += 1

        await asyncio.gather(*map(on_one_terminal, range(count)))
    await ledgers_agree(database)
    assert outcomes.total() == rounds
    print(f"{database.name}: {dict(outcomes)}")  # noqa: T201 - the figures of a run with -s
    return outcomes


async def at_once(number: int, *calls: Callable[[], Awaitable[Reply]]) -> list[Reply]:
    """Return the replies to calls that begin at once, in every other round some turns of the loop apart."""

    async def one(place: int, call: Callable[[], Awaitable[Reply]]) -> Reply:
        await turns(LAGS[(number // 2 + place) % len(LAGS)] if number % 2 else 0)
        return await call()

    return list(await asyncio.gather(*(one(place, call) for place, call in enumerate(calls))))


def codes(replies: list[Reply]) -> list[str]:
    """Return each reply's status, with its error code."""
    return sorted(str(reply.status) if reply.status == 201 else reply.code for reply in replies)


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_eight_parts_that_exceed_the_payment(database: Database, database_url: str, rounds: int) -> None:
    """Of eight parts of a sixth and a bit six are refunded and two rejected."""
    outcomes = await play(database, database_url, rounds, _eight_parts)
    assert set(outcomes) == {"six"}


async def _eight_parts(one: Service, other: Service, device: Device, number: int) -> str:
    order_id = await pay(device, "10.00")
    replies = await at_once(number, *(partial(refund, (one, other)[place % 2], order_id, "1.60") for place in range(8)))
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
    assert set(outcomes) <= {
        "both",
        "part, whole refund_in_progress",
        "whole, part refund_in_progress",
        "whole, part order_already_refunded",
    }
    assert {"both", "whole, part order_already_refunded"} <= set(outcomes)


async def _whole_against_part(one: Service, other: Service, device: Device, number: int) -> str:
    order_id = await pay(device, "10.00")
    key = str(uuid.uuid4())
    all_of_it, some_of_it = partial(refund, one, order_id, key=key), partial(refund, other, order_id, "4.00")
    match number % 4:
        case 0:
            whole, part = await all_of_it(), await some_of_it()
        case 1:
            part, whole = await some_of_it(), await all_of_it()
        case _:
            whole, part = await at_once(number // 2, all_of_it, some_of_it)
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


async def _whole_against_whole(one: Service, other: Service, device: Device, number: int) -> str:
    order_id = await pay(device)
    replies = await at_once(number, *(partial(refund, node, order_id) for node in (one, other, one)))
    refused = {reply.code for reply in replies if reply.status != 201}
    assert refused <= {"refund_in_progress", "order_already_refunded"}, codes(replies)
    assert (await one.get(order_id))["status"] == "refunded"
    return {1: "one"}.get(codes(replies).count("201"), "several")


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_refunds_under_one_key(database: Database, database_url: str, rounds: int) -> None:
    """One refund and one response, which the others replay byte for byte."""
    outcomes = await play(database, database_url, rounds, _one_key)
    assert set(outcomes) == {"one"}


async def _one_key(one: Service, other: Service, device: Device, number: int) -> str:
    order_id, key = await pay(device), str(uuid.uuid4())
    nodes = (one, other) * 3
    replies = await at_once(number, *(partial(refund, node, order_id, "5.00", key=key) for node in nodes))
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

    async def one_round(one: Service, other: Service, device: Device, number: int) -> str:
        order_id, key = await pay(device), str(uuid.uuid4())
        taker = worker(other, wall=later)
        asked = [partial(refund, node, order_id, "5.00", key=key) for node in (one, other)]

        async def take_up() -> None:
            for place in range(3):
                await turns(LAGS[(number + place) % len(LAGS)])
                await taker.start_due()
            await taker.settle()

        replies, _ = await asyncio.gather(at_once(number, *asked), take_up())
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
        repeat = asyncio.create_task(refund(other, order_id, key="key"))
        await until(lambda: other.database.signals.waiting("answer:") == 1)
        # Behind the claim that it waits for.
        await other.database.write(lambda tx: tx.one("SELECT 1"), conflict_keys=[conflict_keys.order(order_id)])
        refunder.opens.set()
        assert (await repeat).raw == (await first).raw
