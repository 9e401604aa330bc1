"""The table of the moves of a family: no gap, no overlap, and no column that the database does not have."""

from __future__ import annotations

import itertools
import re
from importlib.resources import files

import pytest

from paydesk.oauth import lifecycle
from paydesk.oauth.lifecycle import COLUMNS, MOVES, STATES, Move

OF_A_FAMILY = {lifecycle.REVOKED_AT, lifecycle.EXPIRED_AT}


def combinations() -> list[frozenset[str]]:
    """Every way in which the columns may be filled; where no code was exchanged there is no family."""
    sets = [frozenset(some) for count in range(len(COLUMNS) + 1) for some in itertools.combinations(COLUMNS, count)]
    return [filled for filled in sets if lifecycle.EXCHANGED in filled or not OF_A_FAMILY & filled]


@pytest.mark.parametrize("filled", combinations(), ids=lambda filled: "+".join(sorted(filled)) or "none")
def test_whatever_is_filled_is_one_state(filled: frozenset[str]) -> None:
    """Exactly one."""
    assert [state for state in STATES if state.fits(filled)] == [lifecycle.state(filled)]


def test_every_state_is_reached_and_every_one_but_the_last_is_left() -> None:
    """From the seller's consent on; what is withdrawn stays so."""
    reached = {move.target for move in MOVES}
    assert reached - {None} == set(STATES)
    assert {state for move in MOVES for state in move.sources} == set(STATES) - {lifecycle.WITHDRAWN}


def test_nothing_that_has_ended_gets_tokens() -> None:
    """Out of what has lapsed, was revoked or withdrawn no move leads back, and none answers tokens."""
    ended = {lifecycle.LAPSED, lifecycle.REVOKED, lifecycle.WITHDRAWN}
    for move in MOVES:
        if ended & set(move.sources):
            assert move.target in ended
            assert "tokens" not in move.answer


@pytest.mark.parametrize(
    ("move", "table", "guard"),
    [
        (lifecycle.EXCHANGE, "codes", "exchanged_ms IS NULL AND expired_ms IS NULL"),
        (lifecycle.REFRESH, "token_families", "revoked_ms IS NULL AND expired_ms IS NULL"),
        (lifecycle.EXPIRE, "token_families", "revoked_ms IS NULL AND expired_ms IS NULL"),
        (lifecycle.REVOKE, "token_families", "revoked_ms IS NULL"),
        (lifecycle.WITHDRAW, "authorizations", "withdrawn_ms IS NULL"),
    ],
    ids=lambda value: value.name if isinstance(value, Move) else "",
)
def test_the_guard_of_a_statement_is_read_from_its_move(move: Move, table: str, guard: str) -> None:
    """What all of its sources have in common, and no more."""
    assert move.guard(table) == guard


def test_the_columns_are_the_databases() -> None:
    """Each is one of its table, and may be empty."""
    ddl = files("paydesk.storage.migrations").joinpath("0001_initial_schema.sql").read_text()
    for column in COLUMNS:
        table, _, name = column.partition(".")
        created = ddl[ddl.index(f"CREATE TABLE {table} (") :].partition("\n);")[0]
        assert re.search(rf"^ +{name} +bigint,", created, re.MULTILINE), column


def test_names_tell_moves_and_states_apart() -> None:
    """Each is there once."""
    for names in ([move.name for move in MOVES], [state.name for state in STATES]):
        assert len(set(names)) == len(names)
