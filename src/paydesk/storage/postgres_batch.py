"""Units of work in step: what waits goes statement by statement, each for all of them at once, into one commit.

A statement costs a round trip, and a commit a flush of the log, whether one unit asks for it or sixty. Units that name
what they touch (a key, an order, a terminal, a token) share a batch only with units that touch something else; between
two of those it does not matter whose statement comes first. A unit that fails or refuses after it wrote is undone with
the whole batch and run again alone, and the others without it: nobody's answer is given before the commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from paydesk.storage.database import Work, WorkError
from paydesk.storage.statements import only_reads, without_comments
from paydesk.storage.work import awaited_something_else


class Asked(Protocol):
    """A statement that a unit of work awaits."""

    kind: str
    sql: str
    args: tuple[Any, ...]


class Transaction(Protocol):
    """What the driver hands to a unit of work, and marks."""

    ended: bool
    writes: int
    topics: list[str]


Unit_ = TypeVar("Unit_", bound="Unit")
FetchMany = Callable[[str, list[tuple[Any, ...]]], Awaitable[list[Any]]]


class Unit:
    """One unit of work on its way through a batch."""

    __slots__ = ("asked", "error", "result", "steps", "touches", "tx", "work")

    def __init__(self, work: Work[Any], touches: Iterable[str]) -> None:
        self.work = work
        self.touches = frozenset(touches)
        self.tx: Transaction | None = None
        self.steps: Generator[Any, Any, Any] | None = None
        self.asked: Any = None
        self.result: Any = None
        self.error: BaseException | None = None

    def begin(self, tx: Transaction, statement_type: type) -> None:
        """Run to the first statement."""
        self.tx, self.result, self.error = tx, None, None
        self.steps = self.work(tx).__await__()  # type: ignore[arg-type]  # the driver's own transaction
        self._step(statement_type, next)

    def go_on(self, answer: Any, statement_type: type) -> None:
        """Run from a statement's answer to the next statement, or to the end."""
        self._step(statement_type, lambda steps: steps.send(answer))

    def _step(self, statement_type: type, step: Callable[[Generator[Any, Any, Any]], Any]) -> None:
        assert self.steps is not None, "it has begun"
        try:
            self.asked = step(self.steps)
            if type(self.asked) is not statement_type:
                raise awaited_something_else(self.steps)
        except StopIteration as end:
            self._end(result=end.value)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's answer
            self._end(error=error)

    def _end(self, result: Any = None, error: BaseException | None = None) -> None:
        assert self.tx is not None, "it has begun"
        self.tx.ended, self.asked = True, None
        self.result, self.error = result, error

    @property
    def must_be_undone(self) -> bool:
        """Whether it wrote and then failed or refused."""
        assert self.tx is not None, "it has begun"
        return self.error is not None and (self.tx.writes > 0 or isinstance(self.error, WorkError))


def take(waiting: deque[Unit_], most: int, busy: AbstractSet[str]) -> list[Unit_]:
    """The units at the head of the queue of which no two touch the same, nor what is `busy`; the others keep waiting.

    They stay in their order.
    """
    taken: list[Unit_] = []
    touched = set(busy)
    behind: list[Unit_] = []
    while waiting and len(taken) < most:
        unit = waiting.popleft()
        if touched.isdisjoint(unit.touches):
            taken.append(unit)
        else:
            behind.append(unit)
        # Also what one behind touches: whoever comes later must not overtake it.
        touched |= unit.touches
    waiting.extendleft(reversed(behind))
    return taken


async def run_in_step(units: list[Any], statement_type: type, fetch_many: FetchMany) -> None:
    """Run begun units to their ends, each round one statement of each, equal statements together."""
    running = [unit for unit in units if unit.asked is not None]
    while running:
        rounds: dict[tuple[str, str], list[Any]] = {}
        for unit in running:
            rounds.setdefault((unit.asked.kind, unit.asked.sql), []).append(unit)
        for (kind, sql), asking in rounds.items():
            rows = await fetch_many(tagged(kind, sql), [(*unit.asked.args, place) for place, unit in enumerate(asking)])
            for unit, answer in zip(asking, _answers(kind, rows, len(asking)), strict=True):
                if not only_reads(sql):
                    unit.tx.writes += answer if kind == "run" else len(answer)
                unit.go_on(answer if kind != "one" else answer[0] if answer else None, statement_type)
        running = [unit for unit in running if unit.asked is not None]


def _answers(kind: str, rows: list[Any], count: int) -> list[Any]:
    """The rows of each asker, told apart by the tag in the first column; of a `run` the number of rows."""
    if kind == "run":
        counts = [0] * count
        for place, touched in rows:
            counts[place] = touched
        return counts
    answers: list[list[Any]] = [[] for _ in range(count)]
    for row in rows:
        answers[row[0]].append(row[1:])
    return answers


@lru_cache(maxsize=2048)
def tagged(kind: str, sql: str) -> str:
    """The statement with one parameter more, a number that comes back as the first column of each of its rows."""
    statement = without_comments(sql).strip()
    tag = f"CAST(${_parameters(statement) + 1} AS integer)"
    if kind == "run":
        returning = "" if "RETURNING" in statement.upper() else " RETURNING 1"
        return f"WITH touched AS ({statement}{returning}) SELECT {tag}, CAST(COUNT(*) AS integer) FROM touched"
    return f"WITH found AS ({statement}) SELECT {tag}, found.* FROM found"


def _parameters(statement: str) -> int:
    numbers = [int(part[: _digits(part)]) for part in statement.split("$")[1:] if _digits(part)]
    return max(numbers, default=0)


def _digits(text: str) -> int:
    return len(text) - len(text.lstrip("0123456789"))
