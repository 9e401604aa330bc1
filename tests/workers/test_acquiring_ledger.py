"""The simulator's ledger against ours: the invariants find every disagreement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from acquirer_scene import Bank, new_key, new_payment, paid
from paydesk.invariants import check
from paydesk.payments.acquirer import Approved, Payment
from paydesk.storage.database import Database
from service import Service, running

REFUND_MINOR = 490


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service without workers."""
    async with running(database, workers=False) as service:
        yield service


@pytest.fixture
def bank(database: Database) -> Bank:
    """The acquirer of its test orders."""
    return Bank(database)


async def _run(service: Service, sql: str, *args: object) -> None:
    await service.database.write(lambda tx: tx.run(sql, *args))


async def _broken(service: Service) -> set[str]:
    return {finding.rule for finding in await check.check(service.database)}


async def _refunded(service: Service, bank: Bank, status: str = "processed") -> Payment:
    """A payment with a refunded part in the simulator's ledger, and in ours with `status`."""
    payment = await paid(service, bank)
    key = new_key()
    assert isinstance(await bank.simulator.refund(payment, key=key, amount_minor=REFUND_MINOR), Approved)
    order_id = f"ORD{payment.payment_id[3:]}"
    await _run(
        service,
        "INSERT INTO refunds (seller_id, refund_id, order_id, amount, amount_minor, status, created_ms)"
        " VALUES ($1, $2, $3, '4.90', $4, $5, 1)",
        payment.merchant_id,
        key,
        order_id,
        REFUND_MINOR,
        status,
    )
    if status == "processed":
        sql = "UPDATE orders SET refunded_minor = $3 WHERE seller_id = $1 AND order_id = $2"
        await _run(service, sql, payment.merchant_id, order_id, REFUND_MINOR)
    return payment


BOOK = {"approval_against_order", "payment_against_book", "refund_against_book", "refund_without_movement"}


@pytest.mark.parametrize("status", ["processed", "processing"])
async def test_ledgers_that_agree(service: Service, bank: Bank, status: str) -> None:
    """Payments, refunds, declines, blocked payments, and one not reported yet: no violation."""
    await _refunded(service, bank, status)
    await paid(service, bank, reported=False)
    await bank.simulator.reverse(new_payment(merchant_id=service.seller_id), key=new_key("REV"), amount_minor=1)
    assert not (await _broken(service)) & {*BOOK, "book_against_itself"}


BREAKS = {
    "another amount in the book": (
        "UPDATE simulator_payments SET amount_minor = 2491 WHERE seller_id > 0",
        "approval_against_order",
    ),
    "an approval without order": (
        "UPDATE simulator_payments SET payment_id = 'PAY1' WHERE seller_id > 0",
        "approval_against_order",
    ),
    "declined by the book": (
        "UPDATE simulator_payments SET outcome = 'declined' WHERE seller_id > 0",
        "payment_against_book",
    ),
    "reversed by the book": (
        "UPDATE simulator_payments SET reversed_ms = 1 WHERE seller_id > 0",
        "payment_against_book",
    ),
    "a refund that failed for us": ("UPDATE refunds SET status = 'failed' WHERE seller_id > 0", "refund_against_book"),
    "a refund of another amount": ("UPDATE refunds SET amount_minor = 1 WHERE seller_id > 0", "refund_against_book"),
    "a refund that we lost": ("DELETE FROM refunds WHERE seller_id > 0", "refund_against_book"),
    "a refund that the book lacks": (
        "DELETE FROM simulator_movements WHERE seller_id > 0",
        "refund_without_movement",
    ),
    "a refund that the book declined": (
        "UPDATE simulator_movements SET outcome = 'declined' WHERE seller_id > 0",
        "refund_without_movement",
    ),
    "a book that was changed by hand": (
        "UPDATE simulator_payments SET refunded_minor = 1 WHERE seller_id > 0",
        "book_against_itself",
    ),
}


@pytest.mark.parametrize(("sql", "rule"), BREAKS.values(), ids=BREAKS)
async def test_a_disagreement_is_found(service: Service, bank: Bank, sql: str, rule: str) -> None:
    """By its rule."""
    await _refunded(service, bank)
    await _run(service, sql)
    assert rule in await _broken(service)


Way = Callable[[Service, Bank, Payment], Awaitable[object]]


async def _nothing(service: Service, bank: Bank, payment: Payment) -> None:
    del service, bank, payment


async def _inquire(service: Service, bank: Bank, payment: Payment) -> None:
    del bank
    await _run(
        service,
        "INSERT INTO inquiries (seller_id, order_id, live, reason, attempts, next_ms, created_ms)"
        " VALUES ($1, $2, 0, 'unknown', 0, 0, 1)",
        payment.merchant_id,
        f"ORD{payment.payment_id[3:]}",
    )


async def _begin_to_reverse(service: Service, bank: Bank, payment: Payment) -> None:
    del bank
    await _run(
        service,
        "INSERT INTO reversals (seller_id, reversal_id, order_id, lease_id, result_id, live, amount_minor,"
        " reference_id, status, attempts, next_ms, created_ms)"
        " VALUES ($1, '1', $2, $3, '1', 0, 1, '1', 'pending', 0, 0, 1)",
        payment.merchant_id,
        f"ORD{payment.payment_id[3:]}",
        payment.payment_id[3:],
    )


async def _reverse(service: Service, bank: Bank, payment: Payment) -> None:
    del service
    await bank.simulator.reverse(payment, key=new_key("REV"), amount_minor=payment.amount_minor)


@pytest.mark.parametrize(
    ("way", "found"), [(_nothing, True), (_inquire, False), (_begin_to_reverse, False), (_reverse, False)]
)
async def test_an_approval_of_an_ended_order(service: Service, bank: Bank, way: Way, *, found: bool) -> None:
    """It is a violation unless an inquiry or a reversal is open, or it is reversed."""
    payment = await paid(service, bank, reported=False)
    await _run(
        service,
        "UPDATE orders SET status = 'failed', status_detail = 'failed', payment_status_detail = 'processing_error'"
        " WHERE seller_id = $1",
        service.seller_id,
    )
    await way(service, bank, payment)
    assert ("approval_against_order" in await _broken(service)) == found
