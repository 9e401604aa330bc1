"""Verdicts on the leases in a terminal's journal when it starts: one table, no database."""

from __future__ import annotations

from typing import Literal

from paydesk.orders import status
from paydesk.orders.order import Order

Verdict = Literal["resume", "forget", "abort", "report", "hold"]
Effect = Literal["none", "re_lease", "cancel", "inquire"]
"""What the verdict does to the order: nothing · move its lease to the new session · cancel or expire it · move it to
`check_on_terminal` and inquire at the acquirer."""

Progress = Literal["offered", "acknowledged", "authorizing"]
OrderState = Literal["ended", "created", "open", "canceling", "overdue", "permitted", "unknown"]
"""The order's state: final, detached or not found · created · at_terminal before authorization is permitted: in time,
cancel requested, expired · authorization permitted · `check_on_terminal`."""

_AFTER_AUTHORIZING = ("authorizing", "card_removal", "printing")

TABLE: dict[tuple[Progress, OrderState], tuple[Verdict, Effect]] = {
    ("offered", "ended"): ("forget", "none"),
    ("offered", "created"): ("forget", "none"),
    ("offered", "open"): ("resume", "re_lease"),
    ("offered", "canceling"): ("abort", "cancel"),
    ("offered", "overdue"): ("abort", "cancel"),
    ("offered", "permitted"): ("hold", "inquire"),
    ("offered", "unknown"): ("hold", "none"),
    ("acknowledged", "ended"): ("forget", "none"),
    ("acknowledged", "created"): ("forget", "none"),
    ("acknowledged", "open"): ("resume", "re_lease"),
    ("acknowledged", "canceling"): ("abort", "cancel"),
    ("acknowledged", "overdue"): ("abort", "cancel"),
    ("acknowledged", "permitted"): ("hold", "inquire"),
    ("acknowledged", "unknown"): ("hold", "none"),
    ("authorizing", "ended"): ("forget", "none"),
    ("authorizing", "created"): ("forget", "none"),
    ("authorizing", "open"): ("abort", "inquire"),
    ("authorizing", "canceling"): ("abort", "inquire"),
    ("authorizing", "overdue"): ("abort", "inquire"),
    ("authorizing", "permitted"): ("hold", "inquire"),
    ("authorizing", "unknown"): ("hold", "none"),
}


def state_of(order: Order | None, now_ms: int) -> OrderState:
    """Return the order's state for the table."""
    if order is None or order.status not in status.LIVE or order.detached_ms is not None:
        return "ended"
    if order.status == "created":
        return "created"
    if order.state == status.CHECK_ON_TERMINAL:
        return "unknown"
    if order.permitted_ms is not None:
        return "permitted"
    if order.is_overdue(now_ms):
        return "overdue"
    return "canceling" if order.state == status.CANCELLATION_REQUESTED else "open"


def progress_of(last_step: str) -> Progress:
    """Return the progress that the last step in a journal entry stands for."""
    if last_step in ("", "none", "offered"):
        return "offered"
    return "authorizing" if last_step in _AFTER_AUTHORIZING else "acknowledged"


def judge(last_step: str, state: OrderState, *, has_result: bool) -> tuple[Verdict, Effect]:
    """Return the verdict on a journal entry and its effect on the order."""
    if has_result:
        return "report", "none"
    return TABLE[progress_of(last_step), state]
