"""Rules of the simulated acquirer: their syntax, the plans they lead to, and their random choices."""

from __future__ import annotations

import pytest

from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.acquirer import Card
from paydesk.engine.payments.simulator import cards, rules
from paydesk.engine.payments.simulator.rules import Plan, Rule
from tables import each


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
def test_parses_operation_behaviour_argument_and_percentage(text: str, rule: Rule) -> None:
    """An omitted count is 1, an omitted percentage is 100."""
    assert rules.parse(text) == (rule,)


def test_a_script_is_several_rules() -> None:
    """Rules are separated by spaces or commas; an empty script is valid."""
    assert len(rules.parse("payment:lost@10, refund:late:5s  reversal:not_sent:2")) == 3
    assert rules.parse("  ") == ()


@each(
    "text, message",
    [
        ("lost", "operations payment, inquiry, refund, reversal, confirmation"),
        ("payment:explode", "behaviours decline"),
        ("payout:lost", "not a rule"),
        ("payment:decline", "insufficient_amount"),
        ("payment:decline:poor", "insufficient_amount"),
        ("reversal:decline:high_risk", "reversal does not support decline"),
        ("inquiry:decline:high_risk", "inquiry does not support decline"),
        ("inquiry:late:1s", "inquiry does not support late"),
        ("payment:lost:0", "from 1 to 1000"),
        ("payment:lost:1001", "from 1 to 1000"),
        ("payment:late", "needs seconds"),
        ("payment:late:30", "needs seconds"),
        ("payment:late:86401s", "needs seconds"),
        ("payment:lost@101", "more than 100"),
        ("payment:lost@-1", "not a rule"),
        ("payment:lost " * 51, "limit of 50"),
    ],
)
def test_invalid_rule_is_refused_with_the_valid_values(text: str, message: str) -> None:
    """The error quotes the rule and lists what is valid."""
    with pytest.raises(ValueError, match=message):
        rules.parse(text)


def test_first_rule_for_a_behaviour_wins() -> None:
    """Rules for different behaviours combine."""
    script = rules.parse("payment:decline:high_risk payment:decline:card_disabled payment:delay:2s payment:lost:2")
    planned = rules.plan(script)
    assert planned == Plan("high_risk", lost_times=2, delay_ms=2000)
    assert planned.depends_on_attempt
    assert not Plan("high_risk", delay_ms=1).depends_on_attempt


def test_rules_apply_only_to_their_operation() -> None:
    """A refund is not late because payments are."""
    script = rules.parse("payment:late:1s refund:lost")
    assert rules.of_operation(script, "refund") == rules.parse("refund:lost")


def test_same_seed_repeats_the_random_choices() -> None:
    """Another seed leads to other choices; the share is close to the percentage."""
    script = rules.parse("payment:decline:high_risk@20")
    choices = {
        seed: [bool(rules.plan(script, seed, ordinal).decline_detail) for ordinal in range(2000)] for seed in (1, 2)
    }
    assert choices[1] == [bool(rules.plan(script, 1, ordinal).decline_detail) for ordinal in range(2000)]
    assert choices[1] != choices[2]
    assert 300 < sum(choices[1]) < 500
    assert rules.are_random(script)
    assert not rules.are_random(rules.parse("payment:lost"))
    never = rules.parse("payment:lost@0")
    assert all(rules.plan(never, 1, ordinal) == Plan() for ordinal in range(100))


def test_rules_with_the_same_percentage_are_independent() -> None:
    """All four combinations occur."""
    script = rules.parse("payment:lost@50 payment:delay:1s@50")
    seen = {(planned.lost_times, planned.delay_ms) for planned in (rules.plan(script, 7, n) for n in range(50))}
    assert seen == {(0, 0), (1, 0), (0, 1000), (1, 1000)}


def test_last_digits_select_the_rules_of_a_card() -> None:
    """They are unique, every failed detail has a card, and an unknown card is approved."""
    digits = [card.last_digits for card in cards.CARDS.values()]
    assert len(set(digits)) == len(digits)
    for detail in FAILED_DETAILS:
        last_digits = cards.CARDS[detail].last_digits
        presented = Card("master", "credit_card", "503143", last_digits, "chip")
        assert rules.plan(cards.rules_of_card(presented)).decline_detail == detail
    assert cards.rules_of_card(Card("visa", "credit_card", "423564", "1111", "chip")) == ()
    assert cards.rules_of_card(None) == ()


def test_rules_of_all_cards_and_amounts_are_valid() -> None:
    """Each parses without an error."""
    for script in (*cards.AMOUNTS.values(), *(card.script for card in cards.CARDS.values())):
        rules.parse(script)
