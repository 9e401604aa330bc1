"""What a terminal and its orders may be, and what a request may come to there: the contract once more, as a model.

A world is one possibility. Several may explain what was answered so far: requests run at once, and workers move orders
whenever their time has come. All is pure; `outcomes` is the heart of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from paydesk.device.verdicts import OrderState, judge
from paydesk.orders import status
from paydesk.orders.status import FAILED, LIVE, State

Kind = Literal[
    "create",
    "get",
    "charge",
    "cancel",
    "ask_back",
    "hello",
    "ack",
    "step",
    "authorizing",
    "result",
    "give_back",
    "refund",
    "refund_part",
]
Content = Literal["approved", "approved_less", "declined", "canceled", "unknown"]

SILENCE_MS, UNKNOWN_MS, NOT_FOUND_MS = 30_000, 40_000, 90_000
"""The last is shorter than by default, so that runs get there."""
USUAL_MINOR = 2_490
DECLINED_MINOR = (9_990_030, 9_990_035)
"""Payments of these amounts the acquirer does not give back: it says so at once, or late."""
BEFORE_CHECK = (status.AT_TERMINAL, status.CANCELLATION_REQUESTED)


@dataclass(frozen=True, slots=True)
class Op:
    """A request. `session` is the start of the terminal that makes it, `content` what a result says."""

    kind: Kind
    terminal: int
    number: int
    """Which request of the run it is: its key, its result's id and its reference are made of it."""
    order_id: str = ""
    session: int = 0
    content: Content = "approved"
    last_step: str = ""
    seconds: int = 30
    amount_minor: int = 0
    """Of a new order what it costs, of a part what is to go back; otherwise what the order costs."""
    reference_id: str = ""
    """What the acquirer called an approval that is reported."""
    detail: str = "insufficient_amount"
    """Why a payment was declined."""

    @property
    def keyed(self) -> bool:
        """Whether a repeat is told what the first one came to."""
        return self.kind in ("create", "cancel", "ask_back", "refund", "refund_part")

    @property
    def result(self) -> str:
        """What the result is known by: its id and what it says."""
        reference = self.reference if self.content in ("approved", "approved_less") else ""
        return f"{self.number}/{self.content}/{reference}"

    @property
    def reference(self) -> str:
        """The acquirer's number of an approval; of one that no acquirer gave, what its terminal made up."""
        return self.reference_id or f"{10**11 + self.number}"


@dataclass(frozen=True, slots=True)
class Told:
    """What an answer says, as far as the model knows it; `shown` is the order in it, `names` an id or verdicts."""

    status: int
    code: str = ""
    shown: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """What the clock showed when a request was handled: `now_ms`, which was not before `after_ms`."""

    after_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class Refunding:
    """A refund that is under way: which request it is, how much, and whether that was refused as declined."""

    number: int
    amount_minor: int
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """An order as it may be. `results`: what each was answered."""

    order_id: str
    expires_ms: int
    amount_minor: int = USUAL_MINOR
    is_live: bool = False
    """Real money: nobody is there to be asked about it or for it."""
    state: State = status.CREATED
    version: int = 1
    leased: int = 0
    permitted_ms: int = 0
    asked_ms: int = 0
    checked_ms: int = 0
    refunded_minor: int = 0
    refunding: tuple[Refunding, ...] = ()
    charged: str = ""
    """What its terminal's acquirer has said: `approved`, or why not; nothing where nobody was there with a card."""
    known_from_ms: int = 0
    known_by_ms: int = 0
    """When that began to be known there: not before, and not after."""
    results: tuple[tuple[str, Told], ...] = ()

    @property
    def live(self) -> bool:
        """Whether its terminal is not free."""
        return self.state.status in LIVE

    @property
    def shown(self) -> tuple[str, ...]:
        """As an application sees it."""
        told = self.state.status, self.state.detail, self.state.payment_detail
        return (*told, str(self.version), str(self.refunded_minor))

    @property
    def told(self) -> tuple[str, ...]:
        """As a terminal is told of it."""
        return self.state.status, self.state.detail

    @property
    def refunding_minor(self) -> int:
        """What is reserved."""
        return sum(one.amount_minor for one in self.refunding)

    def to(self, state: State, **changes: Any) -> Order:
        """After a move."""
        return replace(self, state=state, version=self.version + 1, **changes)

    def may_expire(self) -> bool:
        """Whether its time still matters."""
        return self.state in status.EXPIRE.sources and not self.permitted_ms


