"""A case of a conformance kit: what must hold in one situation, and the function that brings it about and judges."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Generic, Literal, TypeVar

from paydesk.core import runtime

Status = Literal["held", "failed", "not shown", "not applicable", "not tested"]
PASSED: tuple[Status, ...] = ("held", "not applicable", "not tested")
"""What does not count against what is tested."""
K = TypeVar("K")


class NotHeld(Exception):
    """A case ended without holding; the message says why."""

    status: ClassVar[Status]


class Failed(NotHeld):
    """What is tested did what is forbidden, or not what is demanded; the message says what."""

    status = "failed"


class NotShown(NotHeld):
    """The situation did not come about, so nothing was judged; the message says what was missing."""

    status = "not shown"


class NotApplicable(NotHeld):
    """The case does not concern what is tested; the message says why."""

    status = "not applicable"


class NotTested(NotHeld):
    """The kit cannot bring the situation about; the message says what is not tested, and why."""

    status = "not tested"


@dataclass(frozen=True, slots=True)
class Case(Generic[K]):
    """A case of the kit `K`. `section`: of the guide, 0 for none. `repair`: what to look at if it does not hold."""

    name: str
    section: int
    must: str
    play: Callable[[K], Awaitable[None]]
    repair: str = ""


def documented(play: Callable[[K], Awaitable[None]]) -> Case[K]:
    """Make a case of the function: the first paragraph of its docstring is what must hold, the second the repair."""
    must, _, repair = inspect.cleandoc(play.__doc__ or "").partition("\n\n")
    return Case(play.__name__, 0, " ".join(must.split()), play, " ".join(repair.split()))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case or a rule. `reason`: why it did not hold."""

    name: str
    section: int
    must: str
    status: Status
    reason: str = ""
    seconds: float = 0
    repair: str = ""

    @property
    def passed(self) -> bool:
        """Whether it does not count against what is tested."""
        return self.status in PASSED


def cases_of(*modules: ModuleType) -> Mapping[str, Case[Any]]:
    """Return the cases of the modules by name, in the order in which they are played."""
    return {one.name: one for module in modules for one in vars(module).values() if isinstance(one, Case)}


async def play(
    cases: Mapping[str, Case[K]],
    only: Collection[str],
    perform: Callable[[Case[K]], Awaitable[None]],
    begins: Callable[[Case[K]], None],
) -> AsyncIterator[Outcome]:
    """Perform the cases, or those named, one after another, and yield their outcomes."""
    for each in cases.values():
        if not only or each.name in only:
            begins(each)
            began = runtime.monotonic()
            status, reason = await _judged(perform(each))
            repair = "" if status in PASSED else each.repair
            yield Outcome(each.name, each.section, each.must, status, reason, runtime.monotonic() - began, repair)


async def _judged(performing: Awaitable[None]) -> tuple[Status, str]:
    try:
        await performing
    except NotHeld as error:
        return error.status, str(error)
    return "held", ""
