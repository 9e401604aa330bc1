"""The terminals' long poll: what each is to be told next, and what it was told, kept in this node's memory alone.

What is forgotten here is told once more; nothing depends on it. The database has the truth, the memory the manners.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from paydesk.core.clock import rfc3339
from paydesk.core.signals import Signals, Waiter
from paydesk.device.lease_store import Lease
from paydesk.device.poll_query import View
from paydesk.orders import status
from paydesk.orders.order import Order
from paydesk.terminals.modes import TAKES_ORDERS
from paydesk.terminals.store import OperatingMode

TERMINALS_MAX = 50_000
SETTLED_SECONDS = 1.0

Message = dict[str, Any]


class Poll:
    """One poll of a terminal: it goes on until it is answered, or a newer one ends it."""

    __slots__ = ("began", "number", "over", "terminal_id", "waiter")

    def __init__(self, terminal_id: str, number: int, began: float) -> None:
        self.terminal_id, self.number, self.began = terminal_id, number, began
        self.over = False
        self.waiter: Waiter | None = None

    def end(self) -> None:
        """A newer one has begun."""
        self.over = True
        if self.waiter is not None:
            self.waiter.notify()


@dataclass(slots=True)
class Told:
    """What a terminal was told in its session: the mode, and when which message about which lease went out."""

    session: int = 0
    operating_mode: OperatingMode | None = None
    sent: dict[tuple[str, str], float] = field(default_factory=dict)
    poll: Poll | None = None
    """The newest one, open or answered, where it came to this node."""


class Gateway:
    """What the terminals that poll this node were told, and which poll of each is the newest."""

    def __init__(self, signals: Signals | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._terminals: dict[str, Told] = {}
        self._numbers = itertools.count(1)
        if signals is not None:
            signals.listen("moved:", self._moved)

    def greeted(self, terminal_id: str, session: int, operating_mode: OperatingMode) -> None:
        """The terminal said hello and knows its mode."""
        told = self._told(terminal_id, session)
        told.operating_mode = operating_mode

    def arrived(self, terminal_id: str) -> Poll:
        """A poll that has come; it ends no other before it has shown that it may."""
        return Poll(terminal_id, next(self._numbers), self._monotonic())

    def begin(self, poll: Poll) -> bool:
        """The poll ends the ones that came before it here; True when those on other nodes are to be told too."""
        told = self._terminals.get(poll.terminal_id) or self._told(poll.terminal_id, 0)
        newest = told.poll
        if poll.over or newest is poll:
            return False
        if newest is not None and newest.number > poll.number:
            poll.end()
            return False
        told.poll = poll
        if newest is not None:
            newest.end()
        return newest is None

    def _moved(self, topic: str) -> None:
        """The terminal polls another node now.

        Hints come late: a poll that has only just begun may be the newer one, and would be ended by the one before it.
        Two that wait do no harm: in doubt both go on.
        """
        told = self._terminals.get(topic.removeprefix("moved:"))
        if told is not None and told.poll is not None and self._monotonic() - told.poll.began >= SETTLED_SECONDS:
            told.poll.end()
            told.poll = None

    def next(
        self, terminal_id: str, session: int, view: View, now_ms: int, again_seconds: float
    ) -> tuple[Message | None, float | None]:
        """The next message, noted as sent; else None and in how many seconds one is to be sent again."""
        told = self._told(terminal_id, session)
        if told.operating_mode != view.operating_mode:
            told.operating_mode = view.operating_mode
            return {"type": "mode", "operating_mode": view.operating_mode}, None
        ended = self._ended(told, view.lease)
        if ended is not None:
            return ended, None
        message = due(view, session, now_ms)
        if message is None:
            return None, None
        wait_seconds = self._wait(told, message, again_seconds)
        return (None, wait_seconds) if wait_seconds > 0 else (message, None)

    def _ended(self, told: Told, lease: Lease | None) -> Message | None:
        """The news, once in a session, that a lease ended without the terminal's doing."""
        if lease is None or lease.session != told.session or lease.ended_by not in ("expiry", "detached"):
            return None
        kind = "expired" if lease.ended_by == "expiry" else "cancel"
        if (kind, lease.lease_id) in told.sent:
            return None
        # Of earlier leases nothing more is said.
        told.sent = {(kind, lease.lease_id): self._monotonic()}
        return {"type": kind, "lease_id": lease.lease_id}

    def _wait(self, told: Told, message: Message, again_seconds: float) -> float:
        key, now = (message["type"], message["lease_id"]), self._monotonic()
        sent = told.sent.get(key)
        if sent is not None and now < sent + again_seconds:
            return sent + again_seconds - now
        if all(known != key for known in told.sent):
            told.sent = {known: at for known, at in told.sent.items() if known[0] == "expired" or known[1] == key[1]}
        told.sent[key] = now
        return 0

    def _told(self, terminal_id: str, session: int) -> Told:
        told = self._terminals.pop(terminal_id, None)
        if told is None:
            if len(self._terminals) >= TERMINALS_MAX:
                del self._terminals[next(iter(self._terminals))]
            told = Told(session)
        elif told.session != session and session:
            told.session, told.operating_mode = session, None
            told.sent = {}
        self._terminals[terminal_id] = told
        return told


def due(view: View, session: int, now_ms: int) -> Message | None:
    """What the terminal's live order asks for in this session, sent before or not."""
    order = view.order
    if order is None or order.permitted_ms is not None or order.is_overdue(now_ms):
        return None
    if order.state == status.CREATED:
        return offer(order, now_ms) if view.operating_mode in TAKES_ORDERS else None
    if order.state == status.CANCELLATION_REQUESTED:
        return {"type": "cancel", "lease_id": order.ulid}
    # The session that acknowledged it is over, and the terminal has lost it.
    lost = view.lease is not None and view.lease.lease_id == order.ulid and view.lease.session != session
    return offer(order, now_ms) if order.state == status.AT_TERMINAL and lost else None


def offer(order: Order, now_ms: int) -> Message:
    """The order as the terminal needs it; `payment_id` is its reference at the acquirer.

    `time` is by which clock it expires: in development that one may have been moved since the hello.
    """
    config = msgspec.json.decode(order.config)
    point = config.get("point", {})
    told = {
        "id": order.order_id,
        "payment_id": f"PAY{order.ulid}",
        "amount": order.amount,
        "currency": order.currency,
        "description": order.description,
        "external_reference": order.external_reference,
        "ticket_number": point.get("ticket_number"),
        "print_on_terminal": point.get("print_on_terminal"),
        "screen_time": point.get("screen_time"),
        "payment_method": config.get("payment_method"),
    }
    return {
        "type": "order",
        "lease_id": order.ulid,
        "expires_date": rfc3339(order.expires_ms),
        "time": rfc3339(now_ms),
        "order": {name: value for name, value in told.items() if value is not None},
    }
