"""Find full card numbers in a text, to refuse the text or to mask them in a log.

A card number has 13 to 19 digits, the prefix of a brand that issues that length, and a valid check digit. The digits
are of any script. Up to three characters other than letters may separate two of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import accumulate

MASK = "***"

# Per row: the prefixes, the lengths that are found as whole groups of digits, and the lengths that are masked inside
# longer numbers too. The second list is short because it is applied to every logged identifier.
_BRANDS: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = (
    ("4", (13, 14, 15, 16, 17, 18, 19), (16,)),  # Visa, Elo
    ("5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720", (16,), (16,)),  # Mastercard
    ("3[47]", (15,), (15,)),  # American Express
    ("30[0-5]|3095|3[689]", (14, 15, 16, 17, 18, 19), (14,)),  # Diners Club
    ("35(?:2[89]|[3-8])", (16, 17, 18, 19), (16,)),  # JCB
    # Discover, UnionPay, Maestro, Elo, Hipercard, Cabal, Naranja, RuPay
    ("6|50|5[6-9]", (13, 14, 15, 16, 17, 18, 19), (16, 19)),
    ("220[0-4]|8[12]|8600|9792|9860", (16, 17, 18, 19), (16,)),  # Mir, UnionPay, RuPay, Uzcard, Troy, Humo
)
LENGTHS = range(13, 20)
LENGTHS_INSIDE = sorted({length for _, _, lengths in _BRANDS for length in lengths})
_PREFIX = re.compile(f"(?={'|'.join(f'({prefixes})' for prefixes, _, _ in _BRANDS)})")
# Two checks, the cheaper one first.
_NO_LETTERS = re.compile("[0-9][^A-Za-z]{12}")
_ENOUGH = re.compile("[0-9](?:[^0-9A-Za-z]{0,3}[0-9]){12}")
_RUN = re.compile(r"[0-9](?:[^0-9A-Za-z]{0,3}[0-9]){12,}+")
_GROUP_OR_END, _DIGIT_OR_END = re.compile("[0-9]+|x"), re.compile("[0-9x]")
_ZERO, _SPAN, _ONES = re.compile(b"\0"), re.compile(b"\1+"), b"\1" * max(LENGTHS)
# The end of the number on a magnetic stripe, and in EMV tag 57: the expiry follows.
_BEFORE_EXPIRY = re.compile("(?<![0-9])[0-9]{14,}+(?=[Dd=^][0-9]{4})")
_STRIPE = re.compile(
    r"[0-9]{12,19}(?:=[0-9]{4}[0-9=]*|[Dd][0-9]{4}[0-9A-Fa-f]*|\^[^^?\r\n]{0,40}\^[0-9]{4}[^?\s\"&]*)\??"
)
_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)

_SINGLE = bytes(max(code - 48, 0) % 10 for code in range(256))
_NO_BRAND = bytes(chr(code) not in "2345689" for code in range(256))
_DOUBLED = bytes(digit * 2 // 10 + digit * 2 % 10 for digit in _SINGLE)


def carries(text: str) -> bool:
    """Return whether the text has a card number, as whole groups of digits or before a magnetic stripe's expiry."""
    plain = _plain(text)
    runs = _RUN.findall(plain)
    if not runs:
        return False
    return any(_numbers(runs)) or any(_numbers(_BEFORE_EXPIRY.findall(plain), glued=True))


def carried_by_reference(text: str) -> bool:
    """Return whether an identifier carries a card number. A UUID never does, whatever its digits are."""
    return carries(text) and not is_uuid(text)


def is_uuid(text: str) -> bool:
    """Return whether the text is a UUID of RFC 9562 and nothing else."""
    return _UUID.fullmatch(text) is not None


def could_carry(text: str) -> bool:
    """Return whether the text has 13 digits close together: a quick check before a thorough one."""
    plain = _plain(text)
    return _NO_LETTERS.search(plain) is not None and _ENOUGH.search(plain) is not None


def masked(text: str) -> str:
    """Return the text with every card number masked, inside longer numbers and beside any character too.

    In magnetic stripe data, and its equivalent in EMV tag 57, everything after the number is masked too.
    """
    text = _STRIPE.sub(MASK, text)
    runs = list(_RUN.finditer(_plain(text)))
    digits = [run[0] for run in runs]
    found = [*_numbers(digits), *_numbers(digits, inside=True)] if runs else []
    if not found:
        return text
    places = [run.start() + digit.start() for run in runs for digit in _DIGIT_OR_END.finditer(run[0] + "x")]
    is_masked = bytearray(len(places))
    for first, last in found:
        is_masked[first:last] = _ONES[: last - first]
    kept, end = [], 0
    for span in _SPAN.finditer(is_masked):
        kept += [text[end : places[span.start()]], MASK]
        end = places[span.end() - 1] + 1
    return "".join([*kept, text[end:]])


def _plain(text: str) -> str:
    """Return the text with each digit as the ASCII one, `x` for other letters and a space for any other character."""
    if text.isascii():
        return text
    return text.translate({ord(character): _plain_character(character) for character in set(text)})


def _plain_character(character: str) -> str:
    digit = unicodedata.digit(character, None)
    if digit is not None:
        return str(digit)
    return "x" if character.isalpha() else " "


def _numbers(runs: list[str], *, glued: bool = False, inside: bool = False) -> Iterator[tuple[int, int]]:
    """Yield where card numbers begin and end among the digits of the runs; one place is left free after each run.

    They begin and end where groups do. With `glued` they may begin inside a group. With `inside` they may end there
    too, but have a brand's usual length.
    """
    groups = _GROUP_OR_END.findall("x".join([*runs, ""]))
    digits = "".join(groups)
    heads = digits if glued or inside else "".join([group[0].ljust(len(group), "0") for group in groups])
    ends = range(len(digits)) if inside else set(accumulate(map(len, groups)))
    for first, last in _with_check_digit(digits, heads, LENGTHS_INSIDE if inside else LENGTHS):
        if last not in ends or digits.find("x", first, last) >= 0:
            continue
        prefix = _PREFIX.match(digits, first)
        if prefix is not None and last - first in _BRANDS[(prefix.lastindex or 0) - 1][2 if inside else 1]:
            yield first, last


def _with_check_digit(digits: str, heads: str, lengths: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield where each part of these lengths begins and ends whose last digit is its check digit (ISO/IEC 7812-1).

    It begins where `heads` has a digit that some brand's numbers begin with.

    A part's sum is the difference of the sums up to its end and up to its begin, each over digits of which every
    second one, counted from the part's end, is doubled. So two sums are kept for each place: `ends` as if a number
    ended there, `others` as if it ended one digit later. All places are compared at once, as bytes of two integers.
    """
    raw = digits.encode()
    even, odd = bytearray(raw.translate(_SINGLE)), bytearray(raw.translate(_DOUBLED))
    even[::2], odd[::2] = odd[::2], even[::2]
    ends, others = (bytearray(total % 10 for total in accumulate(values, initial=0)) for values in (even, odd))
    ends[1::2], others[1::2] = others[1::2], ends[1::2]
    no_begin = heads.encode().translate(_NO_BRAND)
    for length in lengths:
        count = len(digits) - length + 1
        if count <= 0:
            return
        unequal = int.from_bytes(ends[length:]) ^ int.from_bytes((others if length % 2 else ends)[:count])
        unequal |= int.from_bytes(no_begin[:count])
        for equal in _ZERO.finditer(unequal.to_bytes(count)):
            yield equal.start(), equal.start() + length
