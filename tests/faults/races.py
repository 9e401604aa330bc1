"""Two of a terminal's, a till's and a clock's deeds at once on one order, thousands of times: what it comes to.

Each race is a row of a table: who races, and every outcome that may come, in words. Nothing else comes out.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nodes import two_nodes
from paydesk.core.clock import MovableClock
from paydesk.invariants import check
from paydesk.orders.status import STATES
from paydesk.storage import bounded
from paydesk.storage.database import Database
from service import Device, Reply, Service

TERMINALS = 40
STALL_SECONDS = 60.0
SPREAD_SECONDS = 0.02
# The jump ends the orders' time, but not the forty seconds that a granted terminal has for its outcome.
EXPIRATION_TIME, JUMP_MS = "PT30S", 30_000
AT_TERMINAL = {"X-Allow-Cancelable-Status": "at_terminal"}
DECLINED = {"outcome": "declined", "status_detail": "insufficient_amount"}
GIVEN_UP = {"outcome": "canceled", "status_detail": "canceled_on_terminal"}

Words = dict[tuple[str, ...], str]
Play = Callable[[Service, Device], Awaitable[str]]
"""One round on one terminal, which is free again afterwards; what it came to, in words."""


@dataclass(frozen=True, slots=True)
class Race:
    """A row: `outcomes` are all that may come, `rare` those that a short run may not see."""

    name: str
    begin: Play
    """The order before the race; its id."""
    play: Callable[[Service, Device, str], Awaitable[str]]
    outcomes: tuple[str, ...]
    rare: tuple[str, ...] = ()
    against_time: bool = False


@contextmanager
def patience() -> Iterator[None]:
    """A machine that is loaded by so many rounds is no database that hangs."""
    before, bounded.STALL_SECONDS = bounded.STALL_SECONDS, STALL_SECONDS
    try:
        yield
    finally:
        bounded.STALL_SECONDS = before


async def run(race: Race, database: Database, database_url: str, rounds: int) -> Counter[str]:
    """So many rounds, on all terminals side by side, which call another node than the tills; what they came to."""
    clock = MovableClock()
    if race.against_time:
        clock.freeze()
    with patience():
        return await _rounds(race, database, database_url, rounds, clock)


async def _rounds(race: Race, database: Database, database_url: str, rounds: int, clock: MovableClock) -> Counter[str]:
    outcomes = Counter[str]()
    async with two_nodes(database, database_url, clock=clock) as (tills, terminals):
        devices = [await terminals.device(await terminals.terminal()) for _ in range(TERMINALS)]
        for _ in range(rounds // TERMINALS):
            orders = await asyncio.gather(*(race.begin(tills, device) for device in devices))
            rounds_now = [race.play(tills, *at) for at in zip(devices, orders, strict=True)]
            under_way = asyncio.gather(*rounds_now)
            if race.against_time:
                await asyncio.sleep(SPREAD_SECONDS / 2)
                clock.advance(JUMP_MS)
                database.signals.notify(["clock"])
            outcomes.update(await under_way)
    return outcomes


def missing(race: Race, outcomes: Counter[str]) -> list[str]:
    """What may come and has not, but for what is rare."""
    return [name for name in race.outcomes if name not in race.rare and not outcomes[name]]


async def findings(race: Race, outcomes: Counter[str], database: Database) -> list[str]:
    """What came out that may not, what never came out, and what the ledger says."""
    strange = [f"{name} came out {outcomes[name]} times" for name in outcomes if name not in race.outcomes]
    never = [f"{name} never came out" for name in missing(race, outcomes)]
    return [*strange, *never, *(str(finding) for finding in await check.check(database))]


async def created(service: Service, device: Device) -> str:
    """A new order on the terminal."""
    reply = await service.create(device.terminal, expiration_time=EXPIRATION_TIME)
    assert reply.status == 201, reply
    order_id: str = reply.body["id"]
    return order_id


async def taken(service: Service, device: Device) -> str:
    """An order that its terminal has acknowledged."""
    order_id = await created(service, device)
    assert (await device.ack(order_id[3:])).status == 200
    return order_id


async def granted(service: Service, device: Device) -> str:
    """An order that its terminal may charge."""
    order_id = await taken(service, device)
    assert (await device.authorizing(order_id[3:])).status == 200
    return order_id


async def state(service: Service, order_id: str) -> str:
    """Where the order stands, which must be a state of the table."""
    order = await service.get(order_id)
    payment = order["transactions"]["payments"][0]
    shown = f"{order['status']}/{order['status_detail']}/{payment['status_detail']}"
    assert shown in {str(known) for known in STATES}
    assert payment["status"] == order["status"]
    return shown


async def some_time_later(call: Callable[[], Awaitable[Reply]]) -> Reply:
    """The reply to a call that begins at once or at a random moment."""
    await asyncio.sleep(random.choice((0, random.random() * SPREAD_SECONDS)))
    return await call()


async def _at_once(*calls: Callable[[], Awaitable[Reply]]) -> list[str]:
    """The replies' status and code, in the order of the calls."""
    replies = await asyncio.gather(*(some_time_later(call) for call in calls))
    return [f"{reply.status} {reply.code}" if reply.status >= 400 else str(reply.status) for reply in replies]


