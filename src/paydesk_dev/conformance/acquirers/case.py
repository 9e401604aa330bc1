"""A case of an acquirer: what its adapter must do in one situation. The docstring says it, and what to repair."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from paydesk_dev.conformance.acquirers.kit import Kit
from paydesk_dev.conformance.case import Case

Play = Callable[[Kit], Awaitable[None]]


def case(play: Play) -> Case[Kit]:
    """Make a case of the function: the first paragraph of its docstring is what must hold, the second the repair."""
    must, _, repair = inspect.cleandoc(play.__doc__ or "").partition("\n\n")
    return Case(play.__name__, 0, " ".join(must.split()), play, " ".join(repair.split()))
