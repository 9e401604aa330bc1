"""Replays by operators of the exhausted and superseded deliveries of an order or a subscription."""

from __future__ import annotations

from functools import partial

from paydesk.core.response import Closed, Count
from paydesk.engine.orders.search.query import instant_of
from paydesk.engine.webhooks.delivery import replaying
from paydesk.engine.webhooks.delivery.replaying import Cursor
from paydesk.operators import audit
from paydesk.operators.deliveries.fields import ReplayRequest
from paydesk.operators.deliveries.handlers import SINCE_MS_MIN
from paydesk.operators.errors import SUBSCRIPTION_ENDED, SUBSCRIPTION_NOT_FOUND
from paydesk.operators.owners import owner_of
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction


class Replayed(Closed, frozen=True):
    """How many deliveries a replay made pending."""

    count: Count


async def replay(call: Call) -> Answer:
    """Deliver exhausted and superseded notifications again: they become pending."""
    body: ReplayRequest = call.body
    since_ms = SINCE_MS_MIN if body.since is None else instant_of(body.since)[0]
    if (order_id := body.order) is not None:

        async def work(tx: Transaction) -> int:
            count = await replaying.replay_order(tx, await owner_of(tx, order_id), order_id, since_ms, call.now_ms)
            await _record_replay(call, tx, order_id, count)
            return count

        return Answer(202, Replayed(await call.database.write(work)))
    # In steps, each a transaction. A replay that is interrupted can be requested again.
    count = 0
    cursor: Cursor | None = Cursor()
    while cursor is not None:
        step, cursor = await call.database.write(partial(_step, call=call, since_ms=since_ms, begin=cursor))
        count += step
    return Answer(202, Replayed(count))


async def _step(tx: Transaction, *, call: Call, since_ms: int, begin: Cursor) -> tuple[int, Cursor | None]:
    """Make and record one step. Raises `SUBSCRIPTION_NOT_FOUND`, `SUBSCRIPTION_ENDED`."""
    subscription_id = call.body.subscription_id.lower()
    is_deleted = await replaying.is_deleted(tx, subscription_id)
    if is_deleted is None:
        raise SUBSCRIPTION_NOT_FOUND.with_reason("unknown subscription")
    if is_deleted:
        raise SUBSCRIPTION_ENDED.with_reason("the subscription is deleted")
    count, then = await replaying.replay_step(tx, subscription_id, since_ms, call.now_ms, begin)
    await _record_replay(call, tx, subscription_id, count)
    return count, then


async def _record_replay(call: Call, tx: Transaction, subject: str, count: int) -> None:
    """Record a replay, or one step of it, unless it changed nothing."""
    if count:
        since = {"since": call.body.since} if call.body.since is not None else {}
        await audit.record(call, tx, "deliveries.replay", subject, after={"count": count, **since})
