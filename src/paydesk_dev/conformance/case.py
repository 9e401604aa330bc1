"""A case: what a terminal must do in one situation, and the function that brings the situation about and judges."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from paydesk_dev.conformance.kit import Kit

Play = Callable[[Kit], Awaitable[None]]
Status = Literal["held", "failed", "not shown", "not applicable"]


@dataclass(frozen=True, slots=True)
class Case:
    """A case. `section`: the section of docs/build-a-terminal.md."""

    name: str
    section: int
    must: str
    play: Play


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case or a rule. `reason`: why it did not hold."""

    name: str
    section: int
    must: str
    status: Status
    reason: str = ""
    seconds: float = 0

    @property
    def passed(self) -> bool:
        """Whether it does not count against the terminal."""
        return self.status in ("held", "not applicable")


def case(name: str, section: int, must: str) -> Callable[[Play], Case]:
    """Make a case of the function."""
    return lambda play: Case(name, section, must, play)
