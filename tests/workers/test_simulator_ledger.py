"""`doctor --invariants` finds every difference between the simulator ledger and the orders."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from acquirer_scene import Bank, new_key, new_payment, paid
from paydesk.engine.invariants import check
from paydesk.engine.payments.acquirer import Approved, Payment
from paydesk.platform.storage.database import Database
from service import Service, running

REFUND_MINOR = 490


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service without workers."""
    async with running(database, workers=False) as service:
        yield service


@pytest.fixture
def bank(database: Database) -> Bank:
    """The acquirer of the service's test orders."""
    return Bank(database)


async def _run(service: Service, sql: str, *args: object) -> None:
    await service.database.write(lambda tx: tx.run(sql, *args))


async def _violated(service: Service) -> set[str]:
    return {finding.rule for finding in await check.check(service.database)}


async def _refunded(service: Service, bank: Bank, status: str = "processed") -> Payment:
    """Create a payment with a partial refund in the ledger; our refund has this status."""
    payment = await paid(service, bank)
    key = new_key()
    assert isinstance(await bank.simulator.refund(payment, key=key, amount_minor=REFUND_MINOR), Approved)
    order_id = f"ORD{payment.payment_id[3:]}"
    await _run(
        service,
        "INSERT INTO refunds (seller_id, refund_id, order_id, amount, amount_minor, status, created_ms, application_id,"
        " live, idempotency_key, attempts, next_ms, unsent, claimed_until_ms)"
        " VALUES ($1, $2, $3, '4.90', $4, $5, 1, 1, 0, '', 0, 0, 0, 0)",
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


RULES = {
    "simulator_approval_mismatch",
    "simulator_payment_mismatch",
    "simulator_refund_mismatch",
    "simulator_refund_missing",
    "simulator_confirmation_mismatch",
}


@pytest.mark.on_postgres
@pytest.mark.parametrize("status", ["processed", "processing"])
async def test_no_violation_if_both_agree(service: Service, bank: Bank, status: str) -> None:
    """Payments, refunds, a payment that is not reported yet, and blocked payments."""
    await _refunded(service, bank, status)
    await paid(service, bank, reported=False)
    await bank.simulator.reverse(new_payment(merchant_id=service.seller_id), key=new_key("REV"), amount_minor=1)
    assert not (await _violated(service)) & {*RULES, "simulator_ledger_inconsistent"}


DIFFERENCES = {
    "another amount in the ledger": (
        "UPDATE simulator_payments SET amount_minor = 2491 WHERE seller_id > 0",
        "simulator_approval_mismatch",
    ),
    "an approval without an order": (
        "UPDATE simulator_payments SET payment_id = 'PAY1' WHERE seller_id > 0",
        "simulator_approval_mismatch",
    ),
    "declined in the ledger": (
        "UPDATE simulator_payments SET outcome = 'declined' WHERE seller_id > 0",
        "simulator_payment_mismatch",
    ),
    "reversed in the ledger": (
        "UPDATE simulator_payments SET reversed_ms = 1 WHERE seller_id > 0",
        "simulator_payment_mismatch",
    ),
    "a refund with the status failed": (
        "UPDATE refunds SET status = 'failed' WHERE seller_id > 0",
        "simulator_refund_mismatch",
    ),
    "a refund with another amount": (
        "UPDATE refunds SET amount_minor = 1 WHERE seller_id > 0",
        "simulator_refund_mismatch",
    ),
    "a refund without a row": ("DELETE FROM refunds WHERE seller_id > 0", "simulator_refund_mismatch"),
    "a refund without a movement": (
        "DELETE FROM simulator_movements WHERE seller_id > 0",
        "simulator_refund_missing",
    ),
    "a refund that the acquirer declined": (
        "UPDATE simulator_movements SET outcome = 'declined' WHERE seller_id > 0",
        "simulator_refund_missing",
    ),
    "a ledger with another sum": (
        "UPDATE simulator_payments SET refunded_minor = 1 WHERE seller_id > 0",
        "simulator_ledger_inconsistent",
    ),
}


@pytest.mark.parametrize(("sql", "rule"), DIFFERENCES.values(), ids=DIFFERENCES)
async def test_each_difference_violates_its_rule(service: Service, bank: Bank, sql: str, rule: str) -> None:
    """One change to either side."""
    await _refunded(service, bank)
    await _run(service, sql)
    assert rule in await _violated(service)


FAIL_ORDERS = """
UPDATE orders SET status = 'failed', status_detail = 'failed', payment_status_detail = 'processing_error'
 WHERE seller_id > 0"""

Step = Callable[[Service, Bank, Payment], Awaitable[object]]


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
    ("step", "is_violated"), [(_nothing, True), (_inquire, False), (_begin_to_reverse, False), (_reverse, False)]
)
async def test_approval_of_a_failed_order_needs_an_inquiry_or_reversal(
    service: Service, bank: Bank, step: Step, *, is_violated: bool
) -> None:
    """It is a violation unless an inquiry or reversal is open, or the payment is reversed."""
    payment = await paid(service, bank, reported=False)
    await _run(service, FAIL_ORDERS)
    await step(service, bank, payment)
    assert ("simulator_approval_mismatch" in await _violated(service)) == is_violated


