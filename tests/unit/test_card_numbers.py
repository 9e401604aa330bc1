"""Card numbers are found in any script and spelling, and other digits are not, in a time that is nearly linear."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost import Within, each_way
from paydesk.core.text.card_numbers import carried_by_reference, carries, could_carry, masked
from tables import each

VISA = "4509953566233704"
BODY_BYTES = 64 * 1024
MILLISECONDS_MAX = 50
MASKING_MILLISECONDS_MAX = 300

BRANDS = {
    "Visa of 13": "4222222222222",
    "Visa of 16": "4111111111111111",
    "Visa of 19": "4000000000000000006",
    "Mastercard": "5555555555554444",
    "Mastercard, second series": "2223003122003222",
    "American Express": "378282246310005",
    "Diners Club": "30569309025904",
    "Discover": "6011111111111117",
    "JCB": "3530111333300000",
    "UnionPay": "6200000000000005",
    "Maestro": "6759649826438453",
    "Maestro of 19": "6304000000000000000",
    "Elo": "6362970000457013",
    "Mir": "2200000000000004",
}

DISGUISES: dict[str, Callable[[str], str]] = {
    "plain": str,
    "groups": lambda number: " ".join(number[place : place + 4] for place in range(0, len(number), 4)),
    "dashes": "-".join,
    "dots and spaces": " . ".join,
    "line breaks": "\r\n".join,
    "zero-width": "\u200b".join,
    "soft hyphens": "\u00ad".join,
    "full width": lambda number: number.translate({48 + digit: 0xFF10 + digit for digit in range(10)}),
    "Arabic-Indic": lambda number: number.translate({48 + digit: 0x660 + digit for digit in range(10)}),
    "Devanagari": lambda number: number.translate({48 + digit: 0x966 + digit for digit in range(10)}),
    "mathematical": lambda number: number.translate({48 + digit: 0x1D7CE + digit for digit in range(10)}),
    "superscript": lambda number: number.translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")),
    "keycaps": "\ufe0f\u20e3".join,
    "track 1": lambda number: f"%B{number}^SHOPPER/ANA^25121010000000000?",
    "track 2": lambda number: f";{number}=25121010000000000?",
    "EMV tag 57": lambda number: f"{number}D25121010000000000F",
    "EMV tag 57 with its length": lambda number: f"5713{number}D25121010000000000F",
    "after another number": lambda number: f"12 {number}",
    "before another number": lambda number: f"{number} 12",
    "in a word": lambda number: f"x{number}y",
}


@each("number", BRANDS.values(), ids=BRANDS.keys())
@each("disguise", DISGUISES.values(), ids=DISGUISES.keys())
def test_a_card_number_is_found_and_masked(disguise: Callable[[str], str], number: str) -> None:
    """Each brand's number in each spelling; what masking leaves has no card number and at most a few of its digits."""
    text = f"paid with {disguise(number)}, thanks"
    assert could_carry(text)
    assert carries(text)
    assert not carries(masked(text))
    assert "***" in masked(text)
    assert masked(text).startswith("paid with ")
    assert masked(text).endswith(", thanks")
    assert number[-6:] not in masked(text)


@each(
    "text",
    ["Order 2024-11-22 14:30 table 12 total 24.90 BRL", "Delivery +55 11 91234-5678", "order 20260131142642",
     "4509953566233705", "1234567890123452", "14509953566233704", "4509    953566233704", "4509x953566233704",
     "450995356623", "5555555555557", "ORD01J67CQQH5904WDBVZEM4JMEP3", ""],
)  # fmt: skip
def test_other_digits_are_not_found(text: str) -> None:
    """Dates, telephone numbers, wrong check digits, unknown prefixes and lengths, parts of longer numbers."""
    assert not carries(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("table 12 4509 9535 6623 3704 paid", "table 12 *** paid"),
        (VISA, "***"),
        (f"0.{VISA}", "0.***"),
        (f"x{VISA}", "x***"),
        (f"1{VISA}2", "1***2"),
        ("order 20260131142642", "order 20260131142642"),
        (f"%B{VISA}^SHOPPER/ANA^2512101?, ;{VISA}=2512101? {VISA}D2512101F", "%B***, ;*** ***"),
    ],
)
def test_masking_keeps_the_rest(text: str, expected: str) -> None:
    """A number is masked inside longer numbers too, and a stripe's data with it; other text stays."""
    assert masked(text) == expected


def test_a_uuid_in_a_reference_is_not_a_card_number() -> None:
    """Whatever its digits are; the same digits in a description are one."""
    uuid = "41111111-1111-1111-8000-000000000000"
    assert carries(uuid)
    assert not carried_by_reference(uuid)
    assert carried_by_reference(VISA)
    assert carried_by_reference("41111111-1111-1111-0000-000000000000")


@given(st.text(alphabet=" 4-0123456789x\u0664\u200b", max_size=60))
def test_every_found_number_is_masked(text: str) -> None:
    """What the thorough look finds the quick one finds too, and it is masked."""
    if carries(text):
        assert could_carry(text)
        assert masked(text) != text


def _long_texts() -> dict[str, str]:
    chance = random.Random(1)
    digits = "".join(chance.choices("0123456789", k=BODY_BYTES))
    texts = {
        "ones": "1 " * BODY_BYTES,
        "fours": "4 " * BODY_BYTES,
        "forties": "40 " * BODY_BYTES,
        "digits": digits,
        "spaced digits": " ".join(digits),
        "zeros": "0" * BODY_BYTES,
        "all fours": "4" * BODY_BYTES,
        "Arabic-Indic digits": "\u0664" * BODY_BYTES,
        "zero-width": "4\u200b" * BODY_BYTES,
        "separators": " " * BODY_BYTES,
        "stripes": "41111111111112D2512" * BODY_BYTES,
        "long stripes": "4111111111111111112D2512" * BODY_BYTES,
        "nearly numbers": "4111111111112x" * BODY_BYTES,
        "twelve digits": ("1   " * 12 + "x") * BODY_BYTES,
        "digits and letters": "4x" * BODY_BYTES,
        "many letters": "".join(chr(0x4E00 + place) for place in range(20_000)),
        "groups of digits": "x".join(digits[place : place + 19] for place in range(0, BODY_BYTES, 19)),
    }
    return {name: text.encode()[:BODY_BYTES].decode(errors="ignore") for name, text in texts.items()}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in _long_texts().items()])
@each_way
def test_the_longest_body_is_searched_in_time(text: str, within: Within) -> None:
    """64 KiB of whatever in 50 ms of processor time, masked in 300 ms."""
    within(MILLISECONDS_MAX, carries, text)
    within(MILLISECONDS_MAX, could_carry, text)
    within(MASKING_MILLISECONDS_MAX, masked, text)
