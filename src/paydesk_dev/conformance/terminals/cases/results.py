"""Cases of results: no approval is ever lost."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from paydesk_dev.conformance.case import Failed
from paydesk_dev.conformance.shop import Order
from paydesk_dev.conformance.terminals.actions import lose, refuse, rewrite
from paydesk_dev.conformance.terminals.case import case
from paydesk_dev.conformance.terminals.exchanges import Exchange
from paydesk_dev.conformance.terminals.kit import Kit

PAUSE_SECONDS_MIN = 0.5
REFUSED = (503, 401, 404)
RECORDED = {"error": "order_finished", "recorded": True}


@case("result-answer-lost", 4, "Repeats a result whose answer is lost, under the same id and with the same content.")
async def _result_answer_lost(kit: Kit) -> None:
    with kit.wire.on("result", do=lose, times=2):
        order = await kit.place()
        await kit.need("result", order, answered=False)
        await kit.reported(order)
    _check_repetitions(kit, order)
    await kit.paid(order)


@case("result-refused", 4, "Repeats a result that is refused with 503, 401 or 404, and pauses before each attempt.")
async def _result_refused(kit: Kit) -> None:
    with kit.wire.on("result", do=refuse(*REFUSED), times=len(REFUSED)):
        order = await kit.place()
        await kit.need("result", order)
        await kit.reported(order)
    await kit.paid(order)
    results = _check_repetitions(kit, order)
    pauses = [later.started - (earlier.answered or 0) for earlier, later in pairwise(results)]
    if min(pauses, default=PAUSE_SECONDS_MIN) < PAUSE_SECONDS_MIN:
        raise Failed(f"It repeated a refused result after {min(pauses):.1f} s.")


@case(
    "result-recorded", 4, "Repeats a result after a 409 without `recorded`, and stops after one with `recorded: true`."
)
async def _result_recorded(kit: Kit) -> None:
    recorded = rewrite(lambda _: RECORDED, status=409)
    with kit.wire.on("result", do=refuse(409), times=1), kit.wire.on("result", do=recorded):
        order = await kit.place()
        await kit.need("result", order)
        await kit.paid(order)
        await asyncio.sleep(kit.patience.quiet_seconds + 1)
    count = len(_check_repetitions(kit, order))
    if count > 2:
        raise Failed(f"It sent the result {count - 2} times more after a 409 with `recorded: true`.")


def _check_repetitions(kit: Kit, order: Order) -> list[Exchange]:
    """Return the results of the order. Raises `Failed` if they differ."""
    results = list(kit.log.find("result", lease_id=order.lease_id))
    if len({each.result_id for each in results}) > 1:
        raise Failed("It repeated the result under another id.")
    if any(each.content != results[0].content for each in results):
        raise Failed("It repeated the result with another content.")
    return results
