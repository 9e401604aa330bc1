"""What people see of acquirers: the state of the connection, and the orders that each takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paydesk.console.statuses import Look

BREAKERS: Mapping[str, Look] = {
    "closed": Look("ok", "check", "Answers"),
    "open": Look("bad", "cross", "Does not answer"),
    "untested": Look("off", "info", "Not used yet"),
}
"""The look of the circuit breaker of an acquirer."""


def takes(acquirer: Mapping[str, Any]) -> str:
    """Return the orders that an acquirer takes, by the rules and as the default."""
    rules = [", ".join(f"{name} {value}" for name, value in rule.items()) or "all" for rule in acquirer["rules"]]
    return "; ".join((*rules, *(("others",) if acquirer["default"] else ())))
