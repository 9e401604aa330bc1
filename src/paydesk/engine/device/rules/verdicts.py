"""Verdicts on the leases in a terminal's journal when it starts: one table, no database."""

from __future__ import annotations

from typing import Any, Literal

from paydesk.engine.orders import status
from paydesk.engine.orders.order import Order

Verdict = Literal["resume", "forget", "abort", "report", "hold"]
Effect = Literal["none", "re_lease", "cancel", "inquire", "fail"]
"""The verdict's effect on the order: nothing · move its lease to the new session · cancel or expire it · move it to
`check_on_terminal` and inquire at the acquirer · fail it, because nothing was charged."""

Progress = Literal["offered", "acknowledged", "unsent", "authorizing"]
"""The terminal's progress. `unsent`: the permit was requested or granted, and the acquirer was never called;
`authorizing`: it may have been."""

OrderState = Literal["ended", "created", "open", "canceling", "overdue", "permitted", "lapsed", "unknown"]
"""The order's state: final, detached or not found · created · at_terminal before authorization is permitted: in time,
cancel requested, expired · authorization permitted: in time; permit or order expired, or cancel requested ·
`check_on_terminal`."""

_AFTER_AUTHORIZING = ("authorizing", "card_removal", "printing")
AFTER_PERMIT: tuple[OrderState, ...] = ("permitted", "lapsed", "unknown")

_TABLE = """
           offered         acknowledged    unsent           authorizing
ended      forget:none     forget:none     forget:none      forget:none
created    forget:none     forget:none     forget:none      forget:none
open       resume:re_lease resume:re_lease resume:re_lease  abort:inquire
canceling  abort:cancel    abort:cancel    abort:cancel     abort:inquire
overdue    abort:cancel    abort:cancel    abort:cancel     abort:inquire
permitted  hold:inquire    hold:inquire    resume:re_lease  hold:inquire
lapsed     hold:inquire    hold:inquire    abort:fail       hold:inquire
unknown    hold:none       hold:none       abort:fail       hold:none
"""


def _parsed(table: str) -> dict[Any, Any]:
    head, *rows = (line.split() for line in table.strip().splitlines())
    return {
        (progress, row[0]): tuple(cell.split(":")) for row in rows for progress, cell in zip(head, row[1:], strict=True)
    }


TABLE: dict[tuple[Progress, OrderState], tuple[Verdict, Effect]] = _parsed(_TABLE)
"""The verdict and its effect by the terminal's progress and the order's state."""


def state_of(order: Order | None, now_ms: int, permit_seconds: int) -> OrderState:
    """Return the order's state for the table. A permit is valid for `permit_seconds`."""
    if order is None or order.status not in status.LIVE or order.detached_ms is not None:
        return "ended"
    if order.status == "created":
        return "created"
    if order.state == status.CHECK_ON_TERMINAL:
        return "unknown"
    if order.permitted_ms is not None:
        until_ms = min(order.permitted_ms + permit_seconds * 1000, order.expires_ms)
        return "permitted" if now_ms < until_ms and order.cancel_requested_ms is None else "lapsed"
    if order.is_overdue(now_ms):
        return "overdue"
    return "canceling" if order.state == status.CANCELLATION_REQUESTED else "open"


def progress_of(last_step: str, state: OrderState, *, sent: bool | None = None) -> Progress:
    """Return the progress that a journal entry stands for. `sent`: whether the acquirer was called, None if unknown.

    A terminal may be killed before it journals the permit, so once that is granted `sent` decides, not the step.
    """
    if sent or (sent is None and last_step in _AFTER_AUTHORIZING):
        return "authorizing"
    if last_step in _AFTER_AUTHORIZING or (sent is False and state in AFTER_PERMIT):
        return "unsent"
    return "offered" if last_step in ("", "none", "offered") else "acknowledged"


def judge(last_step: str, state: OrderState, *, has_result: bool, sent: bool | None = None) -> tuple[Verdict, Effect]:
    """Return the verdict on a journal entry and its effect on the order."""
    if has_result:
        return "report", "none"
    return TABLE[progress_of(last_step, state, sent=sent), state]
