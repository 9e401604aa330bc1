"""Labelled places where a test can kill the process: between the steps of a request or of an acquirer job.

No code of this package arms one, so no setting can: only a test does, in a separate process.
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
"""Reached by every request."""
STEP_LABELS: tuple[StepLabel, ...] = get_args(StepLabel)
"""Between the steps of a call to the acquirer: the job is claimed; the inquiry answered; the intent committed; the
response stored; the acquirer, or a reversal, answered; the outcome committed."""

_armed: dict[str, int] = {}


def reached(label: Label) -> None:
    """Mark that execution has reached the label; kills the process if the label is armed."""
    if label in _armed:
        _armed[label] -= 1
        if not _armed[label]:
            os.kill(os.getpid(), signal.SIGKILL)


def arm(label: Label, times: int = 1) -> None:
    """Kill the process with SIGKILL when `label` is reached for the `times`-th time from now. For tests only."""
    assert label in LABELS + STEP_LABELS, f"unknown crash point {label}"
    assert times > 0, "times must be positive"
    _armed[label] = times
