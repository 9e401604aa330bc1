"""A model of the contract: the possible states of a terminal and its orders, and the outcomes of requests.

A world is one possibility. Several may explain the responses so far, because requests are concurrent and workers move
orders at any time after they are due. All functions are pure; the main one is `outcomes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from paydesk.engine.device.rules.verdicts import OrderState, judge
from paydesk.engine.orders import status
from paydesk.engine.orders.status import FAILED, LIVE, State

Kind = Literal[
    "create",
    "get",
    "charge",
    "cancel",
    "cancel_at_terminal",
    "hello",
    "ack",
    "step",
    "authorizing",
    "result",
    "release",
    "refund",
    "refund_part",
]
Content = Literal["approved", "approved_less", "declined", "canceled", "unknown"]

SILENCE_MS, UNKNOWN_MS, NOT_FOUND_MS = 30_000, 40_000, 90_000
"""The last is shorter than the default, so that runs reach it."""
USUAL_MINOR = 2_490
DECLINED_MINOR = (9_990_030, 9_990_035)
"""The acquirer declines refunds of payments of these amounts, at once or late."""
BEFORE_CHECK = (status.AT_TERMINAL, status.CANCELLATION_REQUESTED)


@dataclass(frozen=True, slots=True)
class Op:
    """A request. `session` is the terminal's session, `content` a result's outcome."""

    kind: Kind
    terminal: int
    number: int
    """The request's number in the run, from which its key, its result's id and its reference derive."""
    order_id: str = ""
    session: int = 0
    content: Content = "approved"
    last_step: str = ""
    seconds: int = 30
    amount_minor: int = 0
    """The amount of a new order or of a partial refund; otherwise the order's amount."""
    reference_id: str = ""
    """The acquirer's reference of a reported approval."""
    detail: str = "insufficient_amount"
    """The reason of a decline."""

    @property
    def keyed(self) -> bool:
        """Return whether a repeat gets the first response."""
        return self.kind in ("create", "cancel", "cancel_at_terminal", "refund", "refund_part")

    @property
    def result(self) -> str:
        """Return the identity of the result: its id and content."""
        reference = self.reference if self.content in ("approved", "approved_less") else ""
        return f"{self.number}/{self.content}/{reference}"

    @property
    def reference(self) -> str:
        """Return the acquirer's reference of an approval, or an invented one without an acquirer."""
        return self.reference_id or f"{10**11 + self.number}"