async def _named(service: Service, order_id: str, replies: list[str], words: dict[tuple[str, ...], str]) -> str:
    """The words for what came: the replies and the state after them, or all of it where there are no words."""
    stands = await state(service, order_id)
    return words.get((*replies, stands), f"{' · '.join(replies)} · {stands}")


async def _cancel_against_acknowledge(service: Service, device: Device, order_id: str) -> str:
    came = await _at_once(lambda: service.cancel(order_id), lambda: device.ack(order_id[3:]))
    words: Words = {
        ("200", "409 order_canceled", "canceled/canceled/canceled_by_api"): "canceled",
        ("409 cannot_cancel_order", "200", "at_terminal/at_terminal/at_terminal"): "taken",
    }
    outcome = await _named(service, order_id, came, words)
    await device.result(order_id[3:], **GIVEN_UP)
    return outcome


async def _cancel_against_authorizing(service: Service, device: Device, order_id: str) -> str:
    came = await _at_once(
        lambda: service.cancel(order_id, headers=AT_TERMINAL),
        lambda: device.authorizing(order_id[3:]),
    )
    asked = await state(service, order_id)
    given_back = await device.post(f"/leases/{order_id[3:]}/cancel-result", {"boot_id": device.boot_id, "done": True})
    came += [asked, str(given_back.status)]
    if came[1] == "200":
        assert (await device.approve(order_id[3:])).status == 200
    words: Words = {
        ("202", "200", "at_terminal/at_terminal/at_terminal", "409", "processed/processed/accredited"): "paid",
        (
            *("202", "409 order_canceled", "at_terminal/at_terminal/cancellation_requested", "200"),
            "canceled/canceled/canceled_by_api",
        ): "released",
    }
    return await _named(service, order_id, came, words)


def _cancel_against_result(content: dict[str, str], taken_as: str) -> Callable[[Service, Device, str], Awaitable[str]]:
    """A cancel with the extra header against a result of an order before its grant."""

    async def play(service: Service, device: Device, order_id: str) -> str:
        lease_id = order_id[3:]
        report = device.approve if not content else device.result
        came = await _at_once(
            lambda: service.cancel(order_id, headers=AT_TERMINAL), lambda: report(lease_id, **content)
        )
        words: Words = {
            ("202", "200", taken_as): "asked, then ended by the result",
            (_NOT_CANCELED[taken_as], "200", taken_as): "ended by the result",
            ("202", "409 result_conflict", "at_terminal/check_on_terminal/check_on_terminal"): "asked, then in doubt",
        }
        outcome = await _named(service, order_id, came, words)
        await device.result(lease_id, **DECLINED)
        return outcome

    return play


_NOT_CANCELED = {
    "processed/processed/accredited": "409 cannot_cancel_order",
    "failed/failed/insufficient_amount": "409 cannot_cancel_order",
    "canceled/canceled/canceled_on_terminal": "409 order_already_canceled",
}


async def _cancel_against_granted_result(service: Service, device: Device, order_id: str) -> str:
    came = await _at_once(lambda: service.cancel(order_id, headers=AT_TERMINAL), lambda: device.approve(order_id[3:]))
    words: Words = {
        ("202", "200", "processed/processed/accredited"): "asked in vain, paid",
        ("409 cannot_cancel_order", "200", "processed/processed/accredited"): "paid",
    }
    return await _named(service, order_id, came, words)


