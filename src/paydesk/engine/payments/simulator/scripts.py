"""The setting `simulator_script`, translated to faults. Pure: no I/O.

A rule is `<operation>:<behaviour>[:<argument>][@<percent>]`. Of a share, `every` is the nearest whole number of keys.
"""

from __future__ import annotations

import re
from typing import Any

from paydesk.core.faults import EVERY_MAX, SEED_MAX, TIMES_MAX, Fault, FaultRefused, create
from paydesk.engine.payments.simulator.faults import CONFIRM, OPERATIONS, checked

RULES_MAX = 50
SHARE_MIN, SHARE_MAX = 100 / EVERY_MAX, 50
"""In percent, for one of `EVERY_MAX` keys and one of two."""
KINDS = {
    "decline": "decline",
    "not_sent": "not_sent",
    "unheard": "reset",
    "lost": "answer_lost",
    "late": "late",
    "delay": "slow",
}
"""The kind of each behaviour."""
COUNTED = ("not_sent", "unheard", "lost")
"""The argument of these is a number of requests under a key. Others happen to each request."""

_RULE = re.compile(r"([a-z]+):([a-z_]+)(?::([a-z0-9_.]+))?(?:@(\d{1,3}(?:\.\d{1,3})?))?", re.ASCII)


def translate(script: str, seed: int = 0) -> tuple[Fault, ...]:
    """Return the faults of rules separated by spaces or commas. Raises `ValueError` that states the mistake."""
    words = script.replace(",", " ").split()
    if len(words) > RULES_MAX:
        raise ValueError(f"{len(words)} rules exceed the limit of {RULES_MAX}")
    # Each rule has a seed of its own, so that rules with one share are independent.
    faults = (_fault(word, (seed + number) % (SEED_MAX + 1)) for number, word in enumerate(words))
    return tuple(fault for fault in faults if fault is not None)


def _fault(word: str, seed: int) -> Fault | None:
    """Return the fault of a rule; None for a share of 0 %."""
    match = _RULE.fullmatch(word)
    operation, behaviour, argument, percent = match.groups() if match is not None else ("", "", None, None)
    if operation not in OPERATIONS or behaviour not in KINDS:
        raise ValueError(
            f"{word!r} is not a rule: <operation>:<behaviour>[:<argument>][@<percent>], operations"
            f" {', '.join(OPERATIONS)}, behaviours {', '.join(KINDS)}"
        )
    share = 100.0 if percent is None else float(percent)
    if not (share in (0, 100) or SHARE_MIN <= share <= SHARE_MAX):
        raise ValueError(
            f"{word!r}: a share is one key of each 2 to {EVERY_MAX}: write @{SHARE_MIN} to @{SHARE_MAX}, or @100"
        )
    kind, times = KINDS[behaviour], 0
    if behaviour in COUNTED:
        times = int(argument or 1) if (argument or "1").isdigit() else 0
        if not 0 < times <= TIMES_MAX:
            raise ValueError(f"{word!r}: {argument!r} is not a number from 1 to {TIMES_MAX}")
    elif argument is None and behaviour != "decline":
        raise ValueError(f"{word!r} needs a time, such as 30s or 0.2s")
    elif argument is not None:
        kind = f"{kind}:{argument}"
    every = round(100 / share) if share else 0
    chance: dict[str, Any] = {"every": every, "seed": seed} if every > 1 else {}
    per = "key" if times or every > 1 else "all"
    request = CONFIRM if operation == "confirmation" else operation
    try:
        fault = checked(create("acquirer", request, kind, times=times, per=per, **chance))
    except FaultRefused as error:
        raise ValueError(f"{word!r}: {error}") from None
    return fault if share else None
