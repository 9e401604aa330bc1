"""Figures of all runs of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Figures:
    """Figures of all runs."""

    runs: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    crashes: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    worlds_max: int = 0
    report: Callable[[], object] = lambda: None
    """Called when a run begins."""

    def begin(self) -> None:
        """Count a run."""
        self.runs += 1
        self.report()

    def table(self) -> dict[str, object]:
        """Return the figures by their printed names."""
        return {
            "runs": self.runs,
            "steps": self.steps.total(),
            **{f"  {name}": count for name, count in self.steps.most_common()},
            "requests": self.requests,
            "deaths of the node": self.crashes,
            "worlds at once, at most": self.worlds_max,
            "answers": self.answers.total(),
            **{f"  {what}": count for what, count in sorted(self.answers.items())},
            **{f"shown as {status}": count for status, count in sorted(self.statuses.items())},
        }
