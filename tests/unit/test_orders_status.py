"""The table of moves, and the database's constraint on states."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import product

import apsw
import asyncpg
import pytest

import bare_order
from paydesk.engine.orders import status
from paydesk.engine.orders.status import FINAL, MOVES, STATES, State
from paydesk.platform.storage.database import Database

LEGAL = {
    ("created", "at_terminal"),
    ("created", "canceled"),
    ("at_terminal", "at_terminal"),
    ("at_terminal", "processed"),
    ("at_terminal", "failed"),
    ("at_terminal", "canceled"),
    ("processed", "processed"),
    ("processed", "refunded"),
}


def test_moves_join_exactly_the_pairs_of_statuses_of_the_interface() -> None:
    """No move joins another pair, and every pair has a move."""
    joined = {(source, target) for source, target in product(STATES, STATES) if status.legal(source, target)}
    assert {(source.status, target.status) for source, target in joined} == LEGAL


def test_no_move_leaves_a_final_status() -> None:
    """`failed`, `canceled` and `refunded` are the end."""
    assert not [(move.name, source) for move in MOVES for source in move.sources if source.status in FINAL]


def test_an_unknown_outcome_ends_as_processed_or_failed() -> None:
    """An order in check_on_terminal is never canceled or expired."""
    ends = {move.name for move in MOVES if status.CHECK_ON_TERMINAL in move.sources}
    assert ends == {"approve", "decline"}


def test_an_order_at_its_terminal_is_canceled_or_expired_only_before_authorization() -> None:
    """After authorization is permitted, a cancel request and the expiry have no effect."""
    for move in MOVES:
        cancels = any(target.status == "canceled" for target in move.targets)
        if cancels and any(source.status == "at_terminal" for source in move.sources):
            assert move.before_authorization, move.name
            assert "permitted_ms IS NULL" in move.guard


@pytest.mark.on_postgres
async def test_the_database_accepts_exactly_the_states_of_the_table(database: Database) -> None:
    """Its constraint rejects every other combination of status, detail and payment detail."""
    statuses, details, payment_details = map(sorted, map(set, zip(*(_parts(state) for state in STATES), strict=True)))
    accepted = set()
    for number, parts in enumerate(product(statuses, details, payment_details)):
        with suppress(apsw.ConstraintError, asyncpg.CheckViolationError):
            await database.write(partial(bare_order.insert, order_id=f"ORD{number}", state=parts))
            accepted.add(parts)
    assert accepted == {_parts(state) for state in STATES}


def _parts(state: State) -> tuple[str, str, str]:
    return state.status, state.detail, state.payment_detail


def test_states_differ_in_status_or_payment_detail() -> None:
    """The guards compare only these two columns."""
    assert len({(state.status, state.payment_detail) for state in STATES}) == len(STATES)