async def _give_back_against_approval(service: Service, device: Device, order_id: str) -> str:
    """A terminal releases the order on a cancel request while its approval is still in transit."""
    assert (await service.cancel(order_id, headers=AT_TERMINAL)).status == 202
    body = {"boot_id": device.boot_id, "done": True}
    came = await _at_once(
        lambda: device.post(f"/leases/{order_id[3:]}/cancel-result", body), lambda: device.approve(order_id[3:])
    )
    words: Words = {
        ("200", "409 order_finished", "canceled/canceled/canceled_by_api"): "canceled, the approval is reversed",
        ("409 order_granted", "409 result_conflict", "at_terminal/check_on_terminal/check_on_terminal"): "in doubt",
    }
    outcome = await _named(service, order_id, came, words)
    await device.result(order_id[3:], **DECLINED)
    return outcome


async def _acknowledge_against_expiry(service: Service, device: Device, order_id: str) -> str:
    came = await _at_once(lambda: device.ack(order_id[3:]))
    words: Words = {("200",): "taken, then expired", ("409 order_canceled",): "expired"}
    outcome = words.get(tuple(came), str(came))
    stands = await _expired(service, order_id)
    versions = {"taken, then expired": 3, "expired": 2}
    version = (await service.get(order_id))["version"]
    return outcome if version == versions.get(outcome) and stands else f"{outcome} at version {version}"


async def _expired(service: Service, order_id: str) -> bool:
    """Whether the order has expired, once the worker was there."""
    async with asyncio.timeout(30):
        while await state(service, order_id) != "canceled/expired/expired":  # noqa: ASYNC110 - as a client polls
            await asyncio.sleep(SPREAD_SECONDS)
    return True


async def _authorizing_against_expiry(service: Service, device: Device, order_id: str) -> str:
    came = await _at_once(lambda: device.authorizing(order_id[3:]))
    if came == ["200"]:
        await asyncio.sleep(SPREAD_SECONDS)
        came.append(await state(service, order_id))
        assert (await device.approve(order_id[3:])).status == 200
    words: Words = {
        ("200", "at_terminal/at_terminal/at_terminal", "processed/processed/accredited"): "paid",
        ("409 order_canceled", "canceled/expired/expired"): "expired",
    }
    return await _named(service, order_id, came, words)


async def _result_against_expiry(service: Service, device: Device, order_id: str) -> str:
    came = await _at_once(lambda: device.approve(order_id[3:]))
    words: Words = {
        ("200", "processed/processed/accredited"): "paid",
        ("409 order_finished", "canceled/expired/expired"): "expired, the approval is reversed",
    }
    return await _named(service, order_id, came, words)


BY_RESULT = ("ended by the result", "asked, then ended by the result")
_ROWS = (
    Race("cancel against ack", created, _cancel_against_acknowledge, ("canceled", "taken")),
    Race("cancel against authorizing", taken, _cancel_against_authorizing, ("released", "paid")),
    Race(
        "cancel against approval",
        taken,
        _cancel_against_result({}, "processed/processed/accredited"),
        ("ended by the result", "asked, then in doubt"),
    ),
    Race(
        "cancel against decline",
        taken,
        _cancel_against_result(DECLINED, "failed/failed/insufficient_amount"),
        BY_RESULT,
    ),
    Race(
        "cancel against the cashier",
        taken,
        _cancel_against_result(GIVEN_UP, "canceled/canceled/canceled_on_terminal"),
        BY_RESULT,
    ),
    Race(
        "cancel against approval after the permit",
        granted,
        _cancel_against_granted_result,
        ("paid", "asked in vain, paid"),
    ),
    Race(
        "giving back against approval",
        taken,
        _give_back_against_approval,
        ("canceled, the approval is reversed", "in doubt"),
    ),
    Race(
        "ack against expiry",
        created,
        _acknowledge_against_expiry,
        ("taken, then expired", "expired"),
        against_time=True,
    ),
    Race("authorizing against expiry", taken, _authorizing_against_expiry, ("paid", "expired"), against_time=True),
    Race(
        "approval against expiry",
        taken,
        _result_against_expiry,
        ("paid", "expired, the approval is reversed"),
        against_time=True,
    ),
)

RACES = {race.name.replace(" ", "-"): race for race in _ROWS}
"""By names without spaces."""
