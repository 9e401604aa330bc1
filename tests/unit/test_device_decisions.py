"""Decisions on results: the table, and how an order and a report become its row and column."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from paydesk.engine.device.errors import ORDER_FINISHED, RESULT_CONFLICT
from paydesk.engine.device.rules.decisions import (
    CLAIMING,
    TABLE,
    Decision,
    Reported,
    Situation,
    error_of,
    reported_by_acquirer,
    reported_of,
    situation_of,
)
from paydesk.engine.device.rules.reports import Report
from paydesk.engine.orders import status
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status import State
from paydesk.engine.payments.acquirer import Approved, Declined, NotSent, Outcome, Unknown
from paydesk.engine.payments.terms import Requested, Terms
from tables import each

ORDER = Order(
    seller_id=1,
    order_id="ORD01J67CQQH5904WDBVZEM4JMEP3",
    application_id=1,
    live=0,
    terminal_id="T",
    status="at_terminal",
    status_detail="at_terminal",
    payment_status_detail="at_terminal",
    version=2,
    currency="BRL",
    country="BRA",
    amount="24.90",
    amount_minor=2490,
    external_reference=None,
    description=None,
    expiration_time="PT15M",
    config="{}",
    integration_data="{}",
    created_ms=1,
    updated_ms=1,
    expires_ms=900_000,
    payer_email=None,
    taxes=None,
    acquirer=None,
)
APPROVED = {"outcome": "approved", "paid_amount": "24.90", "payment_method": {"id": "pix", "type": "bank_transfer"}}
BY_CARD = {**APPROVED, "payment_method": {"id": "visa", "type": "credit_card"}}
REQUESTED = Requested(b"", 1, 0, "{}", "{}")
CARD = {"first_digits": "503175", "last_digits": "6351"}


def order(state: State = status.AT_TERMINAL, **columns: object) -> Order:
    """Return an order in a state."""
    of_state = {"status": state.status, "status_detail": state.detail, "payment_status_detail": state.payment_detail}
    return msgspec.structs.replace(ORDER, **of_state, **columns)


def test_the_table_is_complete() -> None:
    """Every pair has a decision, but for the payment of an order that has none; every decision occurs."""
    every = {(reported, situation) for reported in get_args(Reported) for situation in get_args(Situation)}
    without = {("payment", situation) for situation in get_args(Situation) if situation != "paid"}
    assert set(TABLE) == every - without
    assert set(TABLE.values()) == set(get_args(Decision))


def test_no_approval_is_lost() -> None:
    """It ends the order, is confirmed, reversed or inquired; only the order's own payment changes nothing."""
    for reported in ("approved", "other_payment"):
        decisions = {decision for (of, _), decision in TABLE.items() if of == reported}
        assert decisions <= {"end", "confirm", "late_approval", "conflict"}


def test_an_order_ends_only_where_its_move_is_legal() -> None:
    """The table ends an order where the moves of the lifecycle allow it."""
    situations = {
        "open": order(),
        "canceling": order(status.CANCELLATION_REQUESTED),
        "permitted": order(permitted_ms=1),
        "unknown": order(status.CHECK_ON_TERMINAL, permitted_ms=1),
        "unpermitted": order(status.CHECK_ON_TERMINAL),
        "reversing": order(status.CHECK_ON_TERMINAL, permitted_ms=1),
    }
    moves = {"approved": status.APPROVE, "declined": status.DECLINE, "canceled": status.CANCEL_ON_TERMINAL}
    for (reported, situation), decision in TABLE.items():
        if decision != "end":
            continue
        current, move = situations[situation], moves[reported]
        assert current.state in move.sources, (reported, situation)
        assert not (move.before_authorization and current.permitted_ms is not None), (reported, situation)


@each(
    "current, situation",
    [
        (order(), "open"),
        (order(permitted_ms=1), "permitted"),
        (order(status.CANCELLATION_REQUESTED), "canceling"),
        (order(status.CHECK_ON_TERMINAL, permitted_ms=1), "unknown"),
        (order(status.CHECK_ON_TERMINAL), "unpermitted"),
        (order(detached_ms=1), "detached"),
        (order(status.CHECK_ON_TERMINAL, detached_ms=1), "detached"),
        (order(status.EXPIRED), "unpaid"),
        (order(status.FAILED["processing_error"]), "unpaid"),
        (order(status.PROCESSED, paid_ms=1), "paid"),
        (order(status.REFUNDED, paid_ms=1), "paid"),
    ],
)
def test_situation_of_an_order(current: Order, situation: Situation) -> None:
    """The situation follows from the row."""
    assert situation_of(current, is_being_reversed=False, contradicts=False) == situation


def test_an_inquiry_and_an_earlier_result_change_the_situation_of_live_orders_only() -> None:
    """A contradiction of a live order comes before all else; an ended order stays ended."""
    unknown = order(status.CHECK_ON_TERMINAL, permitted_ms=1)
    assert situation_of(unknown, is_being_reversed=True, contradicts=False) == "reversing"
    assert situation_of(unknown, is_being_reversed=True, contradicts=True) == "contradicted"
    assert situation_of(order(detached_ms=1), is_being_reversed=False, contradicts=True) == "contradicted"
    assert situation_of(order(status.EXPIRED), is_being_reversed=False, contradicts=True) == "unpaid"


