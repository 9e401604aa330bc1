"""The table of verdicts."""

from __future__ import annotations

from typing import get_args

import pytest

from paydesk.device.schemas import ProgressRequest
from paydesk.device.verdicts import TABLE, Progress, Standing, judge, progress_of
from paydesk.orders.response_schemas import PAYMENT
from paydesk.orders.status import FAILED_DETAILS, ORIGINS

STEPS = get_args(ProgressRequest.model_fields["step"].annotation)


def test_the_table_has_a_verdict_for_everything() -> None:
    """No pair of progress and standing is left open."""
    assert set(TABLE) == {(progress, standing) for progress in get_args(Progress) for standing in get_args(Standing)}


@pytest.mark.parametrize("standing", get_args(Standing))
@pytest.mark.parametrize("step", ["", "offered", "acknowledged", *STEPS])
def test_a_result_is_always_reported(step: str, standing: Standing) -> None:
    """Whatever else is known, the result says more."""
    assert judge(step, standing, has_result=True) == ("report", "none")


@pytest.mark.parametrize(
    ("step", "standing", "verdict"),
    [
        ("offered", "created", "forget"),
        ("offered", "ended", "forget"),
        ("offered", "open", "resume"),
        ("acknowledged", "open", "resume"),
        ("pin_entered", "open", "resume"),
        ("acknowledged", "overdue", "abort"),
        ("card_requested", "canceling", "abort"),
        ("authorizing", "open", "abort"),
        ("authorizing", "granted", "hold"),
        ("acknowledged", "granted", "hold"),
        ("authorizing", "unknown", "hold"),
        ("authorizing", "ended", "forget"),
    ],
)
def test_the_verdicts(step: str, standing: Standing, verdict: str) -> None:
    """As the protocol has them."""
    assert judge(step, standing, has_result=False)[0] == verdict


@pytest.mark.parametrize("progress", get_args(Progress))
def test_what_may_have_been_charged_is_never_resumed(progress: Progress) -> None:
    """After the grant a terminal holds still."""
    assert {TABLE[progress, standing][0] for standing in ("granted", "unknown")} == {"hold"}


def test_steps_after_the_grant_count_as_authorizing() -> None:
    """Removing the card and printing come after asking the acquirer."""
    assert {step for step in STEPS if progress_of(step) == "authorizing"} == {
        "authorizing",
        "card_removal",
        "printing",
    }


def test_every_failed_detail_has_an_origin() -> None:
    """An order that fails says where it broke, in a word that the interface has."""
    assert {ORIGINS[detail] for detail in FAILED_DETAILS} <= set(PAYMENT["properties"]["origin"]["enum"])
