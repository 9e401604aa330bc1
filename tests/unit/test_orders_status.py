"""The table of moves, exhaustively: every state against every other, and the database's own idea of it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import product

import apsw
import asyncpg
import pytest

import bare_order
from paydesk.orders import status
from paydesk.orders.status import FINAL, MOVES, STATES, State
from paydesk.storage.database import Database

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


@pytest.mark.parametrize("source", STATES, ids=str)
@pytest.mark.parametrize("target", STATES, ids=str)
def test_a_move_between_two_states_is_legal_only_where_their_statuses_allow_it(source: State, target: State) -> None:
    """No pair of states is joined by a move whose statuses the contract does not join."""
    if status.legal(source, target):
        assert (source.status, target.status) in LEGAL


@pytest.mark.parametrize("pair", sorted(LEGAL), ids="→".join)
def test_every_legal_pair_of_statuses_is_reached_by_a_move(pair: tuple[str, str]) -> None:
    """What the contract allows can happen."""
    states = [(source, target) for source in STATES for target in STATES if (source.status, target.status) == pair]
    assert any(status.legal(source, target) for source, target in states)


@pytest.mark.parametrize("state", [state for state in STATES if state.status in FINAL], ids=str)
def test_nothing_leaves_a_final_status(state: State) -> None:
    """failed, canceled and refunded are the end."""
    assert not [move for move in MOVES if state in move.sources]


def test_an_unknown_outcome_ends_by_its_outcome_alone() -> None:
    """Out of check_on_terminal an order is processed or failed, never canceled or expired."""
    ends = {move.name for move in MOVES if status.CHECK_ON_TERMINAL in move.sources}
    assert ends == {"approve", "decline"}


def test_only_moves_before_the_grant_cancel_or_expire_an_order_at_its_terminal() -> None:
    """After the grant a cancel and the expiry can't win."""
    for move in MOVES:
        cancels = any(target.status == "canceled" for target in move.targets)
        if cancels and any(source.status == "at_terminal" for source in move.sources):
            assert move.before_authorization, move.name
            assert "permitted_ms IS NULL" in move.guard


async def test_the_database_takes_these_states_and_no_other(database: Database) -> None:
    """It refuses what the table of moves does not have, also what has each of its parts."""
    statuses, details, payment_details = map(sorted, map(set, zip(*(_parts(state) for state in STATES), strict=True)))
    taken = set()
    for number, parts in enumerate(product(statuses, details, payment_details)):
        with suppress(apsw.ConstraintError, asyncpg.CheckViolationError):
            await database.write(partial(bare_order.insert, order_id=f"ORD{number}", state=parts))
            taken.add(parts)
    assert taken == {_parts(state) for state in STATES}


def _parts(state: State) -> tuple[str, str, str]:
    return state.status, state.detail, state.payment_detail


def test_states_are_told_apart_by_status_and_payment_detail() -> None:
    """The guard looks at these two columns alone, so no two states may share them."""
    assert len({(state.status, state.payment_detail) for state in STATES}) == len(STATES)
