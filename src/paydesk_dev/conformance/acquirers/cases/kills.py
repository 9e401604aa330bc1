"""Cases of an engine that is killed: once at each crash point, while a payment is made, refunded or taken back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from paydesk.core.crash_points import LABELS, STEP_LABELS, Label
from paydesk_dev.conformance.acquirers.kit import Kit
from paydesk_dev.conformance.acquirers.victim import Victim
from paydesk_dev.conformance.case import Case, NotShown
from paydesk_dev.conformance.shop import Order

MUST = "Keeps ledger and orders equal when the engine is killed at `{}` and started again."
REPAIR = (
    "Check that a repeated request has one effect, also from another process: its key must be stored with the effect,"
    " at the host, never in the adapter's memory."
)


def _case(label: Label) -> Case[Kit]:
    async def play(kit: Kit) -> None:
        if label == "inquired":
            kit.need("can_inquire")
        victim, own = await kit.victim()
        killed = False
        for scenario in (_refunded, *((_unknown, _refund_of_the_job) if label in STEP_LABELS else ())):
            await own.perform(partial(scenario, victim, label))
            killed |= await victim.end()
        if not killed:
            raise NotShown(f"No payment came to `{label}`.")

    return Case(f"killed_at_{label}", 0, MUST.format(label), play, REPAIR)


CASES: Mapping[str, Case[Kit]] = {one.name: one for one in map(_case, (*LABELS, *STEP_LABELS))}


async def _refunded(victim: Victim, label: Label, kit: Kit) -> None:
    """Kill it while an order is paid and refunded."""
    await victim.arm(label)
    await kit.refund(await _paid(kit))
    await kit.settle(kit.orders[-1])


async def _unknown(victim: Victim, label: Label, kit: Kit) -> None:
    """Kill it while it asks for the outcome of a payment whose terminal is silent since an earlier kill."""
    order = await kit.begin()
    await victim.die_in("asked" if kit.capabilities.needs_confirmation else "intent_committed", kit.authorize(order))
    await victim.arm(label)
    await kit.settle(order)


async def _refund_of_the_job(victim: Victim, label: Label, kit: Kit) -> None:
    """Kill it while a job makes a refund whose request was killed."""
    order = await _paid(kit)
    await victim.die_in("intent_committed", kit.refund(order))
    await victim.arm(label)
    await kit.settle(order)


async def _paid(kit: Kit) -> Order:
    order = await kit.begin()
    if (await kit.authorize(order)).get("result_required"):
        await kit.report_approved(order)
    await kit.settle(order)
    return order