@dataclass(frozen=True, slots=True)
class World:
    """A terminal as it may be: the number of its newest start, and its orders, the newest last."""

    session: int
    is_live: bool = False
    orders: tuple[Order, ...] = ()

    def find(self, order_id: str) -> Order:
        """The order of that id."""
        return next(order for order in self.orders if order.order_id == order_id)

    def put(self, order: Order) -> World:
        """With the order as it is now."""
        return replace(self, orders=tuple(order if one.order_id == order.order_id else one for one in self.orders))

    @property
    def live(self) -> Order | None:
        """The one order that is not over."""
        return next((order for order in self.orders if order.live), None)


Outcome = tuple[World, Told]


def drifted(world: World, latest_ms: int) -> set[World]:
    """What workers may have made of it by then: they move what is due, sooner or later."""
    reached, ahead = {world}, [world]
    while ahead:
        one = ahead.pop()
        for moved in (moved for order in one.orders for moved in _due(order, latest_ms)):
            further = one.put(moved)
            if further not in reached:
                reached.add(further)
                ahead.append(further)
    return reached


def _due(order: Order, latest_ms: int) -> Iterator[Order]:
    if order.may_expire() and order.expires_ms <= latest_ms:
        yield order.to(status.EXPIRED)
    if order.permitted_ms and order.state in BEFORE_CHECK and order.permitted_ms + UNKNOWN_MS <= latest_ms:
        yield order.to(status.CHECK_ON_TERMINAL, checked_ms=order.permitted_ms + UNKNOWN_MS)
    if order.state == status.CHECK_ON_TERMINAL and not order.is_live:
        yield from _inquired(order, latest_ms)
    if order.state == status.CANCELLATION_REQUESTED and order.asked_ms + SILENCE_MS <= latest_ms:
        yield order.to(status.CANCELED_BY_API)
    for one in order.refunding:
        left = tuple(other for other in order.refunding if other != one)
        given_minor = order.refunded_minor + one.amount_minor
        if one.is_refused:
            yield replace(order, refunding=left)
        elif order.amount_minor in DECLINED_MINOR:
            yield order.to(order.state, refunding=left)
        else:
            state = status.REFUNDED if given_minor == order.amount_minor else status.PARTIALLY_REFUNDED
            yield order.to(state, refunded_minor=given_minor, refunding=left)


def _inquired(order: Order, latest_ms: int) -> Iterator[Order]:
    """What the acquirer, who is asked again and again, may have said by then."""
    if order.charged == "approved" and order.known_from_ms <= latest_ms:
        yield order.to(status.PROCESSED, permitted_ms=order.permitted_ms or 1)
    elif order.charged and order.known_from_ms <= latest_ms:
        yield order.to(FAILED[order.charged])
    if may_be_undone(order, latest_ms):
        yield order.to(FAILED["processing_error"])


def may_be_undone(order: Order, now_ms: int) -> bool:
    """Whether the acquirer may be told to forget the payment: it has not known of it for so long."""
    counts_from_ms = order.checked_ms + NOT_FOUND_MS
    is_known = bool(order.charged) and order.known_by_ms < counts_from_ms
    return not order.is_live and counts_from_ms <= now_ms and not is_known


def overdue(world: World, now_ms: int) -> bool:
    """Whether a worker has left something that was due.

    Since when an outcome is unknown is known only as not before; so nothing of that is surely due.
    """
    known = (order for order in world.orders if order.state != status.CHECK_ON_TERMINAL)
    return any(True for order in known for _ in _due(order, now_ms))


def refunding(world: World, number: int) -> bool:
    """Whether the refund that this request asked for is still under way."""
    return any(one.number == number for order in world.orders for one in order.refunding)


def charged(world: World, order_id: str, outcome: str, known_from_ms: int, known_by_ms: int) -> World:
    """The terminal was at the acquirer's, who knows of it from then on."""
    order = world.find(order_id)
    if order.charged:
        return world
    return world.put(replace(order, charged=outcome, known_from_ms=known_from_ms, known_by_ms=known_by_ms))


def outcomes(world: World, op: Op, at: Moment, answer: Told | None) -> Iterator[Outcome]:
    """What the request may come to in this world: the world after it, and what it is told.

    Of `answer` only what the service makes up is taken: the id of a new order, and when it was made.
    """
    if op.kind == "create":
        yield from _create(world, op, at, answer)
    elif op.kind == "hello":
        yield from _hello(world, op, at)
    elif op.kind == "get":
        yield world, Told(200, shown=world.find(op.order_id).shown)
    elif op.kind not in ("cancel", "ask_back", "result", "refund", "refund_part") and op.session != world.session:
        yield world, Told(409, "stale_session")
    else:
        before = _in_time(world.find(op.order_id), at)
        for order, told in ON_ORDER[op.kind](before, op, at, world.session):
            yield world.put(order), told


