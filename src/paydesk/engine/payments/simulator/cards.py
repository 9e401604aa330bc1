"""The test cards and test amounts of the simulated acquirer, with the rules that each triggers. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.acquirer import Card
from paydesk.engine.payments.simulator import rules
from paydesk.engine.payments.simulator.rules import Rules


@dataclass(frozen=True, slots=True)
class TestCard:
    """A test card: its name, brand and type on the wire, its first and last digits, and its rules.

    Only the last four digits select the rules; the brand has no influence.
    """

    __test__ = False

    name: str
    brand: str
    type: str
    first_digits: str
    last_digits: str
    script: str = ""


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
            TestCard(detail, *_VISA, f"90{number:02d}", f"payment:decline:{detail}")
            for number, detail in enumerate(FAILED_DETAILS, 1)
        ),
        TestCard("wrong_pin", *_VISA, "9020", "payment:decline:max_attempts_exceeded"),
        TestCard("no_answer", *_VISA, "9021", "payment:lost"),
        TestCard("late", *_VISA, "9022", "payment:late:30s"),
        TestCard("slow", *_VISA, "9023", "payment:delay:5s"),
        TestCard("chip_unreadable", *_VISA, "9024"),
        TestCard("insert_only", *_VISA, "9025"),
    )
}

AMOUNTS: Mapping[int, str] = {
    **{9_990_000 + number: f"payment:decline:{detail}" for number, detail in enumerate(FAILED_DETAILS, 1)},
    9_990_020: "payment:lost",
    9_990_021: "payment:unheard",
    9_990_022: "payment:not_sent",
    9_990_023: "payment:late:30s",
    9_990_024: "payment:delay:5s",
    9_990_025: "payment:lost inquiry:lost:3",
    9_990_026: "inquiry:not_sent:3",
    9_990_030: "refund:decline:rejected_by_issuer",
    9_990_031: "refund:lost",
    9_990_032: "refund:unheard",
    9_990_033: "refund:not_sent",
    9_990_034: "refund:late:30s",
    9_990_035: "refund:late:30s refund:decline:rejected_by_issuer",
    9_990_036: "refund:delay:7s",
    9_990_040: "reversal:lost:3",
    9_990_041: "reversal:unheard:3",
    9_990_042: "reversal:not_sent:3",
    9_990_043: "reversal:late:30s",
    9_990_044: "payment:late:30s reversal:unheard:3",
    9_990_050: "confirmation:decline:processing_error",
    9_990_051: "confirmation:lost:3",
    9_990_052: "confirmation:unheard:3",
    9_990_053: "confirmation:not_sent:3",
    9_990_054: "confirmation:late:30s",
}
"""Rules by a payment's amount in minor units. They apply to its other requests too."""

_BY_DIGITS = {card.last_digits: rules.parse(card.script) for card in CARDS.values() if card.script}
_BY_AMOUNT = {amount_minor: rules.parse(script) for amount_minor, script in AMOUNTS.items()}


def rules_of_card(card: Card | None) -> Rules:
    """Return the rules that the card triggers."""
    return _BY_DIGITS.get(card.last_digits, ()) if card is not None else ()


def rules_of_amount(amount_minor: int) -> Rules:
    """Return the rules that a payment of this amount triggers."""
    return _BY_AMOUNT.get(amount_minor, ())
