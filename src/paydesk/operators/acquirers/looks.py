"""The texts about an acquirer: the state of its connection, and the orders that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paydesk.console.statuses import Look

BREAKERS: Mapping[str, Look] = {
    "closed": Look("ok", "check", "Reachable"),
    "open": Look("bad", "cross", "Unreachable"),
    "untested": Look("off", "info", "Not used yet"),
}
"""The look of the circuit breaker of an acquirer."""


def connection(acquirer: Mapping[str, Any]) -> str:
    """Return the state of an acquirer's connection in words, with the time of the next echo."""
    word = BREAKERS[acquirer["breaker"]].word.lower() if "breaker" in acquirer else ""
    return f"{word} (next echo {acquirer['next_echo_date'][11:19]})" if "next_echo_date" in acquirer else word


def takes(acquirer: Mapping[str, Any], default: str = "orders that no rule routes") -> str:
    """Return the orders that an acquirer takes, by the rules and as the default."""
    rules = [", ".join(f"{name} {value}" for name, value in rule.items()) or "all" for rule in acquirer["rules"]]
    return "; ".join((*rules, *((default,) if acquirer["default"] else ())))
