"""Rules that a terminal keeps throughout: each reads the whole log and returns the first violation."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from paydesk.core.text import card_numbers
from paydesk_dev.conformance.case import Outcome
from paydesk_dev.conformance.terminals.exchanges import IN_SESSION, Log

Rule = Callable[[Log], str]

IN_FLIGHT_SECONDS = 0.5
"""A request that the terminal sent this long after a newer session began may have been on its way."""
REFUSED_FOR_FORM = (400, 404, 405, 413, 415, 422)
RULES: dict[str, tuple[int, str, Rule]] = {}
"""The rules by name: the section of docs/build-a-terminal.md, what the terminal must do, and the function."""

_TRACK = re.compile(r"[%;]?B?\d{12,19}[\^=]")
_SENSITIVE = frozenset(
    {"pan", "card_number", "track", "track1", "track2", "track_data", "cvv", "cvc", "cvv2", "pin", "pin_block"}
)


def rule(name: str, section: int, must: str) -> Callable[[Rule], Rule]:
    """Make a rule of the function."""

    def add(judged: Rule) -> Rule:
        RULES[name] = section, must, judged
        return judged

    return add


@rule("one-session", 2, "Makes every call in the session of its newest hello; only results may be late.")
def _one_session(log: Log) -> str:
    newest = ""
    since = 0.0
    welcomed: dict[str, float] = {}
    for each in sorted(log.exchanges, key=lambda each: each.started):
        for hello in (one for one in log.find("hello") if one.status == 200 and one.boot_id not in welcomed):
            if hello.answered is not None and hello.answered <= each.started:
                welcomed[hello.boot_id] = hello.answered
                newest, since = hello.boot_id, hello.answered
        if each.kind not in IN_SESSION:
            continue
        if each.boot_id not in welcomed:
            return f"{each} came before the hello of its boot_id was answered."
        if each.boot_id != newest and each.started > since + IN_FLIGHT_SECONDS:
            return f"{each} came with an earlier boot_id, {each.started - since:.1f} s after a newer session began."
    return ""


@rule("rising-seq", 4, "Sends progress with a `seq` that rises, the same again only for a repetition.")
def _rising_seq(log: Log) -> str:
    last: dict[tuple[str, str], tuple[int, str]] = {}
    for each in log.find("progress", "authorizing"):
        key, now = (each.boot_id, each.lease_id), (each.body.get("seq"), str(each.body.get("step")))
        before = last.get(key)
        if not isinstance(now[0], int):
            return f"{each} has no whole number as seq."
        if before is not None and now != before and now[0] <= before[0]:
            return f"{now[1]} has seq {now[0]}, and {before[1]} before it had {before[0]}."
        last[key] = now[0], now[1]
    return ""


@rule("one-result", 4, "Reports one result under one id, always with the same content.")
def _one_content(log: Log) -> str:
    contents: dict[str, Any] = {}
    results: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for each in log.find("result"):
        if contents.setdefault(each.result_id, each.content) != each.content:
            return f"The result {each.result_id} was sent with two contents."
        results[each.lease_id][each.result_id] = str(each.content.get("outcome"))
    for lease_id, outcomes in results.items():
        # A second result may follow `unknown`.
        final = [outcome for outcome in outcomes.values() if outcome != "unknown"]
        if len(final) > 1 or len(outcomes) > 2:
            return (
                f"The lease {lease_id} has {len(outcomes)} results under different ids: {', '.join(outcomes.values())}."
            )
    return ""


@rule("permit-first", 4, "Charges only after `go: true`.")
def _charges_with_permit(log: Log) -> str:
    for charge in log.find("charge"):
        asked = log.find("authorizing", lease_id=charge.lease_id)
        if not any(one.answer.get("go") is True and (one.answered or charge.started) < charge.started for one in asked):
            return f"The payment of the lease {charge.lease_id} was charged without a permit."
    for result in log.find("result"):
        asked = log.find("authorizing", "authorize", lease_id=result.lease_id)
        is_permitted = any(one.answer.get("go") is True or one.charges for one in asked)
        if result.content.get("outcome") == "approved" and not is_permitted:
            return f"An approval of the lease {result.lease_id} was reported, and it had no permit."
    return ""


@rule("well-formed", 1, "Sends only requests that the service can read.")
def _well_formed(log: Log) -> str:
    for each in log.exchanges:
        if each.served in REFUSED_FOR_FORM and each.kind != "pairing-token":  # Pending is a 400 there.
            reason = "; ".join(
                str(detail)
                for error in each.answer.get("errors", [])
                for detail in error.get("details", [error.get("message")])
            )
            return f"{each} was refused with {each.served}: {reason or each.code}."
    return ""


@rule("request-rate", 6, "Sends at most 20 requests a second, and 40 at once.")
def _not_too_fast(log: Log) -> str:
    return next(
        (f"{each} was refused because requests came too fast." for each in log.exchanges if each.served == 429), ""
    )


@rule("no-card-data", 5, "Sends no card number, track data, verification value or PIN.")
def _no_card_data(log: Log) -> str:
    for each in log.exchanges:
        for name, value in _values(each.body):
            if name.lower() in _SENSITIVE:
                return f"{each} has a field {name}."
            is_identifier = name == "reference_id" or card_numbers.is_uuid(value)
            if not is_identifier and (card_numbers.carries(value) or _TRACK.search(value)):
                return f"{each} has a card number or track data in {name or 'its body'}."
    return ""


def _values(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _values(inner, str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _values(inner, name)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        yield name, str(value)


def judge(log: Log) -> Iterator[Outcome]:
    """Yield the outcome of each rule."""
    for name, (section, must, judged) in RULES.items():
        violation = judged(log)
        yield Outcome(name, section, must, "failed" if violation else "held", violation)
