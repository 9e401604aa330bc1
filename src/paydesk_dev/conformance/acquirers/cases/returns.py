"""Cases of refunds and reversals."""

from __future__ import annotations

from dataclasses import replace

from paydesk.core import ids, runtime
from paydesk.engine.payments.acquirer import Approved, Declined, NotFound
from paydesk.engine.payments.jobs import describe
from paydesk_dev.conformance.acquirers.kit import AMOUNT_MINOR, Kit, must_be
from paydesk_dev.conformance.case import Failed, documented
from paydesk_dev.conformance.shop import Order

CREATED = 201
PART_MINOR = 400


@documented
async def refund_whole(kit: Kit) -> None:
    """Refunds a payment as a whole.

    Check that `refund` names the payment as the host knows it, by its id or reference, and the amount of the refund.
    """
    order = await kit.sale()
    await _refund(kit, order)
    await kit.expect(order, "refunded")


@documented
async def refund_in_parts(kit: Kit) -> None:
    """Refunds a payment in two parts, each under its own key.

    Check that the host keeps one refund a key, not one a payment. If it refunds only whole payments, declare
    `partial_refunds = false`.
    """
    kit.need("partial_refunds")
    order = await kit.sale()
    for minor in (PART_MINOR, AMOUNT_MINOR - PART_MINOR):
        await _refund(kit, order, minor)
    await kit.expect(order, "refunded")


@documented
async def refund_of_too_much(kit: Kit) -> None:
    """Declines a refund of more than was paid.

    Check that the host compares a refund with the payment and its earlier refunds.
    """
    order = await kit.sale()
    approved = must_be(kit.answers("authorize", order)[-1], Approved, "The sale")
    payment = replace(kit.payment(), payment_id=order.payment_id)
    answer = await kit.adapter.refund(
        payment, key=_refund_key(), amount_minor=AMOUNT_MINOR + 1, reference_id=approved.reference_id
    )
    if not isinstance(answer, Declined):
        raise Failed(f"A refund of {AMOUNT_MINOR + 1} of {AMOUNT_MINOR} in minor units is {describe(answer)}.")


@documented
async def refund_right_after_the_sale(kit: Kit) -> None:
    """Refunds a payment that was only just reported as paid.

    A refund waits for the payment's confirmation. If the host declines refunds of its own day, reverse there instead.
    """
    order = await kit.approved()
    if kit.capabilities.needs_confirmation:
        await kit.report_approved(order)
    await _refund(kit, order)
    await kit.expect(order, "refunded")


@documented
async def reverse_twice(kit: Kit) -> None:
    """Approves the second reversal of a payment too, and reverses it once.

    Answer `Approved` for a payment that is reversed already: the engine repeats a reversal until it is.
    """
    payment = kit.payment()
    approved = await kit.charged(payment)
    await kit.reversed(payment, approved, "The first reversal")
    await kit.reversed(payment, approved, "The second reversal")


@documented
async def reverse_before_authorize(kit: Kit) -> None:
    """Reverses a payment that it does not have as `reversal_blocks` declares.

    With `reversal_blocks` the reversal is approved and the payment declined when it arrives. Without, the reversal is
    `NotFound`, and one after the payment reverses it.
    """
    payment = kit.payment()
    first = await kit.reverse(payment)
    if kit.capabilities.reversal_blocks:
        must_be(first, Approved, "The reversal of a payment that has not arrived")
        must_be(await kit.charge(payment), Declined, "A payment that arrives after its reversal")
        return
    must_be(first, NotFound, "The reversal of a payment that has not arrived")
    answer = await kit.charge(payment)
    if isinstance(answer, Approved):
        await kit.reversed(payment, answer, "The reversal after the payment")


async def _refund(kit: Kit, order: Order, minor: int | None = None) -> None:
    """Refund the order, whole or in part, and wait for the outcome. Raises `Failed` if that is refused."""
    reply = await kit.refund(order, minor)
    if reply.status != CREATED:
        raise Failed(f"The refund was answered by {reply.status}, not {CREATED}: {reply.body}.")
    await kit.settle(order)


def _refund_key() -> str:
    return f"REF{ids.ulid(runtime.wall_ns() // 1_000_000)}"
