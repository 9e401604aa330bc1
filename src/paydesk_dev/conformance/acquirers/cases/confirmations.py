"""Cases of the third message: an approval that is confirmed, or undone by the terminal, by silence, or too late."""

from __future__ import annotations

from paydesk_dev.conformance.acquirers.cases.unknowns import check_same
from paydesk_dev.conformance.acquirers.kit import UNKNOWN_AFTER_SECONDS, Kit
from paydesk_dev.conformance.case import Failed, documented

CONFLICT = 409
BEHIND_SECONDS = 60


@documented
async def confirm_once(kit: Kit) -> None:
    """Confirms an approval once: a confirmation whose answer was lost is repeated under the same key.

    Use the key that the engine hands in, and have the host keep one confirmation a payment.
    """
    kit.need("needs_confirmation")
    with kit.wire.on("cut", "confirm", times=1):
        order = await kit.approved()
        await kit.report_approved(order)
        await kit.settle(order)
    check_same(kit, "confirm", order, f"CNF{order.lease_id}")
    await kit.expect(order, "processed")


@documented
async def undo_by_decline(kit: Kit) -> None:
    """Takes a provisional approval back that the card declines at the end.

    Check that `reverse` releases a provisional approval by its reference.
    """
    kit.need("needs_confirmation")
    order = await kit.approved()
    await kit.report(order, outcome="declined", status_detail="rejected_by_issuer")
    await kit.expect(order, "failed")


@documented
async def undo_by_silence(kit: Kit) -> None:
    """Takes a provisional approval back on which the terminal does not report within 40 s; a later result is refused.

    Check that `reverse` releases a provisional approval, and that what is reversed stays reversed.
    """
    kit.need("needs_confirmation")
    order = await kit.approved()
    await kit.advance(UNKNOWN_AFTER_SECONDS)
    await kit.settle(order)
    reply = await kit.report_approved(order)
    if reply.status != CONFLICT:
        raise Failed(f"The late result was answered by {reply.status}, not {CONFLICT}.")
    await kit.settle(order)
    await kit.expect(order, "failed")


@documented
async def confirmed_after_silence(kit: Kit) -> None:
    """Confirms at the next attempt what could not be confirmed at the first ones, also after the deadline has passed.

    Return `Unknown` or `NotSent` while the host does not answer, and `TooLate` only if it says so itself: the goods are
    handed over. Only Paydesk's clock is moved behind the deadline, so the host still confirms.
    """
    kit.need("needs_confirmation")
    kit.need("can_inquire")
    order = await kit.approved()
    deadline_ms = kit.capabilities.confirm_until_ms(await kit.now_ms())
    with kit.wire.on("reset", "confirm"):
        await kit.report_approved(order)
        await kit.until_idle()
        wait_ms = 0 if deadline_ms is None else deadline_ms - await kit.now_ms()
        await kit.advance(wait_ms / 1000 + BEHIND_SECONDS)
    await kit.settle(order)
    await kit.expect(order, "processed")
