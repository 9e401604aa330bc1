"""Cases of lost requests and answers: what is not known is asked again, and never taken for a decline."""

from __future__ import annotations

import asyncio

from paydesk.engine.payments.acquirer import Approved, Declined, NotSent, Unknown
from paydesk_dev.conformance.acquirers.kit import FINAL, Kit, must_be
from paydesk_dev.conformance.acquirers.proxy import Fault
from paydesk_dev.conformance.case import Failed, documented
from paydesk_dev.conformance.shop import Order

ARRIVES: tuple[Fault, ...] = ("502", "404", "garbage", "half")


@documented
async def timeout_is_unknown(kit: Kit) -> None:
    """Says of a request without an answer in time that its outcome is unknown, within `answer_seconds`.

    Return `Unknown` after a timeout. The host may have charged the card; a decline would let the buyer leave charged.
    """
    await _must_be_unknown(kit, "late", "A request that was answered too late")


@documented
async def foreign_answer_is_unknown(kit: Kit) -> None:
    """Says of an answer that is not the host's (502, 404, noise, half a body) that the outcome is unknown.

    Believe only an answer that is complete and surely the host's, by its signature and type. Everything else, as a
    page of a proxy, is `Unknown`: the request may have arrived.
    """
    for fault in ARRIVES:
        await _must_be_unknown(kit, fault, f"An answer replaced by {fault}")


@documented
async def broken_connection_is_unknown(kit: Kit) -> None:
    """Says of a connection that breaks after the request that the outcome is unknown.

    Return `NotSent` only if no connection was made. Not even a reset says that the request did not arrive.
    """
    for fault in ("cut", "reset"):
        await _must_be_unknown(kit, fault, f"A request whose connection was {fault}")


@documented
async def refused_connection_is_not_sent(kit: Kit) -> None:
    """Says of a connection that is refused that nothing was sent, and pays as soon as it is accepted.

    Return `NotSent` where no connection was made, so that the buyer does not wait for an inquiry.
    """
    async with kit.wire.refusing():
        order = await kit.begin()
        authorizing = asyncio.create_task(kit.authorize(order))
        await kit.until_answered("authorize", order)
    await authorizing
    must_be(kit.answers("authorize", order)[0], NotSent, "A request without a connection")


@documented
async def delivered_twice(kit: Kit) -> None:
    """Charges a payment once whose request arrives twice.

    Check that the host stores the key in the transaction that charges, by a unique index.
    """
    kit.need_idempotent("authorize")
    with kit.wire.on("twice", "authorize", times=1):
        await kit.sale()


@documented
async def retry_has_the_same_key(kit: Kit) -> None:
    """Sends a payment and a refund whose answers were lost again under the same key, with the same body.

    Use the key that the engine hands in, as it is. A key made for each attempt charges twice.
    """
    kit.need_idempotent("authorize")
    with kit.wire.on("cut", "authorize", times=1):
        order = await kit.begin_sale()
    check_same(kit, "authorize", order, order.payment_id)
    await kit.settle(order)
    if "refund" in kit.capabilities.idempotent:
        order = await kit.sale()
        with kit.wire.on("cut", "refund", times=1):
            await kit.refund(order)
            await kit.settle(order)
        check_same(kit, "refund", order)
        await kit.expect(order, "refunded")


@documented
async def one_address(kit: Kit) -> None:
    """Has one address: while no request arrives there, no outcome is known.

    Never ask another host about a payment that the first one may have charged. Put two hosts behind one switch.
    """
    with kit.wire.on("reset", "authorize"):
        order = await kit.begin_sale()
    for answer in kit.answers("authorize", order):
        if isinstance(answer, Approved | Declined):
            raise Failed(f"It says {type(answer).__name__}, and no request arrived at its address.")


@documented
async def not_found_is_not_final(kit: Kit) -> None:
    """Says of a payment that the host does not have that it is not found, which ends nothing yet.

    Return `NotFound`, not `Declined`: the request may still be on its way. `is_final` is only for an id that the host
    has blocked.
    """
    order = await _held(kit)
    if any(isinstance(answer, Declined) for answer in kit.answers("inquire", order)):
        raise Failed("It says that a payment was declined that the host does not have.")
    await kit.wire.deliver()


@documented
async def late_answer_is_learned(kit: Kit) -> None:
    """Learns of a payment that arrives after the first inquiry: a later inquiry says that it is approved.

    Ask the host for each inquiry anew. An answer that is kept says for ever what was true once.
    """
    order = await _held(kit)
    await kit.wire.deliver()
    asked = len(kit.answers("inquire", order))
    await kit.next_attempt()
    if not any(isinstance(answer, Approved) for answer in kit.answers("inquire", order)[asked:]):
        raise Failed(f"A payment that the host has approved meanwhile is not learned of: {kit.said(order)}.")


@documented
async def arrives_after_the_end(kit: Kit) -> None:
    """Keeps nothing of a payment that arrives after it was reversed and its order has failed.

    With `reversal_blocks` the host declines what arrives after its reversal. Else check `not_found_final_seconds` and
    that a payment can be reversed: the engine inquires 10 min later once more.
    """
    order = await _held(kit)
    while await kit.status(order) not in FINAL:
        await kit.next_attempt()
    await kit.wire.deliver()
    await kit.settle(order)
    await kit.expect(order, "failed")


async def _must_be_unknown(kit: Kit, fault: Fault, what: str) -> None:
    with kit.wire.on(fault, "authorize", times=1):
        order = await kit.begin_sale()
        must_be(kit.answers("authorize", order)[0], Unknown, what)
    await kit.settle(order)


async def _held(kit: Kit) -> Order:
    """Return an order whose requests are on their way, and which the host does not find."""
    kit.need("can_inquire")
    with kit.wire.on("hold", "authorize"):
        order = await kit.begin_sale()
    await kit.until_answered("inquire", order)
    await kit.until_idle()
    await kit.expect(order, "at_terminal")
    return order


def check_same(kit: Kit, operation: str, order: Order, key: str = "") -> None:
    """Raise `Failed` unless the order's requests are repetitions: one key, one body."""
    requests = kit.wire.of(operation, order.payment_id)
    if len(requests) < 2:
        raise Failed("It sent no second request after the answer was lost.")
    keys = {one.key for one in requests}
    if len(keys) > 1 or (key and keys not in ({key}, {""})):
        raise Failed(f"Its requests have the keys {', '.join(sorted(keys))}{f', not {key}' if key else ''}.")
    if len({one.body for one in requests}) > 1:
        raise Failed("It repeated the request under the same key with another body.")
