"""Two of a terminal's, a till's and a clock's deeds at once on one order, thousands of times: what it comes to.

Each race is a row of a table: who races, and every outcome that may come, in words. Nothing else comes out. Of four
rounds one begins with the one, whose answer is awaited before the other begins, one with the other, and two with both
at once: so every outcome comes for certain in four rounds, and half of them race.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from event_loops import turns
from nodes import two_nodes
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.engine.orders.status import STATES
from paydesk.platform.storage import bounded
from paydesk.platform.storage.database import Database
from service import Device, Reply, Service
from waiting import until_found

TERMINALS_MAX = 40
STALL_SECONDS = 60.0
LAGS = (0, 2, 8, 4, 16, 1, 12, 6, 24)
"""By how many turns of the loop one of two calls that begin at once is late: an answer takes more."""
STARTS = 4
# The jump ends the orders' time, but not the forty seconds that a granted terminal has for its outcome.
EXPIRATION_TIME, JUMP_MS = "PT30S", 30_000
AT_TERMINAL = {"X-Allow-Cancelable-Status": "at_terminal"}
DECLINED = {"outcome": "declined", "status_detail": "insufficient_amount"}
GIVEN_UP = {"outcome": "canceled", "status_detail": "canceled_on_terminal"}

Words = dict[tuple[str, ...], str]
Call = Callable[[], Awaitable[Reply]]


class Jump:
    """The clock's jump past the orders' time, in a round of so many terminals."""

    def __init__(self, terminals: int) -> None:
        self.ready = asyncio.Barrier(terminals + 1)
        """Reached by each terminal when it may be made."""
        self.expired = asyncio.Event()
        """Set when the worker has been there: an order of a terminal that calls afterwards has expired."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a round begins on one terminal: with the answer to one of two calls (0, 1), or with both at once (None)."""

    first: int | None
    lags: tuple[int, int] = (0, 0)
    jump: Jump = field(default_factory=lambda: Jump(0))

    @classmethod
    def of(cls, number: int, jump: Jump) -> Start:
        """Return that of the round with this number: of four numbers two begin at once, either one late."""
        lag = LAGS[number // STARTS % len(LAGS)]
        ways: list[tuple[int | None, tuple[int, int]]] = [(0, (0, 0)), (1, (0, 0)), (None, (0, lag)), (None, (lag, 0))]
        return cls(*ways[number % STARTS], jump)

    async def calls(self, one: Call, other: Call) -> list[str]:
        """Make both calls; the replies' status and code, in the order of the calls."""
        if self.first is None:
            replies = await asyncio.gather(*map(_late, self.lags, (one, other)))
        elif self.first == 0:
            replies = [await one(), await other()]
        else:
            replies = [await other(), await one()][::-1]
        return [_said(reply) for reply in replies]

    async def against_jump(self, call: Call, expired: Callable[[], Awaitable[bool]]) -> str:
        """Make the call before the jump, at it, or once the worker has expired the order; its status and code."""
        if self.first == 0:
            reply = await call()
            await self.jump.ready.wait()
            return _said(reply)
        await self.jump.ready.wait()
        if self.first == 1:
            await until_found(expired)
            self.jump.expired.set()
        return _said(await _late(self.lags[0], call))


async def _late(lag: int, call: Call) -> Reply:
    await turns(lag)
    return await call()


def _said(reply: Reply) -> str:
    return f"{reply.status} {reply.code}" if reply.status >= 400 else str(reply.status)


Play = Callable[[Service, Device, str, Start], Awaitable[str]]
"""One round on one terminal, which is free again afterwards; what it came to, in words."""


@dataclass(frozen=True, slots=True)
class Race:
    """A row: `outcomes` are all that may come, and that four rounds bring."""

    name: str
    begin: Callable[[Service, Device], Awaitable[str]]
    """The order before the race; its id."""
    play: Play
    outcomes: tuple[str, ...]
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
    outcomes, number = Counter[str](), 0
    count = max(STARTS, min(rounds, TERMINALS_MAX))
    async with two_nodes(database, database_url, clock=clock) as (tills, terminals):
        devices = [await terminals.device(await terminals.terminal()) for _ in range(count)]
        for _ in range(max(1, rounds // count)):
            orders = await asyncio.gather(*(race.begin(tills, device) for device in devices))
            jump = Jump(count)
            starts = [Start.of(number + place, jump) for place in range(count)]
            number += count
            under_way = asyncio.gather(*(race.play(tills, *at) for at in zip(devices, orders, starts, strict=True)))
            if race.against_time:
                await jump.ready.wait()
                await turns(number % (max(LAGS) + 1))
                clock.advance(JUMP_MS)
                database.signals.notify(["clock"])
            outcomes.update(await under_way)
    return outcomes


async def findings(race: Race, outcomes: Counter[str], database: Database) -> list[str]:
    """What came out that may not, what never came out, and what the ledger says."""
    strange = [f"{name} came out {outcomes[name]} times" for name in outcomes if name not in race.outcomes]
    never = [f"{name} never came out" for name in race.outcomes if not outcomes[name]]
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


async def _named(service: Service, order_id: str, replies: list[str], words: dict[tuple[str, ...], str]) -> str:
    """The words for what came: the replies and the state after them, or all of it where there are no words."""
    stands = await state(service, order_id)
    return words.get((*replies, stands), f"{' · '.join(replies)} · {stands}")


async def _cancel_against_acknowledge(service: Service, device: Device, order_id: str, start: Start) -> str:
    came = await start.calls(lambda: service.cancel(order_id), lambda: device.ack(order_id[3:]))
    words: Words = {
        ("200", "409 order_canceled", "canceled/canceled/canceled_by_api"): "canceled",
        ("409 cannot_cancel_order", "200", "at_terminal/at_terminal/at_terminal"): "taken",
    }
    outcome = await _named(service, order_id, came, words)
    await device.result(order_id[3:], **GIVEN_UP)
    return outcome


async def _cancel_against_authorizing(service: Service, device: Device, order_id: str, start: Start) -> str:
    came = await start.calls(
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


def _cancel_against_result(content: dict[str, str], taken_as: str) -> Play:
    """A cancel with the extra header against a result of an order before its grant."""

    async def play(service: Service, device: Device, order_id: str, start: Start) -> str:
        lease_id = order_id[3:]
        report = device.approve if not content else device.result
        came = await start.calls(
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


async def _cancel_against_granted_result(service: Service, device: Device, order_id: str, start: Start) -> str:
    came = await start.calls(
        lambda: service.cancel(order_id, headers=AT_TERMINAL), lambda: device.approve(order_id[3:])
    )
    words: Words = {
        ("202", "200", "processed/processed/accredited"): "asked in vain, paid",
        ("409 cannot_cancel_order", "200", "processed/processed/accredited"): "paid",
    }
    return await _named(service, order_id, came, words)


async def _give_back_against_approval(service: Service, device: Device, order_id: str, start: Start) -> str:
    """A terminal releases the order on a cancel request while its approval is still in transit."""
    assert (await service.cancel(order_id, headers=AT_TERMINAL)).status == 202
    body = {"boot_id": device.boot_id, "done": True}
    came = await start.calls(
        lambda: device.post(f"/leases/{order_id[3:]}/cancel-result", body), lambda: device.approve(order_id[3:])
    )
    words: Words = {
        ("200", "409 order_finished", "canceled/canceled/canceled_by_api"): "canceled, the approval is reversed",
        ("409 order_granted", "409 result_conflict", "at_terminal/check_on_terminal/check_on_terminal"): "in doubt",
    }
    outcome = await _named(service, order_id, came, words)
    await device.result(order_id[3:], **DECLINED)
    return outcome


async def _acknowledge_against_expiry(service: Service, device: Device, order_id: str, start: Start) -> str:
    expired = partial(_expired, service, order_id)
    came = await start.against_jump(lambda: device.ack(order_id[3:]), expired)
    outcome = {"200": "taken, then expired", "409 order_canceled": "expired"}.get(came, came)
    await until_found(expired)
    versions = {"taken, then expired": 3, "expired": 2}
    version = (await service.get(order_id))["version"]
    return outcome if version == versions.get(outcome) else f"{outcome} at version {version}"


async def _expired(service: Service, order_id: str) -> bool:
    """Whether the order has expired."""
    return await state(service, order_id) == "canceled/expired/expired"


async def _authorizing_against_expiry(service: Service, device: Device, order_id: str, start: Start) -> str:
    came = [await start.against_jump(lambda: device.authorizing(order_id[3:]), partial(_expired, service, order_id))]
    if came == ["200"]:
        await start.jump.expired.wait()
        came.append(await state(service, order_id))
        assert (await device.approve(order_id[3:])).status == 200
    words: Words = {
        ("200", "at_terminal/at_terminal/at_terminal", "processed/processed/accredited"): "paid",
        ("409 order_canceled", "canceled/expired/expired"): "expired",
    }
    return await _named(service, order_id, came, words)


async def _result_against_expiry(service: Service, device: Device, order_id: str, start: Start) -> str:
    came = await start.against_jump(lambda: device.approve(order_id[3:]), partial(_expired, service, order_id))
    words: Words = {
        ("200", "processed/processed/accredited"): "paid",
        ("409 order_finished", "canceled/expired/expired"): "expired, the approval is reversed",
    }
    return await _named(service, order_id, [came], words)


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
