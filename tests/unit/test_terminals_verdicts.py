"""Verdicts on journal entries: the decision table."""

from __future__ import annotations

from typing import get_args

import pytest

from paydesk.core.response import schema_of
from paydesk.engine.device.rules.verdicts import AFTER_PERMIT, TABLE, OrderState, Progress, judge, progress_of
from paydesk.engine.device.schemas import ProgressRequest
from paydesk.engine.orders.presentation import PaymentDocument
from paydesk.engine.orders.status import FAILED_DETAILS, ORIGINS
from tables import each

STEPS = get_args(ProgressRequest.model_fields["step"].annotation)


def test_table_is_complete() -> None:
    """Every pair of progress and order state has a verdict."""
    assert set(TABLE) == {(progress, state) for progress in get_args(Progress) for state in get_args(OrderState)}


@each("state", get_args(OrderState))
@each("step", ["", "offered", "acknowledged", *STEPS])
def test_a_journaled_result_is_always_reported(step: str, state: OrderState) -> None:
    """The verdict is `report` for every step and order state."""
    assert judge(step, state, has_result=True) == ("report", "none")


@each(
    "step, state, verdict",
    [
        ("offered", "created", "forget"),
        ("offered", "ended", "forget"),
        ("offered", "open", "resume"),
        ("acknowledged", "open", "resume"),
        ("pin_entered", "open", "resume"),
        ("acknowledged", "overdue", "abort"),
        ("card_requested", "canceling", "abort"),
        ("authorizing", "open", "abort"),
        ("authorizing", "permitted", "hold"),
        ("acknowledged", "permitted", "hold"),
        ("authorizing", "unknown", "hold"),
        ("authorizing", "ended", "forget"),
    ],
)
def test_verdict_of_step_and_order_state(step: str, state: OrderState, verdict: str) -> None:
    """The verdicts match the documented protocol."""
    assert judge(step, state, has_result=False)[0] == verdict


@pytest.mark.parametrize("progress", get_args(Progress))
def test_a_possibly_charged_order_is_never_resumed(progress: Progress) -> None:
    """Once authorization is permitted the verdict is `hold`, unless the acquirer was certainly not called."""
    verdicts = [TABLE[progress, state][0] for state in AFTER_PERMIT]
    assert verdicts == (["resume", "abort", "abort"] if progress == "unsent" else ["hold"] * 3)


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        ("created", ("forget", "none")),
        ("open", ("resume", "re_lease")),
        ("canceling", ("abort", "cancel")),
        ("overdue", ("abort", "cancel")),
        ("permitted", ("resume", "re_lease")),
        ("lapsed", ("abort", "fail")),
        ("unknown", ("abort", "fail")),
        ("ended", ("forget", "none")),
    ],
)
def test_verdict_if_the_acquirer_was_certainly_not_called(state: OrderState, verdict: tuple[str, str]) -> None:
    """The order goes on or ends at once: there is nothing to inquire about."""
    assert judge("authorizing", state, has_result=False, sent=False) == verdict


@each("state", AFTER_PERMIT)
@each("step", ["", "offered", "acknowledged", "authorizing"])
def test_after_the_permit_the_last_step_does_not_matter(step: str, state: OrderState) -> None:
    """A terminal may be killed before it journals the permit."""
    assert judge(step, state, has_result=False, sent=False) == TABLE["unsent", state]


@each("state", get_args(OrderState))
@each("step", ["", "offered", "acknowledged", "authorizing"])
def test_what_was_sent_may_be_charged_whatever_the_last_step(step: str, state: OrderState) -> None:
    """It is never resumed."""
    assert judge(step, state, has_result=False, sent=True) == TABLE["authorizing", state]


def test_an_acknowledged_order_is_resumed() -> None:
    """Before the terminal requests the permit nothing is sent in any case."""
    assert judge("acknowledged", "open", has_result=False, sent=False) == ("resume", "re_lease")


def test_steps_after_authorizing_count_as_authorizing() -> None:
    """`card_removal` and `printing` follow the authorization at the acquirer."""
    assert {step for step in STEPS if progress_of(step, "open") == "authorizing"} == {
        "authorizing",
        "card_removal",
        "printing",
    }


def test_every_failed_detail_has_an_origin() -> None:
    """Every failed detail maps to an origin of the response schema."""
    assert {ORIGINS[detail] for detail in FAILED_DETAILS} <= set(
        schema_of(PaymentDocument)["properties"]["origin"]["enum"]
    )
