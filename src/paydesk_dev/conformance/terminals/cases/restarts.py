"""Cases of restarts in each phase of a payment: the journal, and obedience to the verdicts."""

from __future__ import annotations

import asyncio
from typing import Any

from paydesk_dev.conformance.case import Failed, NotApplicable
from paydesk_dev.conformance.shop import Order
from paydesk_dev.conformance.terminals.actions import refuse, rewrite
from paydesk_dev.conformance.terminals.case import case
from paydesk_dev.conformance.terminals.exchanges import PERMITS, Exchange
from paydesk_dev.conformance.terminals.kit import EXPIRED, JOURNAL_SECONDS, SHORTEST, Kit, entry_of, verdict_on

OFFERED = ("", "none", "offered")


@case("restart-idle", 2, "Begins a session with a new `boot_id` after a restart, and takes orders.")
async def _restart_idle(kit: Kit) -> None:
    await kit.restart()
    await kit.paid(await kit.place())


@case("restart-offered", 5, "Pays once after a restart before the acknowledgement.")
async def _restart_offered(kit: Kit) -> None:
    with kit.hold("ack"):
        order = await kit.place()
        await kit.need("ack", order, answered=False)
        hello = await kit.restart()
    entry = entry_of(hello, order)
    if entry is not None and entry.get("last_step", "") not in OFFERED:
        raise Failed(f"The journal says {entry['last_step']} of an order whose acknowledgement was not answered.")
    await kit.paid(order)


@case("restart-acknowledged", 5, "Has an acknowledged order in the journal after a restart, and resumes it.")
async def _restart_acknowledged(kit: Kit) -> None:
    with kit.hold("progress", *PERMITS):
        order = await kit.place()
        await kit.need("ack", order)
        await asyncio.sleep(JOURNAL_SECONDS)
        hello = await kit.restart()
    _check_journaled(hello, order)
    await _obey(kit, order, hello)


@case("restart-authorizing", 5, "Obeys the verdict after a restart before the permit was decided.")
async def _restart_authorizing(kit: Kit) -> None:
    with kit.hold(*PERMITS):
        order = await kit.place()
        await kit.permit(order, answered=False)
        hello = await kit.restart()
    _check_journaled(hello, order)
    await _obey(kit, order, hello)


@case("restart-permitted", 5, "Obeys the verdict after a restart when the answer with the permit was lost.")
async def _restart_permitted(kit: Kit) -> None:
    order, hello = await _restart_with_lost_permit(kit)
    await _obey(kit, order, hello)


@case("restart-hold", 5, "Charges nothing after the verdict `hold`, and does not ask for the permit again.")
async def _restart_hold(kit: Kit) -> None:
    def hold(answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "leases": [{**each, "verdict": "hold"} for each in answer.get("leases", [])]}

    with kit.wire.on("hello", do=rewrite(hold)):
        order, hello = await _restart_with_lost_permit(kit)
        await _obey(kit, order, hello)


@case("restart-charging", 5, "Charges no second payment after a restart during the call to the acquirer.")
async def _restart_charging(kit: Kit) -> None:
    charge = next((each.kind for each in kit.log.exchanges if each.charges), None)
    if charge is None:
        raise NotApplicable("The terminal uses an acquirer of its own, so the kit cannot restart it during the call.")
    with kit.hold(charge, served=True):
        order = await kit.place()
        await kit.need(charge, order, answered=False)
        await asyncio.sleep(JOURNAL_SECONDS)
        hello = await kit.restart()
    entry = _check_journaled(hello, order)
    if entry.get("sent") is False:
        raise Failed("The journal says `sent: false` of an order with which it had gone to the acquirer.")
    await kit.ended(order)
    kit.check_once(order)


@case("restart-result-pending", 5, "Reports a pending result after a restart, under the same id.")
async def _restart_result_pending(kit: Kit) -> None:
    with kit.wire.on("result", do=refuse(429), boot_id=kit.boot_id):
        order = await kit.place()
        before = await kit.need("result", order)
        await asyncio.sleep(JOURNAL_SECONDS)
        since = kit.mark
        hello = await kit.restart()
    if "result" not in _check_journaled(hello, order):
        raise Failed("The journal of its hello does not have the result that it had sent.")
    after = await kit.expect("result", order, since=since, so="report the pending result after the restart")
    if after.result_id != before.result_id:
        raise Failed("It reported the pending result under another id after the restart.")
    await kit.paid(order)


@case("restart-abort", 5, "Drops an order after the verdict `abort`: it was canceled during the restart.")
async def _restart_abort(kit: Kit) -> None:
    with kit.hold("progress", *PERMITS):
        order = await kit.place()
        await kit.need("ack", order)
        with kit.wire.hold("hello") as gate:
            begun = await kit.begin_restart()
            await kit.restarted(begun, answered=False)
            await kit.shop.cancel(order)
            gate.open()
            await _obey(kit, order, await kit.restarted(begun))


@case("restart-forget", 5, "Drops an order after the verdict `forget`: it expired during the restart.")
async def _restart_forget(kit: Kit) -> None:
    with kit.hold("progress", *PERMITS):
        order = await kit.place(expires=SHORTEST)
        await kit.need("ack", order)
        with kit.wire.hold("hello") as gate:
            begun = await kit.begin_restart()
            await kit.restarted(begun, answered=False)
            await kit.shop.advance(EXPIRED)
            gate.open()
            await _obey(kit, order, await kit.restarted(begun))


async def _restart_with_lost_permit(kit: Kit) -> tuple[Order, Exchange]:
    """Restart the terminal after the service granted the permit and before the terminal got it."""
    with kit.hold("authorizing", served=True):
        order = await kit.place()
        asked = await kit.permit(order, answered=False, separate=True)
        await kit.log.until(lambda: asked.served, kit.patience.seconds)
        hello = await kit.restart()
    _check_journaled(hello, order)
    return order, hello


async def _obey(kit: Kit, order: Order, hello: Exchange) -> None:
    """Check that the terminal obeys the verdict in the answer to its hello. Raises `Failed`."""
    verdict = verdict_on(hello, order)
    if verdict == "resume":
        await kit.paid(order)
        return
    await kit.unpaid(order, since=hello.number)
    if any(kit.log.find("authorizing", lease_id=order.lease_id, since=hello.number)):
        raise Failed(f"It asked for the permit after the verdict `{verdict}`.")


def _check_journaled(hello: Exchange, order: Order) -> dict[str, Any]:
    """Return the order's entry in the journal of the hello. Raises `Failed` if it is missing."""
    entry = entry_of(hello, order)
    if entry is None:
        raise Failed("The journal of its hello does not name the order that it had.")
    return dict(entry)
