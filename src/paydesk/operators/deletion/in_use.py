"""The refusal to delete what is in use: it names what uses it, and says what to do instead."""

from __future__ import annotations

from collections.abc import Sequence

from paydesk.core.errors import IN_USE
from paydesk.engine.terminals.stores import NAMED_MAX


def detail(what: str, used_by: Sequence[object], advice: str) -> str:
    """Return the detail for one kind of what uses it. `used_by` has at most `NAMED_MAX` ids."""
    named = ", ".join(map(str, used_by))
    more = ", …" if len(used_by) == NAMED_MAX else ""
    return f"it has the {what} {named}{more}; {advice}"


def refuse(*uses: tuple[str, Sequence[object], str]) -> None:
    """Raise `IN_USE` with a detail for each kind of use that has ids; return if there is none."""
    existing = [use for use in uses if use[1]]
    if existing:
        reason = f"has {', '.join(what for what, _, _ in existing)}"
        raise IN_USE.with_reason(reason, *(detail(*use) for use in existing))
