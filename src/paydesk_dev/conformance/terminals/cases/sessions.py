"""Cases of the session: hello, polls, messages, and a service that is away."""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise

from paydesk.core.ids import UUID_PATTERN
from paydesk_dev.conformance.case import Failed, NotApplicable, NotShown
from paydesk_dev.conformance.terminals.actions import drop, lose, refuse, rewrite
from paydesk_dev.conformance.terminals.case import case
from paydesk_dev.conformance.terminals.exchanges import IN_SESSION, PERMITS, Exchange
from paydesk_dev.conformance.terminals.kit import DECLINED_AMOUNT, Kit, is_welcome
from paydesk_dev.conformance.terminals.rules import IN_FLIGHT_SECONDS

SLOWER_SECONDS, TOLERANCE_SECONDS = 5, 0.5
WATCHED_SECONDS = 3.0
POLLS_PER_SECOND_MAX = 10
AWAY_SECONDS, AWAY_REQUESTS_MAX = 4.0, 8
RETRY_SECONDS = 2.0
"""A terminal that tries again does so within this time."""


@case("pairing", 1, "Waits for the interval between its requests for the token, and 5 s longer after `slow_down`.")
async def _pairing(kit: Kit) -> None:
    begun = next(kit.log.find("pairing"), None)
    if begun is None:
        raise NotApplicable("The terminal was given its device token.")
    seconds = float(begun.answer.get("interval", 0))
    for earlier, later in pairwise(kit.log.find("pairing-token")):
        seconds += SLOWER_SECONDS if earlier.code == "slow_down" else 0
        pause = later.started - earlier.started
        if pause < seconds - TOLERANCE_SECONDS:
            raise Failed(f"It asked for its token after {pause:.1f} s instead of {seconds:g} s.")


@case("hello", 2, "Sends a hello with a UUID as `boot_id` before any other call.")
async def _hello(kit: Kit) -> None:
    first = next(each for each in kit.log.exchanges if each.kind not in ("other", "pairing", "pairing-token"))
    if first.kind != "hello":
        raise Failed(f"The first request was {first}.")
    if not re.fullmatch(UUID_PATTERN, first.boot_id):
        raise Failed("The boot_id of the first hello is no UUID.")
    if not isinstance(first.body, dict) or not isinstance(first.body.get("journal", []), list):
        raise Failed("The first hello has no journal.")


@case("polls", 3, "Polls again soon after each answer, and not in a tight loop.")
async def _polls(kit: Kit) -> None:
    since = kit.mark
    with kit.wire.on("poll", do=refuse(204)):
        await kit.poll_again()
        await asyncio.sleep(WATCHED_SECONDS)
    count = len(list(kit.log.find("poll", since=since)))
    if count > WATCHED_SECONDS * POLLS_PER_SECOND_MAX:
        raise Failed(f"It polled {count} times in {WATCHED_SECONDS:g} s when every poll was answered empty at once.")


@case("payment", 4, "Acknowledges an order, asks for the permit, charges once and reports the approval.")
async def _payment(kit: Kit) -> None:
    order = await kit.place()
    ack = await kit.expect("ack", order, so="acknowledge the order")
    await kit.paid(order)
    permit = next(kit.log.find(*PERMITS, lease_id=order.lease_id), None)
    if permit is None:
        raise Failed("The terminal reported an approval without asking for the permit.")
    if permit.started < (ack.answered or ack.started):
        raise Failed("The terminal asked for the permit before its acknowledgement was answered.")


@case("declined", 4, "Reports a declined card with the failed detail of the acquirer's answer.")
async def _declined(kit: Kit) -> None:
    order = await kit.place(DECLINED_AMOUNT, card="that is declined")
    status = await kit.ended(order)
    if status == "processed":
        raise NotShown("The card was approved.")
    reported = kit.log.find("result", lease_id=order.lease_id)
    answered = kit.log.find("authorize", lease_id=order.lease_id)
    outcomes = {each.content.get("outcome") for each in reported} | {each.answer.get("outcome") for each in answered}
    if status != "failed" or "declined" not in outcomes:
        raise Failed(f"The order ended as {status}, not as failed by a declined result.")


