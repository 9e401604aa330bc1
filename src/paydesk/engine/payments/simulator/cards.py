"""The test cards and test amounts of the simulated acquirer, with the faults that each triggers. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from paydesk.core.faults import Fault, parse
from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.acquirer import Card


@dataclass(frozen=True, slots=True)
class TestCard:
    """A test card: its name, brand and type on the wire, its first and last digits, and its fault.

    Only the last four digits select the fault; the brand has no influence.
    """

    __test__ = False

    name: str
    brand: str
    type: str
    first_digits: str
    last_digits: str
    fault: str = ""
    """Its line, without the edge."""


_VISA, _DEBIT_VISA = ("visa", "credit_card", "423564"), ("debvisa", "debit_card", "400276")

CARDS: Mapping[str, TestCard] = {
    card.name: card
    for card in (
        TestCard("visa_approved", *_VISA, "5682"),
        TestCard("master_approved", "master", "credit_card", "503143", "6351"),
        TestCard("amex_approved", "amex", "credit_card", "375365", "1885"),
        TestCard("debvisa_approved", *_DEBIT_VISA, "3704"),
        TestCard("debmaster_approved", "debmaster", "debit_card", "528733", "8311"),
        *(
            TestCard(detail, *_VISA, f"90{number:02d}", f"payment decline:{detail} times=0")
            for number, detail in enumerate(FAILED_DETAILS, 1)
        ),
        TestCard("wrong_pin", *_VISA, "9020", "payment decline:max_attempts_exceeded times=0"),
        TestCard("no_answer", *_VISA, "9021", "payment answer_lost per=key"),
        TestCard("late", *_VISA, "9022", "payment late:30s times=0"),
        TestCard("slow", *_VISA, "9023", "payment slow:5s times=0"),
        TestCard("chip_unreadable", *_VISA, "9024"),
        TestCard("insert_only", *_VISA, "9025"),
    )
}

AMOUNTS: Mapping[int, str] = {
    **{9_990_000 + number: f"payment decline:{detail} times=0" for number, detail in enumerate(FAILED_DETAILS, 1)},
    9_990_020: "payment answer_lost per=key",
    9_990_021: "payment reset per=key",
    9_990_022: "payment not_sent per=key",
    9_990_023: "payment late:30s times=0",
    9_990_024: "payment slow:5s times=0",
    9_990_025: "payment answer_lost per=key; inquiry answer_lost times=3 per=key",
    9_990_026: "inquiry not_sent times=3 per=key",
    9_990_030: "refund decline:rejected_by_issuer times=0",
    9_990_031: "refund answer_lost per=key",
    9_990_032: "refund reset per=key",
    9_990_033: "refund not_sent per=key",
    9_990_034: "refund late:30s times=0",
    9_990_035: "refund late:30s times=0; refund decline:rejected_by_issuer times=0",
    9_990_036: "refund slow:7s times=0",
    9_990_040: "reversal answer_lost times=3 per=key",
    9_990_041: "reversal reset times=3 per=key",
    9_990_042: "reversal not_sent times=3 per=key",
    9_990_043: "reversal late:30s times=0",
    9_990_044: "payment late:30s times=0; reversal reset times=3 per=key",
    9_990_050: "confirm decline:processing_error times=0",
    9_990_051: "confirm answer_lost times=3 per=key",
    9_990_052: "confirm reset times=3 per=key",
    9_990_053: "confirm not_sent times=3 per=key",
    9_990_054: "confirm late:30s times=0",
}
"""Faults by a payment's amount in minor units, as lines without the edge. They apply to its other requests too."""

_BY_DIGITS = {card.last_digits: card for card in CARDS.values()}


def name_of(card: Card | None) -> str:
    """Return the name of a test card; of another card its last digits."""
    if card is None:
        return ""
    test_card = _BY_DIGITS.get(card.last_digits)
    return card.last_digits if test_card is None else test_card.name


def faults_of_card(card: Card | None) -> tuple[Fault, ...]:
    """Return the faults that the card triggers."""
    test_card = None if card is None else _BY_DIGITS.get(card.last_digits)
    return _faults_of(test_card.fault) if test_card is not None else ()


def faults_of_amount(amount_minor: int) -> tuple[Fault, ...]:
    """Return the faults that a payment of this amount triggers."""
    return _faults_of(AMOUNTS[amount_minor]) if amount_minor in AMOUNTS else ()


@cache
def _faults_of(lines: str) -> tuple[Fault, ...]:
    return tuple(parse(f"acquirer {line}") for line in lines.split("; ") if line)