def _unanswered(at_deadline: str) -> str:
    return f"UPDATE simulator_payments SET at_deadline = '{at_deadline}', confirm_until_ms = 1 WHERE seller_id > 0"


CONFIRMED = "UPDATE simulator_payments SET at_deadline = 'blocks', confirmed_ms = 1 WHERE seller_id > 0"
CONFIRMATIONS = [
    ("confirmed", CONFIRMED, False),
    ("confirming", CONFIRMED, False),
    ("provisional", CONFIRMED, True),
    ("undone", CONFIRMED, True),
    ("confirming", _unanswered("blocks"), False),
    ("confirmed", _unanswered("blocks"), True),
    ("confirmed", _unanswered("undoes"), True),
    ("confirmed", _unanswered("confirms"), False),
]


@pytest.mark.parametrize(("status", "sql", "is_violated"), CONFIRMATIONS)
async def test_confirmation_agrees_with_the_ledger(
    service: Service, bank: Bank, status: str, sql: str, *, is_violated: bool
) -> None:
    """What is confirmed on one side is so on the other, or is being confirmed, or was confirmed by the acquirer."""
    await _confirmation(service, await paid(service, bank), status)
    await _run(service, sql)
    assert ("simulator_confirmation_mismatch" in await _violated(service)) == is_violated


async def test_refused_confirmation_explains_a_payment_that_is_reversed(service: Service, bank: Bank) -> None:
    """The order stays processed: a person looks."""
    payment = await paid(service, bank)
    await _reverse(service, bank, payment)
    assert "simulator_payment_mismatch" in await _violated(service)
    await _confirmation(service, payment, "refused")
    assert "simulator_payment_mismatch" not in await _violated(service)


async def test_approval_that_the_acquirer_undoes_need_not_be_reversed(service: Service, bank: Bank) -> None:
    """Unless it is confirmed: an inquiry finds it declined, and the order fails."""
    await paid(service, bank, reported=False)
    await _run(service, FAIL_ORDERS)
    await _run(service, _unanswered("undoes"))
    assert "simulator_approval_mismatch" not in await _violated(service)
    await _run(service, "UPDATE simulator_payments SET confirmed_ms = 0 WHERE seller_id > 0")
    assert "simulator_approval_mismatch" in await _violated(service)


async def _confirmation(service: Service, payment: Payment, status: str) -> None:
    await _run(
        service,
        "INSERT INTO confirmations (seller_id, order_id, live, status, amount_minor, currency, reference_id,"
        " approved_ms, decide_by_ms, next_ms, created_ms) VALUES ($1, $2, 0, $3, 2490, 'BRL', '1', 1, 1, 1, 1)",
        payment.merchant_id,
        payment.order_id,
        status,
    )
