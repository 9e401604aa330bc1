"""Cases of offers, cancels, the expiry and the permit: whether an order may be charged."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise

from paydesk_dev.conformance.case import Failed, NotApplicable
from paydesk_dev.conformance.terminals.actions import lose, refuse, rewrite
from paydesk_dev.conformance.terminals.case import case
from paydesk_dev.conformance.terminals.exchanges import PERMITS
from paydesk_dev.conformance.terminals.kit import EXPIRED, JOURNAL_SECONDS, SHORTEST, Kit

LONG_AGO = "2020-01-01T00:00:00.000Z"
DELIVERY_SECONDS = 0.5


@case("ack-answer-lost", 4, "Acknowledges the same lease again when the answer is lost, and pays once.")
async def _ack_answer_lost(kit: Kit) -> None:
    with kit.wire.on("ack", do=lose, times=1):
        order = await kit.place()
        await kit.expect("ack", order, so="acknowledge the order again")
        await kit.paid(order)


@case("offer-repeated", 3, "Pays an order once that is offered a second time during and after the payment.")
async def _offer_repeated(kit: Kit) -> None:
    with kit.hold(*PERMITS) as gate:
        order = await kit.place()
        offer = (await kit.delivered("order", order)).answer
        await kit.need("ack", order)
        await _deliver(kit, offer)
        gate.open()
        await kit.paid(order)
    since = kit.mark
    await _deliver(kit, offer)
    await kit.unpaid(order, since=since)
    kit.check_once(order)


@case("expired-before-ack", 4, "Drops an order whose acknowledgement is refused because it expired.")
async def _expired_before_ack(kit: Kit) -> None:
    with kit.hold("ack") as gate:
        order = await kit.place(expires=SHORTEST, card="")
        await kit.need("ack", order, answered=False)
        await kit.shop.advance(EXPIRED)
        gate.open()
        await kit.unpaid(order)


@case("expired-before-permit", 4, "Drops an order that expires before the permit.")
async def _expired_before_permit(kit: Kit) -> None:
    with kit.hold(*PERMITS) as gate:
        order = await kit.place(expires=SHORTEST)
        await kit.permit(order, answered=False)
        await kit.shop.advance(EXPIRED)
        gate.open()
        await kit.unpaid(order)


@case("cancel-before-permit", 4, "Releases an order that is canceled before the permit, and answers `done: true`.")
async def _cancel_before_permit(kit: Kit) -> None:
    # Refused, not held: a terminal that makes one call at a time must get to its poll.
    with kit.wire.on("progress", *PERMITS, do=refuse(503)):
        order = await kit.place(card="")
        await kit.need("ack", order)
        await kit.shop.cancel(order)
        await kit.delivered("cancel", order)
        await asyncio.sleep(DELIVERY_SECONDS)
    answer = await kit.expect("cancel-result", order, so="answer the cancel message")
    if answer.body.get("done") is not True:
        raise Failed("It answered a cancel before the permit with `done: false`.")
    await kit.unpaid(order)


@case("cancel-wins", 4, "Charges nothing when the permit is refused because a cancel was first.")
async def _cancel_wins(kit: Kit) -> None:
    with kit.hold(*PERMITS) as gate, kit.wire.hold("poll", message="cancel") as cancels:
        await kit.poll_again()
        order = await kit.place()
        await kit.permit(order, answered=False)
        await kit.shop.cancel(order)
        gate.open()
        await kit.permit(order)
        await asyncio.sleep(DELIVERY_SECONDS)
        cancels.open()
        await kit.unpaid(order)


@case("cancel-after-permit", 4, "Reports the outcome when a cancel comes after the permit, and never `done: true`.")
async def _cancel_after_permit(kit: Kit) -> None:
    with kit.wire.on("result", do=refuse(503)):
        order = await kit.place()
        await kit.need("result", order)
        await kit.shop.cancel(order)
        await _deliver(kit, {"type": "cancel", "lease_id": order.lease_id})
        await asyncio.sleep(DELIVERY_SECONDS)
    await kit.paid(order)
    if any(each.body.get("done") is True for each in kit.log.find("cancel-result", lease_id=order.lease_id)):
        raise Failed("It answered a cancel after the permit with `done: true`.")


@case("permit-answer-lost", 4, "Asks for the permit again when it is refused by 503 or lost, and charges once.")
async def _permit_answer_lost(kit: Kit) -> None:
    with kit.wire.on(*PERMITS, do=refuse(503), times=1), kit.wire.on(*PERMITS, do=lose, times=1):
        order = await kit.place()
        await kit.permit(order, answered=False)
        await kit.paid(order)


@case("charge-answer-lost", 4, "Repeats the call that charges, or reports `unknown`, when its answer is lost.")
async def _charge_answer_lost(kit: Kit) -> None:
    charge = next((each.kind for each in kit.log.exchanges if each.charges), None)
    if charge is None:
        raise NotApplicable("The terminal uses an acquirer of its own.")
    with kit.wire.on(charge, do=lose, times=1):
        order = await kit.place()
        await kit.need(charge, order, answered=False)
        calls, results = (partial(kit.log.find, kind, lease_id=order.lease_id) for kind in (charge, "result"))
        if not await kit.log.until(
            lambda: any(each.status == 200 for each in (*calls(), *results())), kit.patience.seconds
        ):
            raise Failed(f"It neither repeated the call nor reported within {kit.patience.seconds:g} s.")
    if any(each.content != first.content for first, each in pairwise(calls())):
        raise Failed("It repeated the call with another content.")
    if any(each.content.get("outcome") == "unknown" for each in results()):
        return
    await kit.paid(order)


@case("permit-late", 4, "Does not go to the acquirer after `until`, and reports that nothing was charged.")
async def _permit_late(kit: Kit) -> None:
    def late(answer: dict[str, object]) -> dict[str, object]:
        return {**answer, "until": LONG_AGO} if "until" in answer else answer

    with kit.wire.on("authorizing", do=rewrite(late)):
        order = await kit.place()
        await kit.permit(order, separate=True)
        await kit.expect("result", order, so="report that nothing was charged")
        await kit.unpaid(order)


async def _deliver(kit: Kit, message: dict[str, object]) -> None:
    """Answer a poll of the terminal with the message. Raises `Failed` if it does not poll."""
    since = kit.mark
    kit.wire.inject(message)
    await kit.expect("poll", since=since, answered=False, so="poll again after a message")
    await asyncio.sleep(JOURNAL_SECONDS)