def _in_time(order: Order, at: Moment) -> Order:
    """A write that meets an overdue order moves it first."""
    return order.to(status.EXPIRED) if order.may_expire() and order.expires_ms <= at.now_ms else order


def _create(world: World, op: Op, at: Moment, answer: Told | None) -> Iterator[Outcome]:
    standing = world.live
    if standing is not None:
        cleared = _in_time(standing, at)
        if cleared.live:
            yield world, Told(409, "already_queued_order_on_terminal", names=(standing.order_id,))
            return
        world = world.put(cleared)
    if answer is not None and answer.names:
        expires_ms = answer.created_ms + op.seconds * 1000
        made = Order(answer.names[0], expires_ms, op.amount_minor, world.is_live)
        yield replace(world, orders=(*world.orders, made)), Told(201, shown=made.shown, names=answer.names)


def _hello(world: World, op: Op, at: Moment) -> Iterator[Outcome]:
    if op.session < world.session:
        yield world, Told(409, "stale_session")
        return
    after, order = replace(world, session=op.session), world.live
    remembered = op.order_id and world.find(op.order_id)
    verdicts: list[str] = []
    for one, last_step in ((remembered, op.last_step), (order, None)):
        if not one or (last_step is None and one == remembered):
            continue
        standing = _standing(one, at)
        if last_step is None and standing not in ("permitted", "unknown"):
            continue
        verdict, effect = judge("authorizing" if last_step is None else last_step, standing, has_result=False)
        verdicts.append(f"{one.order_id[3:]}:{verdict}")
        after = after.put(_effect(one, effect, op.session, at))
    yield after, Told(200, names=tuple(verdicts))


def _standing(order: Order, at: Moment) -> OrderState:
    if not order.live:
        return "ended"
    if order.state == status.CREATED:
        return "created"
    if order.state == status.CHECK_ON_TERMINAL:
        return "unknown"
    if order.permitted_ms:
        return "permitted"
    if order.expires_ms <= at.now_ms:
        return "overdue"
    return "canceling" if order.state == status.CANCELLATION_REQUESTED else "open"


def _effect(order: Order, effect: str, session: int, at: Moment) -> Order:
    if effect == "re_lease":
        return replace(order, leased=session)
    if effect == "inquire" and order.state in BEFORE_CHECK:
        return order.to(status.CHECK_ON_TERMINAL, checked_ms=at.after_ms)
    if effect == "cancel":
        ended = _in_time(order, at)
        return ended.to(status.CANCELED_BY_API) if ended.state == status.CANCELLATION_REQUESTED else ended
    return order


Step = Iterator[tuple[Order, Told]]


def _cancel(order: Order, op: Op, at: Moment, _: int) -> Step:
    if order.state == status.CREATED:
        canceled = order.to(status.CANCELED_BY_API)
        yield canceled, Told(200, shown=canceled.shown)
    elif op.kind == "ask_back" and order.state == status.AT_TERMINAL and not order.permitted_ms:
        asked = order.to(status.CANCELLATION_REQUESTED, asked_ms=at.after_ms)
        yield asked, Told(202, shown=asked.shown)
    elif op.kind == "ask_back" and order.state in BEFORE_CHECK:
        yield order, Told(202, shown=order.shown)
    else:
        is_canceled = order.state.status == "canceled"
        yield order, Told(409, "order_already_canceled" if is_canceled else "cannot_cancel_order")


def _ack(order: Order, _: Op, __: Moment, session: int) -> Step:
    if order.state == status.CREATED:
        taken = order.to(status.AT_TERMINAL, leased=session)
        yield taken, Told(200, shown=taken.told)
    elif not order.live:
        yield order, Told(409, "order_canceled" if order.state.status == "canceled" else "order_finished")
    elif order.leased == session:
        yield order, Told(200, shown=order.told)
    elif order.state == status.AT_TERMINAL and not order.permitted_ms:
        yield replace(order, leased=session), Told(200, shown=order.told)
    elif order.state == status.CANCELLATION_REQUESTED:
        yield order.to(status.CANCELED_BY_API), Told(409, "order_canceled")
    else:
        yield order, Told(409, "order_canceled")


