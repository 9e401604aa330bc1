"""The kit as the operator: it approves a terminal that asks to be paired."""

from __future__ import annotations

from functools import partial

from paydesk.conformance.exchanges import Exchange
from paydesk.conformance.kit import Kit
from paydesk.conformance.wire import refuse

APPROVAL_SECONDS = 3600.0
SLOW_DOWN = "slow_down"
POLLS_BEFORE_APPROVAL = 2


async def approve(kit: Kit) -> None:
    """Approve every pairing after two requests for its token; the first request of all gets `slow_down`."""
    since = 0
    with kit.wire.on("pairing-token", do=refuse(400, code=SLOW_DOWN), times=1):
        while True:
            begun = await kit.log.until(partial(_begun, kit, since), APPROVAL_SECONDS)
            if begun is None:
                continue
            since = begun.number + 1
            await kit.log.until(partial(_has_polled, kit, since), APPROVAL_SECONDS)
            user_code = str(begun.answer["user_code"])
            refused = await kit.shop.pair(user_code)
            kit.say(f"The pairing {user_code} was refused: {refused}." if refused else f"Paired by {user_code}.")


def _begun(kit: Kit, since: int) -> Exchange | None:
    return next((each for each in kit.log.find("pairing", since=since) if "user_code" in each.answer), None)


def _has_polled(kit: Kit, since: int) -> bool:
    return len(list(kit.log.find("pairing-token", since=since))) >= POLLS_BEFORE_APPROVAL
