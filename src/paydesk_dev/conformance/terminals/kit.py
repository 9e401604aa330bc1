"""The tools of cases: orders, expected requests of the terminal, restarts, and the judgement of charges."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from paydesk.core import runtime
from paydesk_dev.conformance.case import Failed, NotApplicable, NotShown
from paydesk_dev.conformance.shop import LIVE, Order, Shop
from paydesk_dev.conformance.terminals.actions import Gate
from paydesk_dev.conformance.terminals.exchanges import PERMITS, Exchange, Kind, Log
from paydesk_dev.conformance.terminals.wire import Wire

Restart = Callable[[], Awaitable[None]]
Say = Callable[[str], None]

AMOUNT, DECLINED_AMOUNT = "12.34", "99900.02"
"""The simulated acquirer declines the second one."""
SHORTEST, EXPIRED = "PT30S", "31s"
"""The shortest expiry of an order, and how far the clock is moved to be behind it."""
JOURNAL_SECONDS = 0.3
"""A terminal has written its journal this long after it got an answer."""
POLL_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Patience:
    """The time that the kit waits for what the terminal or a person must do, and for what must not happen."""

    seconds: float = 60.0
    quiet_seconds: float = 2.0


@dataclass(slots=True)
class Kit:
    """The terminal under test and everything around it."""

    log: Log
    wire: Wire
    shop: Shop
    patience: Patience
    say: Say
    restart_command: Restart | None = None
    """Restarts the terminal; without one a person is asked to."""
    orders: list[Order] = field(default_factory=list)
    """The orders of the running case."""

    @property
    def boot_id(self) -> str:
        """The boot id of the terminal's newest session."""
        return next((each.boot_id for each in reversed(self.log.exchanges) if is_welcome(each)), "")

    @property
    def mark(self) -> int:
        """The number that the next exchange gets."""
        return len(self.log.exchanges)

    async def place(self, amount: str = AMOUNT, *, expires: str = "PT15M", card: str = "that is approved") -> Order:
        """Place an order on the terminal and ask for the card."""
        order = await self.shop.create(amount, expires)
        self.orders.append(order)
        self.say(f"Order of {amount}: present a card {card}." if card else f"Order of {amount}: present no card.")
        return order

    def hold(self, *kinds: Kind, served: bool = False) -> AbstractContextManager[Gate]:
        """Hold requests of the terminal's present session, or with `served` their answers."""
        return self.wire.hold(*kinds, served=served, boot_id=self.boot_id)

    async def poll_again(self) -> None:
        """Answer the terminal's open poll empty and wait for its next one. Raises `Failed`."""
        since = self.mark
        self.wire.inject({})
        await self.expect("poll", since=since, answered=False, so="poll again after an empty answer")

    async def need(self, kind: Kind, order: Order | None = None, *, since: int = 0, answered: bool = True) -> Exchange:
        """Wait for a request that the situation needs, with its answer if `answered`. Raises `NotShown`."""
        exchange = await self._wait((kind,), order, since, answered=answered)
        if exchange is None:
            raise NotShown(f"The terminal sent no {kind} request within {self.patience.seconds:g} s.")
        return exchange

    async def permit(self, order: Order, *, answered: bool = True, separate: bool = False) -> Exchange:
        """Wait until the terminal asks for the permit. Raises `NotShown`.

        With `separate` raises `NotApplicable` for a terminal that asks for the permit and the charge at once.
        """
        exchange = await self._wait(PERMITS, order, 0, answered=answered)
        if exchange is None:
            raise NotShown(f"The terminal did not ask to authorize within {self.patience.seconds:g} s.")
        if separate and exchange.kind == "authorize":
            raise NotApplicable("The terminal asks for the permit and the charge at once.")
        return exchange

    async def reported(self, order: Order) -> None:
        """Wait until a result of the order was answered with success. Raises `Failed`, also for a second result id."""

        def is_decided() -> bool:
            results = self.log.find("result", lease_id=order.lease_id)
            return any(each.status == 200 for each in results) or len(self.result_ids(order)) > 1

        if not await self.log.until(is_decided, self.patience.seconds):
            raise Failed(f"The terminal did not repeat its result within {self.patience.seconds:g} s.")
        self.check_once(order)

    async def expect(
        self, kind: Kind, order: Order | None = None, *, since: int = 0, answered: bool = True, so: str
    ) -> Exchange:
        """Wait for a request that the protocol demands. Raises `Failed`, with what the terminal did not do."""
        exchange = await self._wait((kind,), order, since, answered=answered)
        if exchange is None:
            raise Failed(f"The terminal did not {so} within {self.patience.seconds:g} s.")
        return exchange

    async def delivered(self, message: str, order: Order) -> Exchange:
        """Wait until a poll was answered with a message about the order. Raises `Failed` if it is not polled for."""

        def find() -> Exchange | None:
            polls = (each for each in self.log.find("poll") if each.answer.get("type") == message)
            brought = (each for each in polls if str(each.answer.get("lease_id", "")).upper() == order.lease_id)
            return next(brought, None)

        poll = await self.log.until(find, self.patience.seconds)
        if poll is None:
            raise Failed(f"The terminal did not poll for the {message} message within {self.patience.seconds:g} s.")
        return poll

    async def ended(self, order: Order) -> str:
        """Wait until the order has ended and return its status. Raises `Failed`, or `NotShown` without a card."""
        deadline = runtime.monotonic() + self.patience.seconds
        while runtime.monotonic() < deadline:
            status = str((await self.shop.get(order))["status"])
            if status not in LIVE:
                if self.shop.kind == "service":
                    # A result follows the end of an order that the service has had charged.
                    await self._wait(("result",), order, 0, answered=True, seconds=self.patience.quiet_seconds)
                return status
            await asyncio.sleep(0.05)
        if not any(self.log.find(*PERMITS, lease_id=order.lease_id)):
            raise NotShown(f"The terminal did not ask to authorize within {self.patience.seconds:g} s.")
        raise Failed(f"The terminal reported no outcome within {self.patience.seconds:g} s; the order is {status}.")

    async def paid(self, order: Order) -> None:
        """Wait until the order is processed, and check that it was paid once. Raises `Failed` and `NotShown`."""
        status = await self.ended(order)
        if status != "processed":
            raise Failed(f"The order ended as {status}, not processed.")
        self.check_once(order)

    def check_once(self, order: Order) -> None:
        """Raise `Failed` if more than one approval was reported for the order."""
        ids = self.result_ids(order)
        if len(ids) > 1:
            raise Failed(f"The order's approval was reported under {len(ids)} result ids. A repetition keeps the id.")

    def result_ids(self, order: Order) -> set[str]:
        """Return the ids under which an approval of the order was reported."""
        return {each.result_id for each in self.approvals(order)}

    async def unpaid(self, order: Order, *, since: int = 0) -> None:
        """Watch for a while, and raise `Failed` if the order is charged or an approval is reported."""
        await asyncio.sleep(self.patience.quiet_seconds)
        calls = self.log.find("charge", "authorize", lease_id=order.lease_id, since=since)
        if any(each.charges for each in calls):
            raise Failed("The terminal charged the order at the acquirer.")
        if self.approvals(order, since=since):
            raise Failed("The terminal reported an approval.")

    def approvals(self, order: Order, *, since: int = 0) -> list[Exchange]:
        """Return the results with an approval of the order."""
        results = self.log.find("result", lease_id=order.lease_id, since=since)
        return [each for each in results if each.content.get("outcome") == "approved"]

    async def restart(self) -> Exchange:
        """Restart the terminal and return its hello. Raises as `restarted`."""
        begun = await self.begin_restart()
        return await self.restarted(begun)

    async def begin_restart(self) -> tuple[int, str]:
        """Restart the terminal; return the number of the next exchange and the boot id until now."""
        begun = self.mark, self.boot_id
        if self.restart_command is not None:
            await self.restart_command()
        else:
            self.say("Restart the terminal now: cut its power, then start it again.")
        return begun

    async def restarted(self, begun: tuple[int, str], *, answered: bool = True) -> Exchange:
        """Wait for the hello of the restarted terminal. Raises `Failed` if its boot id is not new, `NotShown`."""
        since, boot_id = begun

        def find() -> Exchange | None:
            hellos = (each for each in self.log.find("hello", since=since) if each.boot_id != boot_id)
            return next((each for each in hellos if not answered or is_welcome(each)), None)

        hello = await self.log.until(find, self.patience.seconds)
        if hello is None and any(each.boot_id == boot_id for each in self.log.find("hello", since=since)):
            raise Failed("After the restart the terminal sent hello with the boot_id of its previous start.")
        if hello is None:
            raise NotShown(
                f"The terminal sent no hello with a new boot_id within {self.patience.seconds:g} s of its restart."
            )
        return hello

    async def idle(self, seconds: float) -> bool:
        """Wait until the terminal polls in its newest session and return True; False after `seconds`."""

        def is_polling() -> bool:
            polls = [each for each in self.log.find("poll") if each.boot_id == self.boot_id]
            is_open = bool(polls) and polls[-1].answered is None
            return is_open and runtime.monotonic() - polls[-1].started < POLL_SECONDS_MAX

        return bool(await self.log.until(is_polling, seconds))

    async def _wait(
        self, kinds: Iterable[Kind], order: Order | None, since: int, *, answered: bool, seconds: float = 0
    ) -> Exchange | None:
        lease_id = order.lease_id if order is not None else ""

        def find() -> Exchange | None:
            exchanges = self.log.find(*kinds, lease_id=lease_id, since=since)
            return next((each for each in exchanges if not answered or each.status is not None), None)

        return await self.log.until(find, seconds or self.patience.seconds)


def is_welcome(exchange: Exchange) -> bool:
    """Return whether the exchange is a hello that the terminal knows to be accepted."""
    return exchange.kind == "hello" and exchange.status == 200


def entry_of(hello: Exchange, order: Order) -> Mapping[str, Any] | None:
    """Return the order's entry in the journal of a hello."""
    journal = hello.body.get("journal", []) if isinstance(hello.body, dict) else []
    return next((each for each in journal if str(each.get("lease_id", "")).upper() == order.lease_id), None)


def verdict_on(hello: Exchange, order: Order) -> str:
    """Return the verdict on the order in the answer to a hello, or an empty string."""
    leases = hello.answer.get("leases", [])
    return next((each["verdict"] for each in leases if each["lease_id"].upper() == order.lease_id), "")
