"""Hello: a terminal that starts takes its session over, and is told what becomes of each lease it remembers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paydesk.core.clock import rfc3339
from paydesk.core.errors import UNAUTHORIZED
from paydesk.device import lease_store
from paydesk.device.gateway import Gateway
from paydesk.device.schemas import HelloRequest, JournalEntry
from paydesk.device.verdicts import Effect, Standing, Verdict, judge
from paydesk.operation import Answer, Call, Handled
from paydesk.orders import status
from paydesk.orders import store as orders
from paydesk.orders.order import Order
from paydesk.storage.database import Transaction
from paydesk.terminals import store
from paydesk.terminals.store import Terminal

SELLER_NAME = "SELECT name FROM sellers WHERE seller_id = $1"


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a hello has brought."""

    terminal: Terminal
    session: int
    seller_name: str
    leases: list[dict[str, str]]


async def hello(call: Call) -> Handled:
    """Begin the session of this start, or find it again."""
    refuse_revoked(call)
    gateway: Gateway = call.state["gateway"]

    async def work(tx: Transaction) -> Greeting:
        return await _greet(tx, call)

    greeting = await call.database.write(work)
    gateway.greeted(call.caller.terminal_id, greeting.session, greeting.terminal.operating_mode)
    body: dict[str, Any] = {
        "terminal_id": call.caller.terminal_id,
        "operating_mode": greeting.terminal.operating_mode,
        "seller_name": greeting.seller_name,
        "currency": call.caller.currency,
        "time": rfc3339(call.now_ms),
        "leases": greeting.leases,
    }
    return Answer(200, body)


def refuse_revoked(call: Call) -> None:
    """A revoked device token is good for results alone."""
    if call.caller.revoked:
        raise UNAUTHORIZED.with_reason("revoked device token")


async def _greet(tx: Transaction, call: Call) -> Greeting:
    request: HelloRequest = call.body
    seller_id, terminal_id = call.caller.seller_id, call.caller.terminal_id
    terminal = await store.lock(tx, seller_id, terminal_id)
    assert terminal is not None, "a device token belongs to a terminal"
    newest, own = await lease_store.sessions_of(tx, seller_id, terminal_id, request.boot_id)
    if own is not None and own < newest:
        raise lease_store.stale(call, own, newest)
    session = own or newest + 1
    if own is None:
        await lease_store.begin_session(
            tx, seller_id, terminal_id, request.boot_id, request.app_version, session, call.now_ms
        )
    verdicts = [await _judged(tx, call, entry, session) for entry in request.journal]
    verdicts += await _unremembered(tx, call, {entry.lease_id.upper() for entry in request.journal}, session)
    row = await tx.one(SELLER_NAME, seller_id)
    return Greeting(terminal, session, row[0] if row else "", verdicts)


async def _judged(tx: Transaction, call: Call, entry: JournalEntry, session: int) -> dict[str, str]:
    order = await orders.lock(tx, call.caller.seller_id, f"ORD{entry.lease_id.upper()}")
    if order is not None and order.terminal_id != call.caller.terminal_id:
        order = None
    standing = standing_of(order, call.now_ms)
    verdict, effect = judge(entry.last_step, standing, has_result=entry.result is not None)
    if order is not None:
        await _apply(tx, order, effect, session, call.now_ms)
    return _told(entry.lease_id, verdict)


async def _unremembered(tx: Transaction, call: Call, remembered: set[str], session: int) -> list[dict[str, str]]:
    """An order at the terminal that its journal lost: before the grant it is offered again, after it is held."""
    order = await orders.live_on_terminal(tx, call.caller.seller_id, call.caller.terminal_id)
    if order is None or order.ulid in remembered:
        return []
    order = await orders.lock(tx, order.seller_id, order.order_id)
    if order is None or standing_of(order, call.now_ms) not in ("granted", "unknown"):
        return []
    await _apply(tx, order, "inquire", session, call.now_ms)
    return [_told(order.ulid, "hold")]


def standing_of(order: Order | None, now_ms: int) -> Standing:
    """How the order stands, for the table of verdicts."""
    if order is None or order.status not in status.LIVE or order.detached_ms is not None:
        return "ended"
    if order.status == "created":
        return "created"
    if order.state == status.CHECK_ON_TERMINAL:
        return "unknown"
    if order.permitted_ms is not None:
        return "granted"
    if order.is_overdue(now_ms):
        return "overdue"
    return "canceling" if order.state == status.CANCELLATION_REQUESTED else "open"


async def _apply(tx: Transaction, order: Order, effect: Effect, session: int, now_ms: int) -> None:
    match effect:
        case "re_lease":
            await lease_store.hand_over(tx, order.seller_id, order.ulid, session)
        case "cancel":
            await _cancel(tx, order, now_ms)
        case "inquire":
            if await orders.move(tx, status.CHECK, order, now_ms, origin="terminal") is not None:
                await orders.inquire(tx, order, "the terminal was started again", now_ms)


async def _cancel(tx: Transaction, order: Order, now_ms: int) -> None:
    current = await orders.expire_overdue(tx, order, now_ms)
    if await orders.move(tx, status.CONFIRM_CANCEL, current, now_ms) is not None:
        await orders.end_lease(tx, current, "cancel", now_ms)


def _told(lease_id: str, verdict: Verdict) -> dict[str, str]:
    return {"lease_id": lease_id, "verdict": verdict}
