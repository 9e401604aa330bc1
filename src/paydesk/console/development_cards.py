"""The test cards of the simulated acquirer in words: what each does at a virtual terminal."""

from __future__ import annotations

from typing import NamedTuple

from paydesk.sandbox.simulator import cards
from paydesk.sandbox.virtual.looks import TRAY

_AWKWARD = {
    "wrong_pin": "Inserted, every PIN is wrong; after the third the payment is declined.",
    "no_answer": "It is charged, but the answer is lost: the outcome is unknown until an inquiry finds it.",
    "late": "It is charged after 30 s; until then inquiries find nothing. Advance the clock.",
    "slow": "It is approved after 5 s.",
}


class ShownCard(NamedTuple):
    """A test card: its name, code and last digits, and what it does, which by default is its code."""

    name: str
    code: str
    digits: str
    does: str


class Deck(NamedTuple):
    """Test cards with the same outcome."""

    name: str
    says: str
    column: str
    """The title of what each card does."""
    cards: list[ShownCard]


def _deck(name: str, says: str, column: str) -> Deck:
    shown = [
        ShownCard(one.name, one.code, cards.CARDS[one.code].last_digits, _AWKWARD.get(one.code, one.code))
        for one in TRAY[name]
    ]
    return Deck(name, says, column, shown)


DECKS = (
    (
        _deck("Approved", "the order is processed", "Code"),
        _deck("Awkward", "what goes wrong between terminal and acquirer", "What happens"),
    ),
    (_deck("Declined", "the order fails with this detail, and nothing is charged", "Detail"),),
)
"""All cards, in two columns."""
assert sum(len(deck.cards) for column in DECKS for deck in column) == len(cards.CARDS), "every card is shown"
