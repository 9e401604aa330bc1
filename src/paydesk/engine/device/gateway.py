"""The terminals' long poll: which message a terminal gets next, given the messages that it got in this session.

The memory of sent messages is per node and in memory only. Losing it only causes repeated messages; the database is
authoritative.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from paydesk.core import runtime
from paydesk.core.clock import rfc3339
from paydesk.core.metrics import Histogram
from paydesk.core.signals import Signals, Waiter
from paydesk.engine.device.presence import Sighting, Sightings
from paydesk.engine.device.schemas import Message
from paydesk.engine.device.store import PollState
from paydesk.engine.orders import status
from paydesk.engine.orders.order import Order
from paydesk.engine.payments.terms import percentages_of
from paydesk.engine.terminals.modes import ORDER_MODES
from paydesk.engine.terminals.schemas import OperatingMode

TERMINALS_MAX = 50_000
SETTLED_SECONDS = 1.0
"""A poll younger than this is not ended by a `moved` signal, which may be of an earlier poll."""

OFFER_DELAY = Histogram(
    "paydesk_order_offer_delay_seconds",
    "From an order's creation to its first offer by this node. Where the terminal's poll was open by then, it is the"
    " service's delay; where the poll came later, the terminal was offline or busy, and the order has waited for it.",
    "poll",
)


class Poll:
    """One poll of a terminal. It ends when it is answered or a newer poll begins."""

    __slots__ = ("began", "disconnected", "ended", "number", "seller_id", "sighting", "terminal_id", "waiter")

    def __init__(self, seller_id: int, terminal_id: str, number: int, began: float) -> None:
        self.seller_id, self.terminal_id, self.number, self.began = seller_id, terminal_id, number, began
        self.ended = False
        self.disconnected: Callable[[], bool] | None = None
        """Returns whether its connection was closed, which the poll itself notices at its end."""
        self.sighting: Sighting | None = None
        self.waiter: Waiter | None = None

    def end(self) -> None:
        """End the poll: a newer one has begun, or its connection was closed."""
        self.ended = True
        if self.waiter is not None:
            self.waiter.notify()


@dataclass(slots=True)
class Memory:
    """This node's memory of a terminal: the mode that its session was sent, and when each message was sent."""

    session: int = 0
    operating_mode: OperatingMode | None = None
    sent: dict[tuple[str, str], float] = field(default_factory=dict)
    """When each message was sent, by its type and its lease or print action."""
    poll: Poll | None = None
    """The newest poll on this node, open or answered."""
    offered: tuple[str | None, int] | None = None
    """The lease that was offered last, and when it was first, by the service's clock."""


