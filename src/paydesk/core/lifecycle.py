"""A lifecycle as one table: the states of a row, and the legal moves between them.

The statements' conditions, the operators' filters, the enums of responses, the docs and the tests derive from it. The
lifecycles of orders (`engine/orders/status.py`) and tokens (`engine/oauth/lifecycle.py`), over several columns, have
types of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_args


@dataclass(frozen=True, slots=True)
class State:
    """A state, and what holds in it, in SQL. As text it is a condition; with one column, an assignment as well."""

    name: str
    conditions: tuple[str, ...]

    def __str__(self) -> str:
        return " AND ".join(self.conditions)


def states_of(names: Any) -> tuple[State, ...]:
    """Return the states that the column `status` names, of a Literal type."""
    return tuple(State(name, (f"status = '{name}'",)) for name in get_args(names))


@dataclass(frozen=True, slots=True)
class Move:
    """One legal move: from any of `sources` (none: it inserts the row) to `target`."""

    name: str
    by: str
    sources: tuple[State, ...]
    target: State

    @property
    def guard(self) -> str:
        """Return the condition of the UPDATE that makes this move."""
        return in_states(self.sources)


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The states of a table's rows in the order of the docs, and the moves between them.

    `reopening`: moves that an operator requests and that may leave a final state.
    """

    table: str
    states: tuple[State, ...]
    moves: tuple[Move, ...]
    reopening: tuple[Move, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all states."""
        return tuple(state.name for state in self.states)

    @property
    def final(self) -> tuple[State, ...]:
        """The states that no move leaves unless an operator requests it."""
        sources = {source for move in self.moves for source in move.sources}
        return tuple(state for state in self.states if state not in sources)

    @property
    def open(self) -> str:
        """The condition that the row is not in a final state."""
        return in_states(state for state in self.states if state not in self.final)


def in_states(states: Iterable[State]) -> str:
    """Return the condition that a row is in one of the states: what holds in all of them, else all of theirs."""
    first, *others = states
    shared = [condition for condition in first.conditions if all(condition in other.conditions for other in others)]
    return " AND ".join(shared) if shared else f"({' OR '.join(map(str, (first, *others)))})"
