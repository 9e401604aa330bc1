"""What becomes of a lease that a terminal remembers when it starts: one table, no database."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["resume", "forget", "abort", "report", "hold"]
Effect = Literal["none", "re_lease", "cancel", "inquire"]
"""What the verdict does to the order: nothing · its lease goes to the new session · it is canceled, or expires ·
it waits in `check_on_terminal` for the acquirer's word."""

Progress = Literal["offered", "acknowledged", "authorizing"]
Standing = Literal["ended", "created", "open", "canceling", "overdue", "granted", "unknown"]
"""How the order stands: final or not there · created · at_terminal before the grant: in time, cancel asked, out of
time · granted · `check_on_terminal`."""

_AFTER_AUTHORIZING = ("authorizing", "card_removal", "printing")

TABLE: dict[tuple[Progress, Standing], tuple[Verdict, Effect]] = {
    ("offered", "ended"): ("forget", "none"),
    ("offered", "created"): ("forget", "none"),
    ("offered", "open"): ("resume", "re_lease"),
    ("offered", "canceling"): ("abort", "cancel"),
    ("offered", "overdue"): ("abort", "cancel"),
    ("offered", "granted"): ("hold", "inquire"),
    ("offered", "unknown"): ("hold", "none"),
    ("acknowledged", "ended"): ("forget", "none"),
    ("acknowledged", "created"): ("forget", "none"),
    ("acknowledged", "open"): ("resume", "re_lease"),
    ("acknowledged", "canceling"): ("abort", "cancel"),
    ("acknowledged", "overdue"): ("abort", "cancel"),
    ("acknowledged", "granted"): ("hold", "inquire"),
    ("acknowledged", "unknown"): ("hold", "none"),
    ("authorizing", "ended"): ("forget", "none"),
    ("authorizing", "created"): ("forget", "none"),
    ("authorizing", "open"): ("abort", "inquire"),
    ("authorizing", "canceling"): ("abort", "inquire"),
    ("authorizing", "overdue"): ("abort", "inquire"),
    ("authorizing", "granted"): ("hold", "inquire"),
    ("authorizing", "unknown"): ("hold", "none"),
}


def progress_of(last_step: str) -> Progress:
    """How far a terminal came, by the last step in its journal."""
    if last_step in ("", "none", "offered"):
        return "offered"
    return "authorizing" if last_step in _AFTER_AUTHORIZING else "acknowledged"


def judge(last_step: str, standing: Standing, *, has_result: bool) -> tuple[Verdict, Effect]:
    """The verdict on one entry of the journal, and what it does to the order."""
    if has_result:
        # Whatever else is known, the result says more.
        return "report", "none"
    return TABLE[progress_of(last_step), standing]
