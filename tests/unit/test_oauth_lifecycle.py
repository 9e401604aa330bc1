"""The table of moves of a token family: its states are complete and disjoint, and its columns exist."""

from __future__ import annotations

import itertools
import re
from importlib.resources import files

import pytest

from oauth_scene import states_of
from paydesk.engine.oauth import lifecycle
from paydesk.engine.oauth.lifecycle import COLUMNS, MOVES, STATES, Move
from tables import each

OF_A_FAMILY = {lifecycle.REVOKED_AT, lifecycle.EXPIRED_AT}


def combinations() -> list[frozenset[str]]:
    """Return every possible set of filled columns; before the exchange there is no family."""
    sets = [frozenset(some) for count in range(len(COLUMNS) + 1) for some in itertools.combinations(COLUMNS, count)]
    return [filled for filled in sets if lifecycle.EXCHANGED_AT in filled or not OF_A_FAMILY & filled]


@each("filled", combinations(), ids=lambda filled: "+".join(sorted(filled)) or "none")
def test_every_combination_of_columns_is_one_state(filled: frozenset[str]) -> None:
    """The states are complete and disjoint."""
    assert len(states_of(filled)) == 1


def test_every_state_is_reachable_and_only_withdrawn_is_final() -> None:
    """Moves begin with the seller's consent."""
    reached = {move.target for move in MOVES}
    assert reached - {None} == set(STATES)
    assert {state for move in MOVES for state in move.sources} == set(STATES) - {lifecycle.WITHDRAWN}


def test_an_ended_family_gets_no_tokens() -> None:
    """From an expired code, a revoked or a withdrawn family no move leads back or returns tokens."""
    ended = {lifecycle.CODE_EXPIRED, lifecycle.REVOKED, lifecycle.WITHDRAWN}
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
def test_the_guard_of_a_statement_is_derived_from_its_move(move: Move, table: str, guard: str) -> None:
    """It checks the columns that all sources have in common."""
    assert move.guard(table) == guard


def test_the_columns_exist_and_are_nullable() -> None:
    """Each is a column of the migration."""
    ddl = files("paydesk.platform.storage.migrations").joinpath("0001_initial_schema.sql").read_text()
    for column in COLUMNS:
        table, _, name = column.partition(".")
        created = ddl[ddl.index(f"CREATE TABLE {table} (") :].partition("\n);")[0]
        assert re.search(rf"^ +{name} +bigint,", created, re.MULTILINE), column


def test_names_of_moves_and_states_are_unique() -> None:
    """No name is used twice."""
    for names in ([move.name for move in MOVES], [state.name for state in STATES]):
        assert len(set(names)) == len(names)