class Gateway:
    """The terminals that poll this node: the messages sent to each, and the newest poll of each."""

    def __init__(self, signals: Signals | None = None, monotonic: Callable[[], float] = runtime.monotonic) -> None:
        self._monotonic = monotonic
        self._terminals: dict[str, Memory] = {}
        self._numbers = itertools.count(1)
        self.sightings = Sightings(signals, monotonic)
        if signals is not None:
            signals.listen("moved:", self._moved)

    def session_began(self, terminal_id: str, session: int, operating_mode: OperatingMode) -> None:
        """Record that the answer to a hello contained the mode."""
        self._memory(terminal_id, session).operating_mode = operating_mode

    def open(self, seller_id: int, terminal_id: str) -> Poll:
        """Return a new poll. It ends no other poll until `begin`, which follows the check of its session."""
        return Poll(seller_id, terminal_id, next(self._numbers), self._monotonic())

    def begin(self, poll: Poll) -> bool:
        """End the terminal's earlier polls on this node; return whether to signal the other nodes to do the same."""
        memory = self._terminals.get(poll.terminal_id) or self._memory(poll.terminal_id, 0)
        newest = memory.poll
        if poll.ended or newest is poll:
            return False
        if newest is not None and newest.number > poll.number:
            poll.end()
            return False
        memory.poll = poll
        # A poll begins twice if the terminal's memory was evicted while it was open.
        if poll.sighting is None:
            poll.sighting = self.sightings.began(poll.seller_id, poll.terminal_id, poll.began)
        if newest is not None:
            newest.end()
        return newest is None

    def close(self, poll: Poll) -> None:
        """Record that the poll was answered or its connection was closed."""
        poll.waiter = None
        sighting, poll.sighting = poll.sighting, None
        if sighting is not None:
            self.sightings.ended(sighting)

    def close_disconnected(self) -> None:
        """Close the polls whose connections were closed: from now on they are no sign of life."""
        for memory in self._terminals.values():
            poll = memory.poll
            if poll is not None and poll.disconnected is not None and poll.disconnected():
                poll.end()
                self.close(poll)

    def offered_ms(self, terminal_id: str, lease_id: str) -> int | None:
        """Return when this node first offered the lease, None if it doesn't know."""
        memory = self._terminals.get(terminal_id)
        offered = memory.offered if memory is not None else None
        return offered[1] if offered is not None and offered[0] == lease_id else None

    def _moved(self, topic: str) -> None:
        """End the poll of a terminal that polls another node now.

        Signals may be late: a poll younger than `SETTLED_SECONDS` may be the newer one, so it continues. Two open polls
        of a terminal do no harm.
        """
        memory = self._terminals.get(topic.removeprefix("moved:"))
        if memory is None or memory.poll is None:
            return
        if self._monotonic() - memory.poll.began >= SETTLED_SECONDS:
            memory.poll.end()
            memory.poll = None

    def next(
        self, terminal_id: str, session: int, state: PollState, now_ms: int, resend_seconds: float
    ) -> tuple[Message | None, float | None]:
        """Return the next message and record it as sent; or None, and the seconds until a message is due again.

        A `print` message is without its content.
        """
        memory = self._memory(terminal_id, session)
        if memory.operating_mode != state.operating_mode:
            memory.operating_mode = state.operating_mode
            return Message("mode", operating_mode=state.operating_mode), None
        lease = state.lease
        if lease is not None and lease.session == memory.session and lease.ended_by in ("expiry", "detached"):
            end = Message("expired" if lease.ended_by == "expiry" else "cancel", lease.lease_id)
            if end.key not in memory.sent:
                memory.sent = {end.key: self._monotonic()}
                return end, None
        message = order_message(state, session, now_ms)
        if message is None and state.action_id is not None:
            message = Message("print", action_id=state.action_id)
        if message is None:
            return None, None
        wait_seconds = self._wait_seconds(memory, message, resend_seconds)
        if wait_seconds > 0:
            return None, wait_seconds
        if message.type == "order" and (memory.offered is None or memory.offered[0] != message.lease_id):
            memory.offered = message.lease_id, now_ms
            if state.order is not None and state.order.state == status.CREATED:
                seconds = max(0.0, (now_ms - state.order.created_ms) / 1000)
                is_open = memory.poll is not None and self._monotonic() - memory.poll.began >= seconds
                OFFER_DELAY.of("open" if is_open else "later").add(seconds)
        return message, None

    def _wait_seconds(self, memory: Memory, message: Message, resend_seconds: float) -> float:
        """Return the seconds until the message is due again; record it as sent and return 0 if it is due."""
        key, now = message.key, self._monotonic()
        sent = memory.sent.get(key)
        if sent is not None and now < sent + resend_seconds:
            return sent + resend_seconds - now
        if sent is None:
            memory.sent = {
                (kind, object_id): at
                for (kind, object_id), at in memory.sent.items()
                if kind == "expired" or object_id == key[1]
            }
        memory.sent[key] = now
        return 0

    def _memory(self, terminal_id: str, session: int) -> Memory:
        """Return the terminal's memory, cleared if the session is new. Evicts the least recently used of too many."""
        memory = self._terminals.pop(terminal_id, None)
        if memory is None:
            if len(self._terminals) >= TERMINALS_MAX:
                del self._terminals[next(iter(self._terminals))]
            memory = Memory(session)
        elif memory.session != session and session:
            memory.session, memory.operating_mode = session, None
            memory.sent = {}
        self._terminals[terminal_id] = memory
        return memory


def order_message(state: PollState, session: int, now_ms: int) -> Message | None:
    """Return the message about the terminal's live order in this session, whether or not it was sent before."""
    order = state.order
    if order is None or order.permitted_ms is not None or order.is_overdue(now_ms):
        return None
    if order.state == status.CREATED:
        return offer(order, now_ms, state.tip_percentages) if state.operating_mode in ORDER_MODES else None
    if order.state == status.CANCELLATION_REQUESTED:
        return Message("cancel", order.ulid)
    # Acknowledged in an earlier session, and missing from the journal of this one.
    lost = state.lease is not None and state.lease.lease_id == order.ulid and state.lease.session != session
    return offer(order, now_ms, state.tip_percentages) if order.state == status.AT_TERMINAL and lost else None


def offer(order: Order, now_ms: int, tip_percentages: str | None) -> Message:
    """Return the message that offers the order; `payment_id` is its reference at the acquirer.

    `time` is the clock by which the order expires. In development it may have been moved since the hello.
    """
    config = msgspec.json.decode(order.config)
    point, method = config.get("point", {}), config.get("payment_method")
    if method is not None and "default_installments" in method:
        # Orders have it as it was sent, an integer or a string of its digits.
        method["default_installments"] = int(method["default_installments"])
    fields = {
        "id": order.order_id,
        "payment_id": order.payment_id,
        "amount": order.amount,
        "currency": order.currency,
        "description": order.description,
        "external_reference": order.external_reference,
        "ticket_number": point.get("ticket_number"),
        "print_on_terminal": point.get("print_on_terminal"),
        "screen_time": point.get("screen_time"),
        "payment_method": method,
        "tip": {"percentages": percentages_of(tip_percentages)} if tip_percentages else None,
    }
    offered = {name: value for name, value in fields.items() if value is not None}
    return Message("order", order.ulid, rfc3339(order.expires_ms), rfc3339(now_ms), offered)