@case("additions", 3, "Ignores messages of an unknown type and unknown fields in answers.")
async def _additions(kit: Kit) -> None:
    with kit.wire.on(do=rewrite(lambda answer: {**answer, "added_later": {"version": 2}})):
        kit.wire.inject({"type": "announcement", "text": "A type of a later version."})
        await kit.paid(await kit.place())


@case("print", 9, "Prints an action once and reports `printed`, or `failed` if it can't print.")
async def _print(kit: Kit) -> None:
    since = kit.mark
    action_id = await kit.shop.print_text()
    kit.say("Print action: see that the text comes out once.")
    try:
        await kit.expect("print-result", since=since, so="report whether it printed the action")
        if await kit.shop.print_status(action_id) not in ("processed", "failed"):
            raise Failed("The service did not accept the report about the print action.")
        await asyncio.sleep(kit.patience.quiet_seconds)
        if len(list(kit.log.find("print-result", since=since))) > 1:
            raise Failed("It reported the print action again after an answer.")
    finally:
        await kit.shop.release()


@case("poll-answer-lost", 3, "Polls again when the answer to a poll is lost, and pays the order that is offered again.")
async def _poll_answer_lost(kit: Kit) -> None:
    with kit.wire.on("poll", do=lose, times=1):
        await kit.poll_again()
        await kit.paid(await kit.place())


@case("mode-change", 3, "Goes on polling when its mode changes to STANDALONE, and takes orders when it is PDV again.")
async def _mode_change(kit: Kit) -> None:
    try:
        since = kit.mark
        await kit.shop.set_mode("STANDALONE")
        await kit.expect("poll", since=since, answered=False, so="poll again after the change of its mode")
    finally:
        await kit.shop.set_mode("PDV")
    await kit.paid(await kit.place())


@case("service-away", 6, "Pauses longer after each failed call while the service is away, and comes back.")
async def _service_away(kit: Kit) -> None:
    since = kit.mark
    for fault in (refuse(503), drop):
        with kit.wire.on(do=fault):
            kit.wire.inject({})
            await asyncio.sleep(AWAY_SECONDS / 2)
    count = len(kit.log.exchanges) - since
    if count > AWAY_REQUESTS_MAX:
        raise Failed(f"It sent {count} requests within {AWAY_SECONDS:g} s to a service that was away.")
    if not await kit.idle(kit.patience.seconds):
        raise Failed(f"It did not poll again within {kit.patience.seconds:g} s after the service was back.")
    await kit.paid(await kit.place())


@case("stale-session", 2, "Stops its session after 409 `stale_session`, and still reports its results.")
async def _stale_session(kit: Kit) -> None:
    boot_id = kit.boot_id
    with kit.wire.on("result", do=refuse(400)):
        order = await kit.place()
        await kit.need("result", order)
        await kit.shop.take_session_over(kit.wire.device_token)

        def first_stale() -> Exchange | None:
            calls = kit.log.find("hello", *IN_SESSION)
            return next((each for each in calls if each.boot_id == boot_id and each.code == "stale_session"), None)

        stale = await kit.log.until(first_stale, kit.patience.seconds)
        if stale is None:
            raise NotShown("The terminal made no call after a newer session had begun.")
        since = kit.mark
    await kit.expect("result", order, since=since, so="go on reporting its result")
    await kit.paid(order)
    await asyncio.sleep(kit.patience.quiet_seconds + RETRY_SECONDS)
    for each in kit.log.find("hello", *IN_SESSION, since=since):
        seconds = each.started - (stale.answered or each.started)
        if each.boot_id == boot_id and seconds > IN_FLIGHT_SECONDS:
            raise Failed(f"It sent {each} with the same boot_id {seconds:.1f} s after the 409 `stale_session`.")
    if not any(is_welcome(each) for each in kit.log.find("hello", since=since)):
        await kit.restart()
