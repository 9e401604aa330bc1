"""A case of a terminal: what it must do in one situation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from paydesk_dev.conformance.case import Case
from paydesk_dev.conformance.terminals.kit import Kit

Play = Callable[[Kit], Awaitable[None]]


def case(name: str, section: int, must: str) -> Callable[[Play], Case[Kit]]:
    """Make a case of the function. `section`: of docs/build-a-terminal.md."""
    return lambda play: Case(name, section, must, play)