@dataclass(frozen=True, slots=True)
class Response:
    """A response as far as the model predicts it. `shown` is its order; `names` is an id or verdicts."""

    status: int
    code: str = ""
    shown: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """The time at which a request was handled: `now_ms`, not before `after_ms`."""

    after_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class Refunding:
    """A processing refund: the number of its request, its amount, and whether it was refused as declined."""

    number: int
    amount_minor: int
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """A possible order. `results` are the responses to its results."""

    order_id: str
    expires_ms: int
    amount_minor: int = USUAL_MINOR
    is_live: bool = False
    """Live orders have no acquirer in the model."""
    state: State = status.CREATED
    version: int = 1
    leased: int = 0
    permitted_ms: int = 0
    asked_ms: int = 0
    checked_ms: int = 0
    refunded_minor: int = 0
    refunding: tuple[Refunding, ...] = ()
    charged: str = ""
    """The acquirer's outcome: `approved`, or the reason of a decline; "" without an authorization."""
    known_from_ms: int = 0
    known_by_ms: int = 0
    """The earliest and latest time from which the acquirer has that outcome."""
    results: tuple[tuple[str, Response], ...] = ()

    @property
    def live(self) -> bool:
        """Return whether the order occupies its terminal."""
        return self.state.status in LIVE

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the order as applications see it."""
        state = self.state.status, self.state.detail, self.state.payment_detail
        return (*state, str(self.version), str(self.refunded_minor))

    @property
    def device_view(self) -> tuple[str, ...]:
        """Return the order as terminals see it."""
        return self.state.status, self.state.detail

    @property
    def refunding_minor(self) -> int:
        """Return the reserved amount."""
        return sum(one.amount_minor for one in self.refunding)

    def to(self, state: State, **changes: Any) -> Order:
        """Return the order after a move."""
        return replace(self, state=state, version=self.version + 1, **changes)

    def may_expire(self) -> bool:
        """Return whether the order can expire."""
        return self.state in status.EXPIRE.sources and not self.permitted_ms


@dataclass(frozen=True, slots=True)
class World:
    """A possible terminal: the number of its latest session, and its orders, the latest last."""

    session: int
    is_live: bool = False
    orders: tuple[Order, ...] = ()

    def find(self, order_id: str) -> Order:
        """Return the order with that id."""
        return next(order for order in self.orders if order.order_id == order_id)

    def put(self, order: Order) -> World:
        """Return the world with the changed order."""
        return replace(self, orders=tuple(order if one.order_id == order.order_id else one for one in self.orders))

    @property
    def live(self) -> Order | None:
        """Return the live order."""
        return next((order for order in self.orders if order.live), None)


Outcome = tuple[World, Response]


def drifted(world: World, latest_ms: int) -> set[World]:
    """Return the worlds that workers may have reached by then."""
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
    """Yield the orders after the possible inquiry results by then."""
    if order.charged == "approved" and order.known_from_ms <= latest_ms:
        yield order.to(status.PROCESSED, permitted_ms=order.permitted_ms or 1)
    elif order.charged and order.known_from_ms <= latest_ms:
        yield order.to(FAILED[order.charged])
    if may_be_reversed(order, latest_ms):
        yield order.to(FAILED["processing_error"])


def may_be_reversed(order: Order, now_ms: int) -> bool:
    """Return whether the payment may be reversed: not found `NOT_FOUND_MS` after the permit."""
    counts_from_ms = (order.permitted_ms or order.checked_ms) + NOT_FOUND_MS
    is_known = bool(order.charged) and order.known_by_ms < counts_from_ms
    return not order.is_live and counts_from_ms <= now_ms and not is_known


def overdue(world: World, now_ms: int) -> bool:
    """Return whether a worker has not done something that was due.

    The start of an unknown outcome is only known as not before a time, so its inquiry is never certainly due.
    """
    known = (order for order in world.orders if order.state != status.CHECK_ON_TERMINAL)
    return any(True for order in known for _ in _due(order, now_ms))


def refunding(world: World, number: int) -> bool:
    """Return whether the refund of this request is processing."""
    return any(one.number == number for order in world.orders for one in order.refunding)


def charged(world: World, order_id: str, outcome: str, known_from_ms: int, known_by_ms: int) -> World:
    """Return the world after an authorization at the acquirer."""
    order = world.find(order_id)
    if order.charged:
        return world
    return world.put(replace(order, charged=outcome, known_from_ms=known_from_ms, known_by_ms=known_by_ms))


def outcomes(world: World, op: Op, at: Moment, answer: Response | None) -> Iterator[Outcome]:
    """Yield the possible outcomes of the request in this world: the world after it, and the response.

    Of `answer` only a new order's id and creation time are used.
    """
    if op.kind == "create":
        yield from _create(world, op, at, answer)
    elif op.kind == "hello":
        yield from _hello(world, op, at)
    elif op.kind == "get":
        yield world, Response(200, shown=world.find(op.order_id).shown)
    elif (
        op.kind not in ("cancel", "cancel_at_terminal", "result", "refund", "refund_part")
        and op.session != world.session
    ):
        yield world, Response(409, "stale_session")
    else:
        before = _in_time(world.find(op.order_id), at)
        for order, response in ON_ORDER[op.kind](before, op, at, world.session):
            yield world.put(order), response


def _in_time(order: Order, at: Moment) -> Order:
    """Return the order after the expiry that a write makes first if it is overdue."""
    return order.to(status.EXPIRED) if order.may_expire() and order.expires_ms <= at.now_ms else order


def _create(world: World, op: Op, at: Moment, answer: Response | None) -> Iterator[Outcome]:
    conflicting = world.live
    if conflicting is not None:
        current = _in_time(conflicting, at)
        if current.live:
            yield world, Response(409, "already_queued_order_on_terminal", names=(conflicting.order_id,))
            return
        world = world.put(current)
    if answer is not None and answer.names:
        expires_ms = answer.created_ms + op.seconds * 1000
        made = Order(answer.names[0], expires_ms, op.amount_minor, world.is_live)
        yield replace(world, orders=(*world.orders, made)), Response(201, shown=made.shown, names=answer.names)


def _hello(world: World, op: Op, at: Moment) -> Iterator[Outcome]:
    if op.session < world.session:
        yield world, Response(409, "stale_session")
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
    yield after, Response(200, names=tuple(verdicts))


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


Step = Iterator[tuple[Order, Response]]


def _cancel(order: Order, op: Op, at: Moment, _: int) -> Step:
    if order.state == status.CREATED:
        canceled = order.to(status.CANCELED_BY_API)
        yield canceled, Response(200, shown=canceled.shown)
    elif op.kind == "cancel_at_terminal" and order.state == status.AT_TERMINAL and not order.permitted_ms:
        asked = order.to(status.CANCELLATION_REQUESTED, asked_ms=at.after_ms)
        yield asked, Response(202, shown=asked.shown)
    elif op.kind == "cancel_at_terminal" and order.state in BEFORE_CHECK:
        yield order, Response(202, shown=order.shown)
    else:
        is_canceled = order.state.status == "canceled"
        yield order, Response(409, "order_already_canceled" if is_canceled else "cannot_cancel_order")


def _ack(order: Order, _: Op, __: Moment, session: int) -> Step:
    if order.state == status.CREATED:
        taken = order.to(status.AT_TERMINAL, leased=session)
        yield taken, Response(200, shown=taken.device_view)
    elif not order.live:
        yield order, Response(409, "order_canceled" if order.state.status == "canceled" else "order_finished")
    elif order.leased == session:
        yield order, Response(200, shown=order.device_view)
    elif order.state == status.AT_TERMINAL and not order.permitted_ms:
        yield replace(order, leased=session), Response(200, shown=order.device_view)
    elif order.state == status.CANCELLATION_REQUESTED:
        yield order.to(status.CANCELED_BY_API), Response(409, "order_canceled")
    else:
        yield order, Response(409, "order_canceled")


def _progress(order: Order, op: Op, at: Moment, session: int) -> Step:
    if order.state.status == "canceled":
        yield order, Response(409, "order_canceled")
    elif not order.leased:
        yield order, Response(404, "lease_not_found")
    elif op.kind == "step":
        yield order, Response(200, shown=order.device_view)
    elif order.leased != session or order.state != status.AT_TERMINAL:
        yield order, Response(409, "order_canceled")
    else:
        yield replace(order, permitted_ms=order.permitted_ms or at.after_ms), Response(200)


def _release(order: Order, _: Op, __: Moment, ___: int) -> Step:
    if order.state == status.CANCELLATION_REQUESTED:
        canceled = order.to(status.CANCELED_BY_API)
        yield canceled, Response(200, shown=canceled.device_view)
    elif not order.live:
        yield order, Response(200, shown=order.device_view)
    elif order.state == status.AT_TERMINAL and not order.permitted_ms:
        yield order, Response(409, "cancel_not_requested")
    else:
        yield order, Response(409, "order_granted")


def _refund(order: Order, op: Op, _: Moment, __: int) -> Step:
    """Yield the reserved refund. Its confirmation is a separate step, by the request or by a worker."""
    left_minor = order.amount_minor - order.refunded_minor
    asked_minor = op.amount_minor or left_minor
    if order.state.status == "refunded":
        yield order, Response(409, "order_already_refunded")
    elif order.state.status != "processed" or order.is_live:
        yield order, Response(409, "cannot_refund_order")
    elif asked_minor > left_minor:
        yield order, Response(400, "refund_amount_exceeds")
    elif asked_minor > left_minor - order.refunding_minor:
        yield order, Response(409, "refund_in_progress")
    else:
        under_way = Refunding(op.number, asked_minor)
        reserved = replace(order, refunding=(*order.refunding, under_way))
        yield reserved, Response(201, names=("processing",))
        if order.amount_minor in DECLINED_MINOR:
            refused = replace(order, refunding=(*order.refunding, replace(under_way, is_refused=True)))
            yield refused, Response(409, "cannot_refund_order", names=("declined",))
        else:
            yield reserved, Response(201, names=("processed",))


def _result(order: Order, op: Op, at: Moment, session: int) -> Step:
    stored = dict(order.results)
    if op.result in stored:
        yield order, stored[op.result]
        return
    contradicts = any(result.startswith(f"{op.number}/") for result in stored)
    came = [_reported(order, op, at, session, contradicts=contradicts)]
    if order.state == status.CHECK_ON_TERMINAL and may_be_reversed(order, at.now_ms):
        # The payment may be about to be reversed: no result approves it any more.
        came.append((order, Response(409, "result_conflict")))
    for after, response in came:
        yield replace(after, results=(*after.results, (op.result, response))), response


def _reported(order: Order, op: Op, at: Moment, session: int, *, contradicts: bool) -> tuple[Order, Response]:
    if not order.live:
        return order, Response(409, "result_conflict" if contradicts else "order_finished")
    if order.state == status.CREATED and not contradicts:
        order = order.to(status.AT_TERMINAL, leased=session)
    ended = None if contradicts else _ended(order, op)
    if ended is not None:
        return ended, Response(200, shown=ended.device_view)
    checked = order
    if order.state in BEFORE_CHECK:
        checked = order.to(status.CHECK_ON_TERMINAL, checked_ms=at.after_ms)
    if op.content == "unknown" and not contradicts:
        return checked, Response(200, shown=checked.device_view)
    return checked, Response(409, "result_conflict")


def _ended(order: Order, op: Op) -> Order | None:
    """Return the order with the result's outcome; None if the result does not end it."""
    if op.content == "declined":
        return order.to(FAILED[op.detail])
    if op.content == "canceled" and order.state in BEFORE_CHECK and not order.permitted_ms:
        return order.to(status.CANCELED_ON_TERMINAL)
    if op.content == "approved" and (order.permitted_ms or order.state == status.AT_TERMINAL):
        return order.to(status.PROCESSED, permitted_ms=order.permitted_ms or 1)
    return None


ON_ORDER = {
    "cancel": _cancel,
    "cancel_at_terminal": _cancel,
    "ack": _ack,
    "step": _progress,
    "authorizing": _progress,
    "release": _release,
    "result": _result,
    "refund": _refund,
    "refund_part": _refund,
}
