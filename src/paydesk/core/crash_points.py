"""Labelled places where a test may have the process die: between the steps of a request, or of who asks the acquirer.

Nothing in this package arms one, so no setting and no variable of a service can: a test does, in a process of its own.
"""

from __future__ import annotations

import os
import signal
from typing import Literal, get_args

RequestLabel = Literal["before_claim", "after_claim", "after_effect", "before_commit", "after_commit", "before_answer"]
StepLabel = Literal[
    "claimed", "inquired", "intent_committed", "answer_stored", "asked", "reversal_asked", "outcome_committed"
]
Label = RequestLabel | StepLabel
LABELS: tuple[RequestLabel, ...] = get_args(RequestLabel)
"""Those that every request reaches."""
STEP_LABELS: tuple[StepLabel, ...] = get_args(StepLabel)
"""Between the steps of whatever asks the acquirer: a worker has claimed it; the acquirer says what it knows; what is
intended is committed, and the answer to its request stored; the acquirer has answered; what came of it is committed."""

_armed: dict[str, int] = {}


def reached(label: Label) -> None:
    """Say that a request has come so far: nothing, or the end of the process where that place is armed."""
    if _armed:
        _count(label)


def arm(label: Label, times: int = 1) -> None:
    """End the process by SIGKILL when `label` is reached for the `times`-th time from now. For tests alone."""
    assert label in LABELS + STEP_LABELS, f"no crash point is called {label}"
    assert times > 0, "a crash point is reached once or more"
    _armed[label] = times


def _count(label: Label) -> None:
    if label in _armed:
        _armed[label] -= 1
        if not _armed[label]:
            os.kill(os.getpid(), signal.SIGKILL)
