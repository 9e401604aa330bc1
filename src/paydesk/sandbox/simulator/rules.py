"""How the simulated acquirer behaves, as rules that a script, a test card or an amount names. Pure: no I/O.

A rule is `<operation>:<behaviour>[:<argument>][@<percent>]`. Chance is drawn from a seed and from which request of its
operation the seller's is, so that the same requests in the same order have the same fate again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from paydesk.orders.status import FAILED_DETAILS

Operation = Literal["payment", "inquiry", "refund", "reversal"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

TIMES_MAX, SECONDS_MAX, RULES_MAX = 1_000, 86_400, 50

BEHAVIOURS = {
    "decline": "`decline:<detail>`: payments and refunds are declined with one of the details of a failed payment.",
    "not_sent": "`not_sent[:<times>]`: so many times, by default once, it is not sent, and nothing has happened.",
    "unheard": "`unheard[:<times>]`: so many times, by default once, no answer comes and nothing has happened.",
    "lost": "`lost[:<times>]`: it happens, and then so many answers, by default one, get lost.",
    "late": "`late:<seconds>s`: it happens, and nobody is told so soon; an inquiry finds nothing until then.",
    "delay": "`delay:<seconds>s`: each answer takes so long.",
}

_RULE = re.compile(r"([a-z]+):([a-z_]+)(?::([a-z0-9_.]+))?(?:@(\d{1,3}(?:\.\d{1,3})?))?", re.ASCII)
_SECONDS = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)s", re.ASCII)


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of a request, and of those that repeat it under its key. Nothing said: done and told at once."""

    detail: str = ""
    """What it is declined with; empty: approved."""
    not_sent: int = 0
    unheard: int = 0
    lost: int = 0
    late_ms: int = 0
    delay_ms: int = 0

    @property
    def vain(self) -> int:
        """So many requests under the key have no effect, before one has it."""
        return self.not_sent + self.unheard

    @property
    def is_counted(self) -> bool:
        """Whether the answer depends on how often it was asked."""
        return self.vain + self.lost > 0


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: whose requests it is about, what it sets, and how often in a hundred."""

    operation: Operation
    behaviour: str
    value: str | int
    percent: float = 100

    def applies(self, seed: int, ordinal: int, place: int) -> bool:
        """Whether it applies to the seller's request with that number; `place` is its own among the rules."""
        if self.percent >= 100:
            return True
        drawn = hashlib.sha256(f"{seed}:{self.operation}:{ordinal}:{place}".encode()).digest()
        return int.from_bytes(drawn[:8], "big") < self.percent / 100 * 2**64


Rules = tuple[Rule, ...]


def parse(text: str) -> Rules:
    """The rules that the text names, separated by spaces or commas. Raises `ValueError`, which says what is wrong."""
    words = text.replace(",", " ").split()
    if len(words) > RULES_MAX:
        raise ValueError(f"{len(words)} rules are more than {RULES_MAX}")
    return tuple(_rule(word) for word in words)


def of_operation(rules: Iterable[Rule], operation: Operation) -> Rules:
    """Those about this operation."""
    return tuple(rule for rule in rules if rule.operation == operation)


def depend_on_chance(rules: Rules) -> bool:
    """Whether it takes the request's number to say which of them apply."""
    return any(rule.percent < 100 for rule in rules)


def plan(rules: Rules, seed: int = 0, ordinal: int = 0) -> Plan:
    """What the rules of one operation make of the seller's request with that number; the first that sets it counts."""
    planned: dict[str, str | int] = {}
    for place, rule in enumerate(rules):
        if rule.applies(seed, ordinal, place):
            planned.setdefault(_FIELDS[rule.behaviour], rule.value)
    return replace(Plan(), **planned)  # type: ignore[arg-type]  # each behaviour reads the type of its field


def _rule(word: str) -> Rule:
    match = _RULE.fullmatch(word)
    operation, behaviour, argument, percent = match.groups() if match is not None else ("", "", None, None)
    if operation not in OPERATIONS or behaviour not in BEHAVIOURS:
        raise ValueError(
            f"{word!r} is no rule: <operation>:<behaviour>[:<argument>][@<percent>], operations"
            f" {', '.join(OPERATIONS)}, behaviours {', '.join(BEHAVIOURS)}"
        )
    if (operation, behaviour) in _NEVER:
        raise ValueError(f"{word!r}: {operation} knows no {behaviour}")
    share = 100.0 if percent is None else float(percent)
    if share > 100:
        raise ValueError(f"{word!r}: {percent} percent are more than 100")
    return Rule(operation, behaviour, _ARGUMENTS[behaviour](word, argument), share)


# A reversal undoes what is there and forbids what is not; an inquiry changes nothing that could be told later.
_NEVER = (("inquiry", "decline"), ("inquiry", "late"), ("reversal", "decline"))


def _detail(word: str, argument: str | None) -> str:
    if argument not in FAILED_DETAILS:
        raise ValueError(f"{word!r} needs a detail: {', '.join(FAILED_DETAILS)}")
    return argument


def _times(word: str, argument: str | None) -> int:
    if argument is None:
        return 1
    if not argument.isdigit() or not 0 < int(argument) <= TIMES_MAX:
        raise ValueError(f"{word!r}: {argument!r} is no number of times from 1 to {TIMES_MAX}")
    return int(argument)


def _milliseconds(word: str, argument: str | None) -> int:
    match = _SECONDS.fullmatch(argument or "")
    if match is None or float(match[1]) > SECONDS_MAX:
        raise ValueError(f"{word!r} needs seconds up to {SECONDS_MAX}, as 30s or 0.2s")
    return round(float(match[1]) * 1000)


_FIELDS = {
    "decline": "detail",
    "not_sent": "not_sent",
    "unheard": "unheard",
    "lost": "lost",
    "late": "late_ms",
    "delay": "delay_ms",
}
_ARGUMENTS: dict[str, Callable[[str, str | None], str | int]] = {
    "decline": _detail,
    "not_sent": _times,
    "unheard": _times,
    "lost": _times,
    "late": _milliseconds,
    "delay": _milliseconds,
}
