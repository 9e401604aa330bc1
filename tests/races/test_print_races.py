"""A print action against orders, other actions, changes of its terminal, the terminal's report and the expiry."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import cycle

import pytest

from conftest import short_and_long
from nodes import two_nodes
from operator_calls import operator
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.engine.printing import expiry
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from print_scene import PATH, print_on, report, status_of
from service import KEYS, Reply, Service, Terminal, running
from waiting import until

pytestmark = pytest.mark.usefixtures("batching", "patient_database")

TERMINALS = 12
OCCUPIED = (409, "already_queued_order_on_terminal")


@pytest.mark.parametrize("rounds", short_and_long(1, 20))
async def test_an_order_and_a_print_action_exclude_each_other(
    database: Database, database_url: str, rounds: int
) -> None:
    """Created at once for one terminal: exactly one of them succeeds, on either node."""
    async with two_nodes(database, database_url) as nodes:
        terminals = [await nodes[0].terminal() for _ in range(TERMINALS)]
        won: Counter[str] = Counter()
        for first in range(rounds):
            races = (_order_against_action(*nodes, terminal, first + at) for at, terminal in enumerate(terminals))
            won.update(await asyncio.gather(*races))
            assert await check.check(database) == []
    assert set(won) == {"order", "action"}


async def _order_against_action(service: Service, other: Service, terminal: Terminal, number: int) -> str:
    """Return what won; end it. In every other round one of the four is alone at first."""
    calls: list[Callable[[], Awaitable[Reply]]] = [
        lambda: service.create(terminal),
        lambda: print_on(other, terminal),
        lambda: other.create(terminal),
        lambda: print_on(service, terminal),
    ]
    calls = calls[number % 4 :] + calls[: number % 4]
    replies = [await calls.pop(0)()] if number // 4 % 2 else []
    replies += await asyncio.gather(*(call() for call in calls))
    (made,) = [reply for reply in replies if reply.status == 201]
    refused = [(reply.status, reply.code) for reply in replies if reply is not made]
    assert refused == [OCCUPIED] * 3
    is_order = made.body["id"].startswith("ORD")
    path = f"/v1/orders/{made.body['id']}/cancel" if is_order else f"{PATH}/{made.body['id']}/cancel"
    assert (await service.request("POST", path)).status == 200
    return "order" if is_order else "action"


@pytest.mark.parametrize("rounds", short_and_long(1, 10))
async def test_no_action_meets_a_terminal_that_takes_none(database: Database, database_url: str, rounds: int) -> None:
    """A print and a change to STANDALONE at once: one of them is refused with its reason."""
    async with two_nodes(database, database_url) as nodes:
        terminals = [await nodes[0].terminal() for _ in range(TERMINALS)]
        for _ in range(rounds):
            await asyncio.gather(*(_print_against_setup(*nodes, *at) for at in zip(terminals, cycle(range(3)))))
    assert await check.check(database) == []


async def _print_against_setup(service: Service, other: Service, terminal: Terminal, number: int) -> None:
    """Begin with either, or with the change alone."""
    call, change = print_on(service, terminal), _set_mode(other, terminal, "STANDALONE")
    if number == 0:
        printed, changed = await asyncio.gather(call, change)
    elif number == 1:
        changed, printed = await asyncio.gather(change, call)
    else:
        changed, printed = await change, await call
    if printed.status == 201:
        assert (changed.status, changed.code) == (409, "terminal_busy")
        assert (await service.request("POST", f"{PATH}/{printed.body['id']}/cancel")).status == 200
        return
    assert (printed.status, printed.code) == (409, "terminal_not_in_pdv_mode")
    assert changed.status == 200
    assert (await _set_mode(service, terminal, "PDV")).status == 200


async def _set_mode(service: Service, terminal: Terminal, mode: str) -> Reply:
    body = {"terminals": [{"id": terminal.id, "operating_mode": mode}]}
    return await service.request("PATCH", "/terminals/v1/setup", body)


@pytest.mark.parametrize("rounds", short_and_long(8, 60))
async def test_cancel_and_fetch_exclude_each_other(database: Database, rounds: int) -> None:
    """A canceled action is never handed out, and one that was handed out is not canceled."""
    async with running(database) as service:
        device = await service.device(await service.terminal())
        for _ in range(rounds):
            action_id = (await print_on(service, device.terminal)).body["id"]
            fetched, canceled = await asyncio.gather(
                device.next(wait=0), service.request("POST", f"{PATH}/{action_id}/cancel")
            )
            assert (fetched.status, canceled.status) in ((200, 409), (204, 200))
            if fetched.status == 200:
                assert await status_of(service, action_id) == "on_terminal"
                assert (await report(device, action_id)).status == 200
        assert await check.check(database) == []


@pytest.mark.parametrize("rounds", short_and_long(8, 60))
async def test_report_release_and_expiry_end_an_action_once(
    database: Database, clock: MovableClock, rounds: int
) -> None:
    """The first one decides; its content is gone and the terminal is free whichever it is."""
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        person, device = await operator(service), await service.device(await service.terminal())
        worker = WorkerContext(database, Settings(), clock, KEYS)
        for number in range(rounds):
            action_id = (await print_on(service, device.terminal)).body["id"]
            assert (await device.next()).status == 200
            clock.advance(900_000 if number % 2 else 1)
            release = f"terminals/{device.terminal.id}/release"
            reported, released, _ = await asyncio.gather(
                report(device, action_id),
                person.did("POST", release, {"reason": "The printer is broken."}),
                expiry.step(worker),
            )
            status = await status_of(service, action_id)
            assert reported.status == 200
            assert status == ("processed" if reported.body["action"]["status"] == "processed" else "canceled")
            assert ("released" in released) <= (status == "canceled")
            assert await check.check(database) == []
        assert (await service.create(device.terminal)).status == 201


async def test_an_action_reaches_a_terminal_that_polls_another_node(database: Database, database_url: str) -> None:
    """At once, and its report ends it for both."""
    async with two_nodes(database, database_url) as (first, second):
        device = await second.device(await first.terminal())
        poll = asyncio.create_task(device.next(wait=30))
        await until(lambda: second.database.signals.waiting(f"terminal:{device.terminal.id}") == 1)
        action_id = (await print_on(first, device.terminal)).body["id"]
        message = await poll
        assert (message.body["type"], message.body["action_id"]) == ("print", action_id)
        assert (await report(device, action_id)).status == 200
        assert await status_of(first, action_id) == "processed"
        assert (await first.create(device.terminal)).status == 201
