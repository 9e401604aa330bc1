"""What a terminal's live order waits for, as one table: its state, its inquiry, and the settings."""

from __future__ import annotations

from typing import Any

import msgspec

from paydesk.engine.orders import status
from paydesk.engine.orders.presentation import EXAMPLE_ORDER
from paydesk.engine.orders.status import State
from paydesk.engine.payments.capabilities import NO_CAPABILITIES
from paydesk.engine.payments.inquiry_store import OpenInquiry
from paydesk.engine.payments.waiting import SENTENCES, Periods, Wait, wait_of
from tables import each

PERIODS = Periods(
    grant_seconds=60,
    cancel_silence_seconds=30,
    unknown_after_seconds=40,
    inquiry_not_found_seconds=120,
    resolve_after_seconds=180,
)
ASKING = OpenInquiry(created_ms=20_000, next_ms=60_000, reversing_ms=None, reason="no outcome in time")
REVERSING = OpenInquiry(created_ms=20_000, next_ms=60_000, reversing_ms=50_000, reason="no outcome in time")
PERMITTED = {"permitted_ms": 5_000}
CHECKED = {"permitted_ms": 5_000, "updated_ms": 45_000}


CASES: list[tuple[State, dict[str, Any], OpenInquiry | None, bool, Wait]] = [
    (status.CREATED, {}, None, True, Wait("acknowledgement", 900_000)),
    (status.AT_TERMINAL, {}, None, True, Wait("payment", 900_000)),
    (status.CANCELLATION_REQUESTED, {"cancel_requested_ms": 9_000}, None, True, Wait("cancel_answer", 39_000)),
    (
        status.CANCELLATION_REQUESTED,
        {"cancel_requested_ms": 890_000},
        None,
        True,
        Wait("cancel_answer", 900_000),
    ),
    (status.AT_TERMINAL, PERMITTED, None, True, Wait("result", 45_000)),
    (status.AT_TERMINAL, PERMITTED, None, True, Wait("decision", 45_000)),
    (status.AT_TERMINAL, {**PERMITTED, "cancel_requested_ms": 6_000}, None, True, Wait("result", 45_000)),
    (
        status.CHECK_ON_TERMINAL,
        CHECKED,
        ASKING,
        True,
        Wait("inquiry", None, 60_000, 125_000, 225_000, "no outcome in time"),
    ),
    (
        status.CHECK_ON_TERMINAL,
        {"updated_ms": 45_000},
        ASKING,
        True,
        Wait("inquiry", None, 60_000, 140_000, 225_000, "no outcome in time"),
    ),
    (
        status.CHECK_ON_TERMINAL,
        CHECKED,
        REVERSING,
        True,
        Wait("reversal", None, 60_000, None, 225_000, "no outcome in time"),
    ),
    (status.CHECK_ON_TERMINAL, CHECKED, ASKING, False, Wait("operator", resolvable_ms=225_000)),
    (status.CHECK_ON_TERMINAL, CHECKED, None, True, Wait("operator", resolvable_ms=225_000)),
]


@each("state, columns, inquiry, has_acquirer, wait", CASES)
def test_what_an_order_waits_for_follows_from_its_row_and_inquiry(
    state: State,
    columns: dict[str, Any],
    inquiry: OpenInquiry | None,
    has_acquirer: bool,  # noqa: FBT001
    wait: Wait,
) -> None:
    """With its sentence; an operator can release the terminal until authorization is permitted."""
    order = msgspec.structs.replace(
        EXAMPLE_ORDER,
        status=state.status,
        status_detail=state.detail,
        payment_status_detail=state.payment_detail,
        expires_ms=900_000,
        **{"permitted_ms": None, "cancel_requested_ms": None, "detached_ms": None, **columns},
    )
    capabilities = NO_CAPABILITIES if has_acquirer else None
    decide_by_ms = wait.until_ms if wait.waits_for == "decision" else None
    assert wait_of(order, inquiry, PERIODS, capabilities=capabilities, decide_by_ms=decide_by_ms) == wait
    assert "{" not in wait.sentence()
    assert wait.sentence().endswith(".")
    assert wait.can_release == (order.permitted_ms is None and state != status.CHECK_ON_TERMINAL)


def test_every_wait_has_a_case_above() -> None:
    """Each kind of wait has its sentence, and the table its row."""
    assert {case[4].waits_for for case in CASES} == set(SENTENCES)