@each(
    "report, reported",
    [
        ({"outcome": "declined", "status_detail": "high_risk"}, "declined"),
        ({"outcome": "canceled"}, "canceled"),
        ({"outcome": "unknown"}, "unknown"),
        (APPROVED, "approved"),
        ({**APPROVED, "tip_amount": "0.00"}, "approved"),
        ({**APPROVED, "tip_amount": "0.01"}, "other_payment"),
        ({**APPROVED, "paid_amount": "24.91"}, "other_payment"),
        ({**APPROVED, "paid_amount": "24.9"}, "approved"),
        (BY_CARD, "other_payment"),
        ({**BY_CARD, "card": CARD}, "approved"),
    ],
)
def test_what_a_report_says_of_an_unpaid_order(report: dict[str, object], reported: Reported) -> None:
    """An approval is one of the order only with its amount, without a tip, and with its card."""
    assert reported_of(order(), Report.model_validate(report), is_by_operator=False) == reported


@pytest.mark.parametrize(
    ("paid", "tip", "terms", "reported"),
    [
        ("27.39", "2.49", Terms(tip_percentages=(5, 10)), "approved"),
        ("24.90", "0", Terms(tip_percentages=(5, 10)), "approved"),
        ("27.40", "2.50", Terms(tip_percentages=(5, 10)), "other_payment"),
        ("27.39", "2.48", Terms(tip_percentages=(5, 10)), "other_payment"),
        ("24.90", "2.49", Terms(tip_percentages=(5, 10)), "other_payment"),
        ("24.91", "0.01", Terms(), "other_payment"),
        ("24.90", "0", Terms("service", (), REQUESTED), "other_payment"),
    ],
)
def test_what_an_approval_with_a_tip_says(paid: str, tip: str, terms: Terms, reported: Reported) -> None:
    """The tip is part of the paid amount and at most what was offered. What the service requested it decides itself."""
    report = Report.model_validate({**APPROVED, "paid_amount": paid, "tip_amount": tip})
    assert reported_of(order(), report, is_by_operator=False, terms=terms) == reported


@pytest.mark.parametrize(
    ("columns", "outcome", "reported"),
    [
        ({}, Approved("115", 2490), "approved"),
        ({}, Approved("115", 2491), "other_payment"),
        ({}, Declined("high_risk"), "declined"),
        ({}, Unknown("no answer"), "unknown"),
        ({}, NotSent("the line is down"), "unknown"),
        ({"paid_ms": 1, "reference_id": "115"}, Approved("115", 2490), "payment"),
        ({"paid_ms": 1, "reference_id": None}, Approved("115", 2490), "payment"),
        ({"paid_ms": 1, "reference_id": "116"}, Approved("115", 2490), "approved"),
    ],
)
def test_what_the_acquirers_answer_says(columns: dict[str, object], outcome: Outcome, reported: Reported) -> None:
    """The acquirer's answer to the service's own request, by the amount that was requested."""
    assert reported_by_acquirer(order(**columns), outcome, 2490) == reported  # type: ignore[arg-type]  # columns


@pytest.mark.parametrize(
    ("amount_minor", "percentages", "largest"), [(2490, (5, 10), 249), (2491, (10,), 250), (1, (1,), 1), (2490, (), 0)]
)
def test_the_largest_tip_is_rounded_up(amount_minor: int, percentages: tuple[int, ...], largest: int) -> None:
    """To a minor unit."""
    assert Terms(tip_percentages=percentages).tip_minor_max(amount_minor) == largest


def test_what_an_approval_says_of_a_paid_order() -> None:
    """The payment that the order has is known by its reference, or is the first one after an operator's outcome."""
    paid = order(status.PROCESSED, paid_ms=1, reference_id="115")
    same = Report.model_validate({**APPROVED, "reference_id": "115"})
    other = Report.model_validate({**APPROVED, "reference_id": "116"})
    assert reported_of(paid, same, is_by_operator=False) == "payment"
    assert reported_of(paid, other, is_by_operator=False) == "approved"
    by_operator = order(status.PROCESSED, paid_ms=1)
    assert reported_of(by_operator, other, is_by_operator=True) == "payment"
    assert reported_of(by_operator, other, is_by_operator=False) == "approved"
    assert reported_of(paid, None, is_by_operator=False) == "unreadable"


def test_the_error_tells_an_ended_order_from_a_contradiction() -> None:
    """Only a readable first result of an ended order gets `order_finished`."""
    assert error_of("declined", "unpaid", contradicts=False) is ORDER_FINISHED
    assert error_of("approved", "paid", contradicts=False) is ORDER_FINISHED
    assert error_of("approved", "paid", contradicts=True) is RESULT_CONFLICT
    assert error_of("unreadable", "unpaid", contradicts=False) is RESULT_CONFLICT
    assert error_of("approved", "detached", contradicts=False) is RESULT_CONFLICT


def test_a_reference_is_claimed_where_an_approval_may_end_the_order() -> None:
    """Where the table ends an order as approved, its reference is claimed first."""
    assert {situation for (of, situation), decision in TABLE.items() if (of, decision) == ("approved", "end")} <= set(
        CLAIMING
    )
