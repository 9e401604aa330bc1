"""Full card numbers in a text: found, so that they are refused, or masked, so that they are not logged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

MASK = "***"
LENGTHS = (15, 16, 19)
GROUPS_MAX = 19

# Digits in groups, as cards show them; a number that stands before or behind a card's is a group of its own.
_RUN = re.compile(r"\d+(?:[ -]\d+)*", re.ASCII)
_GROUP = re.compile(r"\d+", re.ASCII)
_ENOUGH_DIGITS = re.compile(r"\d(?:[ -]?\d){14}", re.ASCII)
_BRANDS = re.compile(r"3[47]\d{13}|(?:4|5[1-5]|2[2-7]|50|5[06-9]|6)\d+", re.ASCII)


def carries(text: str) -> bool:
    """Whether the text carries a card number: 15, 16 or 19 digits, a known brand's prefix, a right check digit."""
    return any(True for _ in _spans(text, lambda digits: bool(_BRANDS.fullmatch(digits)) and passes_luhn(digits)))


def could_carry(text: str) -> bool:
    """Whether the text has as many digits in one run as the shortest number; a quick look before a thorough one."""
    return _ENOUGH_DIGITS.search(text) is not None


def masked(text: str) -> str:
    """The text without anything like a card number, of whatever brand; parts of words and fractions are none."""
    kept, end = [], 0
    for start, stop in _spans(text, passes_luhn):
        is_part = text[max(start - 1, 0) : start].strip(" -").isalnum() or text[start - 1 : start] in (".", "_")
        if start >= end and not is_part and text[stop : stop + 1] not in (".", "_"):
            kept += [text[end:start], MASK]
            end = stop
    return "".join([*kept, text[end:]])


def passes_luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of those before it (ISO/IEC 7812-1 annex B)."""
    doubled = (int(digit) * (2 if place % 2 else 1) for place, digit in enumerate(reversed(digits)))
    return sum(number // 10 + number % 10 for number in doubled) % 10 == 0


def _spans(text: str, is_one: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """Where groups of digits that follow one another make a number that `is_one`, from left to right."""
    for run in _RUN.finditer(text) if could_carry(text) else ():
        groups = [(run.start() + group.start(), run.start() + group.end()) for group in _GROUP.finditer(run[0])]
        for first in range(len(groups)):
            for last in range(first, min(first + GROUPS_MAX, len(groups))):
                digits = "".join(text[start:stop] for start, stop in groups[first : last + 1])
                if len(digits) in LENGTHS and is_one(digits):
                    yield groups[first][0], groups[last][1]
