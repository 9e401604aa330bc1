"""The simulated acquirer's rules: parsing, outcomes, and that a seed reproduces them."""

from __future__ import annotations

import pytest

from paydesk.orders.status import FAILED_DETAILS
from paydesk.payments.acquirer import Card
from paydesk.sandbox.simulator import cards, rules
from paydesk.sandbox.simulator.rules import Plan, Rule


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("payment:decline:high_risk", Rule("payment", "decline", "high_risk")),
        ("refund:decline:processing_error@2.5", Rule("refund", "decline", "processing_error", 2.5)),
        ("payment:lost", Rule("payment", "lost", 1)),
        ("reversal:unheard:3", Rule("reversal", "unheard", 3)),
        ("inquiry:not_sent:1000@0", Rule("inquiry", "not_sent", 1000, 0)),
        ("refund:late:30s@50", Rule("refund", "late", 30_000, 50)),
        ("payment:delay:0.25s", Rule("payment", "delay", 250)),
    ],
)
def test_rules_are_parsed(text: str, rule: Rule) -> None:
    """Operation, behaviour, argument and share."""
    assert rules.parse(text) == (rule,)


def test_a_script_is_several_rules() -> None:
    """Separated by spaces and commas; it may be empty."""
    assert len(rules.parse("payment:lost@10, refund:late:5s  reversal:not_sent:2")) == 3
    assert rules.parse("  ") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lost", "operations payment, inquiry, refund, reversal"),
        ("payment:explode", "behaviours decline"),
        ("payout:lost", "no rule"),
        ("payment:decline", "insufficient_amount"),
        ("payment:decline:poor", "insufficient_amount"),
        ("reversal:decline:high_risk", "reversal knows no decline"),
        ("inquiry:decline:high_risk", "inquiry knows no decline"),
        ("inquiry:late:1s", "inquiry knows no late"),
        ("payment:lost:0", "from 1 to 1000"),
        ("payment:lost:1001", "from 1 to 1000"),
        ("payment:late", "needs seconds"),
        ("payment:late:30", "needs seconds"),
        ("payment:late:86401s", "needs seconds"),
        ("payment:lost@101", "more than 100"),
        ("payment:lost@-1", "no rule"),
        ("payment:lost " * 51, "more than 50"),
    ],
)
def test_an_invalid_rule_is_explained(text: str, said: str) -> None:
    """The message names the rule and the valid values."""
    with pytest.raises(ValueError, match=said):
        rules.parse(text)


def test_the_first_matching_rule_counts() -> None:
    """Different behaviours combine; of two equal ones the first counts."""
    script = rules.parse("payment:decline:high_risk payment:decline:card_disabled payment:delay:2s payment:lost:2")
    planned = rules.plan(script)
    assert planned == Plan("high_risk", lost=2, delay_ms=2000)
    assert planned.is_counted
    assert not Plan("high_risk", delay_ms=1).is_counted


def test_only_rules_of_the_operation_count() -> None:
    """A refund is not late because of a rule for payments."""
    script = rules.parse("payment:late:1s refund:lost")
    assert rules.of_operation(script, "refund") == rules.parse("refund:lost")


def test_a_seed_reproduces_random_choices() -> None:
    """Request by request; another seed differs; the share is as configured."""
    script = rules.parse("payment:decline:high_risk@20")
    fates = {seed: [bool(rules.plan(script, seed, ordinal).detail) for ordinal in range(2000)] for seed in (1, 2)}
    assert fates[1] == [bool(rules.plan(script, 1, ordinal).detail) for ordinal in range(2000)]
    assert fates[1] != fates[2]
    assert 300 < sum(fates[1]) < 500
    assert rules.depend_on_chance(script)
    assert not rules.depend_on_chance(rules.parse("payment:lost"))
    never = rules.parse("payment:lost@0")
    assert all(rules.plan(never, 1, ordinal) == Plan() for ordinal in range(100))


def test_rules_are_drawn_independently() -> None:
    """Also with the same share."""
    script = rules.parse("payment:lost@50 payment:delay:1s@50")
    seen = {(planned.lost, planned.delay_ms) for planned in (rules.plan(script, 7, n) for n in range(50))}
    assert seen == {(0, 0), (1, 0), (0, 1000), (1, 1000)}


def test_cards_differ_in_their_last_digits() -> None:
    """Every failed detail has a card, and an unknown card is approved."""
    digits = [card.last_digits for card in cards.CARDS.values()]
    assert len(set(digits)) == len(digits)
    for detail in FAILED_DETAILS:
        one = cards.CARDS[detail]
        shown = Card("master", "credit_card", "503143", one.last_digits, "chip")
        assert rules.plan(cards.rules_of_card(shown)).detail == detail
    assert cards.rules_of_card(Card("visa", "credit_card", "423564", "1111", "chip")) == ()
    assert cards.rules_of_card(None) == ()


def test_the_rules_of_cards_and_amounts_are_valid() -> None:
    """The tables contain only valid rules."""
    for script in (*cards.AMOUNTS.values(), *(card.script for card in cards.CARDS.values())):
        rules.parse(script)
