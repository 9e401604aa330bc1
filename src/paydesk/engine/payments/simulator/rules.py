"""Rules for the behaviour of the simulated acquirer, set by a script, a test card or a test amount. Pure: no I/O.

A rule is `<operation>:<behaviour>[:<argument>][@<percent>]`. Random choices are derived from a seed and the ordinal of
the request among the seller's requests of that operation, so the same requests in the same order behave the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from paydesk.engine.orders.status import FAILED_DETAILS

Operation = Literal["payment", "inquiry", "refund", "reversal", "confirmation"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

TIMES_MAX, SECONDS_MAX, RULES_MAX = 1_000, 86_400, 50

BEHAVIOURS = {
    "decline": "`decline:<detail>`: the request is declined with one of the details of a failed payment.",
    "not_sent": "`not_sent[:<times>]`: the first requests (by default one) are not sent and have no effect.",
    "unheard": "`unheard[:<times>]`: the first requests (by default one) get no answer and have no effect.",
    "lost": "`lost[:<times>]`: the request takes effect, but its first answers (by default one) are lost.",
    "late": "`late:<seconds>s`: the request takes effect; for this time it has no answer and inquiries find nothing.",
    "delay": "`delay:<seconds>s`: every answer is delayed by this time.",
}

_RULE = re.compile(r"([a-z]+):([a-z_]+)(?::([a-z0-9_.]+))?(?:@(\d{1,3}(?:\.\d{1,3})?))?", re.ASCII)
_SECONDS = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)s", re.ASCII)


@dataclass(frozen=True, slots=True)
class Plan:
    """How a request and its retries under the same key are handled. By default: approved and answered at once."""

    decline_detail: str = ""
    """Empty: approved."""
    not_sent_times: int = 0
    unheard_times: int = 0
    lost_times: int = 0
    late_ms: int = 0
    delay_ms: int = 0

    @property
    def failed_attempts(self) -> int:
        """How many requests under the key have no effect before one takes effect."""
        return self.not_sent_times + self.unheard_times

    @property
    def depends_on_attempt(self) -> bool:
        """Whether the answer depends on how often the request was sent."""
        return self.failed_attempts + self.lost_times > 0


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: the operation it applies to, what it sets, and for how many percent of the requests."""

    operation: Operation
    behaviour: str
    value: str | int
    percent: float = 100

    def applies(self, seed: int, ordinal: int, position: int) -> bool:
        """Whether it applies to the seller's request with that ordinal; `position` is the rule's own in the list."""
        if self.percent >= 100:
            return True
        drawn = hashlib.sha256(f"{seed}:{self.operation}:{ordinal}:{position}".encode()).digest()
        return int.from_bytes(drawn[:8], "big") < self.percent / 100 * 2**64


Rules = tuple[Rule, ...]


def parse(text: str) -> Rules:
    """Parse rules separated by spaces or commas. Raises `ValueError` that states the mistake."""
    words = text.replace(",", " ").split()
    if len(words) > RULES_MAX:
        raise ValueError(f"{len(words)} rules exceed the limit of {RULES_MAX}")
    return tuple(_rule(word) for word in words)


def of_operation(rules: Iterable[Rule], operation: Operation) -> Rules:
    """Return the rules of the operation."""
    return tuple(rule for rule in rules if rule.operation == operation)


def are_random(rules: Rules) -> bool:
    """Whether the request's ordinal decides which of them apply."""
    return any(rule.percent < 100 for rule in rules)


def plan(rules: Rules, seed: int = 0, ordinal: int = 0) -> Plan:
    """Return the plan for the seller's request with that ordinal; the first rule that sets a field wins."""
    planned: dict[str, str | int] = {}
    for position, rule in enumerate(rules):
        if rule.applies(seed, ordinal, position):
            planned.setdefault(_FIELDS[rule.behaviour][0], rule.value)
    return Plan(**planned)  # type: ignore[arg-type]  # each behaviour reads the type of its field


def _rule(word: str) -> Rule:
    match = _RULE.fullmatch(word)
    operation, behaviour, argument, percent = match.groups() if match is not None else ("", "", None, None)
    if operation not in OPERATIONS or behaviour not in BEHAVIOURS:
        raise ValueError(
            f"{word!r} is not a rule: <operation>:<behaviour>[:<argument>][@<percent>], operations"
            f" {', '.join(OPERATIONS)}, behaviours {', '.join(BEHAVIOURS)}"
        )
    if (operation, behaviour) in _UNSUPPORTED:
        raise ValueError(f"{word!r}: {operation} does not support {behaviour}")
    share = 100.0 if percent is None else float(percent)
    if share > 100:
        raise ValueError(f"{word!r}: {percent} percent is more than 100")
    return Rule(operation, behaviour, _FIELDS[behaviour][1](word, argument), share)


# A reversal always succeeds: it reverses an approval or blocks a later one. An inquiry changes nothing.
_UNSUPPORTED = (("inquiry", "decline"), ("inquiry", "late"), ("reversal", "decline"))


def _detail(word: str, argument: str | None) -> str:
    if argument not in FAILED_DETAILS:
        raise ValueError(f"{word!r} needs a detail: {', '.join(FAILED_DETAILS)}")
    return argument


def _times(word: str, argument: str | None) -> int:
    if argument is None:
        return 1
    if not argument.isdigit() or not 0 < int(argument) <= TIMES_MAX:
        raise ValueError(f"{word!r}: {argument!r} is not a number from 1 to {TIMES_MAX}")
    return int(argument)


def _milliseconds(word: str, argument: str | None) -> int:
    match = _SECONDS.fullmatch(argument or "")
    if match is None or float(match[1]) > SECONDS_MAX:
        raise ValueError(f"{word!r} needs seconds up to {SECONDS_MAX}, such as 30s or 0.2s")
    return round(float(match[1]) * 1000)


_FIELDS: dict[str, tuple[str, Callable[[str, str | None], str | int]]] = {
    "decline": ("decline_detail", _detail),
    "not_sent": ("not_sent_times", _times),
    "unheard": ("unheard_times", _times),
    "lost": ("lost_times", _times),
    "late": ("late_ms", _milliseconds),
    "delay": ("delay_ms", _milliseconds),
}
"""The field of the plan that a behaviour sets, and the function that reads its argument."""