def _progress(order: Order, op: Op, at: Moment, session: int) -> Step:
    if order.state.status == "canceled":
        yield order, Told(409, "order_canceled")
    elif not order.leased:
        yield order, Told(404, "lease_not_found")
    elif op.kind == "step":
        yield order, Told(200, shown=order.told)
    elif order.leased != session or order.state != status.AT_TERMINAL:
        yield order, Told(409, "order_canceled")
    else:
        yield replace(order, permitted_ms=order.permitted_ms or at.after_ms), Told(200)


def _give_back(order: Order, _: Op, __: Moment, ___: int) -> Step:
    if order.state == status.CANCELLATION_REQUESTED:
        canceled = order.to(status.CANCELED_BY_API)
        yield canceled, Told(200, shown=canceled.told)
    elif not order.live:
        yield order, Told(200, shown=order.told)
    elif order.state == status.AT_TERMINAL and not order.permitted_ms:
        yield order, Told(409, "cancel_not_requested")
    else:
        yield order, Told(409, "order_granted")


def _refund(order: Order, op: Op, _: Moment, __: int) -> Step:
    """Reserved at once; that it is confirmed is a step of its own, which a worker makes where nobody else does."""
    left_minor = order.amount_minor - order.refunded_minor
    asked_minor = op.amount_minor or left_minor
    if order.state.status == "refunded":
        yield order, Told(409, "order_already_refunded")
    elif order.state.status != "processed" or order.is_live:
        yield order, Told(409, "cannot_refund_order")
    elif asked_minor > left_minor:
        yield order, Told(400, "refund_amount_exceeds")
    elif asked_minor > left_minor - order.refunding_minor:
        yield order, Told(409, "refund_in_progress")
    else:
        under_way = Refunding(op.number, asked_minor)
        reserved = replace(order, refunding=(*order.refunding, under_way))
        yield reserved, Told(201, names=("processing",))
        if order.amount_minor in DECLINED_MINOR:
            refused = replace(order, refunding=(*order.refunding, replace(under_way, is_refused=True)))
            yield refused, Told(409, "cannot_refund_order", names=("declined",))
        else:
            yield reserved, Told(201, names=("processed",))


def _result(order: Order, op: Op, at: Moment, session: int) -> Step:
    stored = dict(order.results)
    if op.result in stored:
        yield order, stored[op.result]
        return
    contradicts = any(result.startswith(f"{op.number}/") for result in stored)
    came = [_reported(order, op, at, session, contradicts=contradicts)]
    if order.state == status.CHECK_ON_TERMINAL and may_be_undone(order, at.now_ms):
        # The acquirer is about to be told to forget the payment: nothing approves it any more.
        came.append((order, Told(409, "result_conflict")))
    for after, told in came:
        yield replace(after, results=(*after.results, (op.result, told))), told


def _reported(order: Order, op: Op, at: Moment, session: int, *, contradicts: bool) -> tuple[Order, Told]:
    if not order.live:
        return order, Told(409, "result_conflict" if contradicts else "order_finished")
    if order.state == status.CREATED and not contradicts:
        order = order.to(status.AT_TERMINAL, leased=session)
    ended = None if contradicts else _ended(order, op)
    if ended is not None:
        return ended, Told(200, shown=ended.told)
    checked = order
    if order.state in BEFORE_CHECK:
        checked = order.to(status.CHECK_ON_TERMINAL, checked_ms=at.after_ms)
    if op.content == "unknown" and not contradicts:
        return checked, Told(200, shown=checked.told)
    return checked, Told(409, "result_conflict")


def _ended(order: Order, op: Op) -> Order | None:
    """The order with the outcome that the result says; None where nothing is ended by it."""
    if op.content == "declined":
        return order.to(FAILED[op.detail])
    if op.content == "canceled" and order.state in BEFORE_CHECK and not order.permitted_ms:
        return order.to(status.CANCELED_ON_TERMINAL)
    if op.content == "approved" and (order.permitted_ms or order.state == status.AT_TERMINAL):
        return order.to(status.PROCESSED, permitted_ms=order.permitted_ms or 1)
    return None


ON_ORDER = {
    "cancel": _cancel,
    "ask_back": _cancel,
    "ack": _ack,
    "step": _progress,
    "authorizing": _progress,
    "give_back": _give_back,
    "result": _result,
    "refund": _refund,
    "refund_part": _refund,
}
