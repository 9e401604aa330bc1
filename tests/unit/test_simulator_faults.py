"""Faults of the simulated acquirer: those of scripts, cards and amounts, which of them fire, and what they do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paydesk.core.faults import ACQUIRER_REQUESTS, KINDS, FaultRefused, parse
from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.acquirer import Card
from paydesk.engine.payments.simulator import cards, scripts
from paydesk.engine.payments.simulator.faults import GROUPS, OPERATIONS, REQUESTS, Plan, checked, firing_of, plan_of
from paydesk.engine.payments.simulator.scripts import translate
from tables import each


@each(
    "rule, line",
    [
        ("payment:decline:high_risk", "acquirer payment decline:high_risk times=0"),
        ("payment:unheard", "acquirer payment reset per=key"),
        ("reversal:unheard:3", "acquirer reversal reset times=3 per=key"),
        ("refund:lost:2", "acquirer refund answer_lost times=2 per=key"),
        ("inquiry:not_sent", "acquirer inquiry not_sent per=key"),
        ("confirmation:late:30s", "acquirer confirm late times=0 delay=30s"),
        ("payment:delay:0.25s", "acquirer payment slow times=0 delay=0.25s"),
        ("payment:lost@5", "acquirer payment answer_lost every=20 per=key seed=7"),
        (
            "refund:decline:processing_error@2.5",
            "acquirer refund decline:processing_error every=40 times=0 per=key seed=7",
        ),
        ("payment:late:5s@0.1", "acquirer payment late every=1000 times=0 delay=5s per=key seed=7"),
        ("payment:lost@50", "acquirer payment answer_lost every=2 per=key seed=7"),
        ("payment:lost@100", "acquirer payment answer_lost per=key"),
    ],
)
def test_a_rule_becomes_a_fault(rule: str, line: str) -> None:
    """An omitted count is 1; of a share, one of so many keys."""
    assert [fault.line for fault in translate(rule, 7)] == [line]


def test_a_script_is_several_rules() -> None:
    """Separated by spaces or commas; an empty script is valid, and a share of 0 % is no fault."""
    assert len(translate("payment:lost@10, refund:late:5s  reversal:not_sent:2 payment:lost@0")) == 3
    assert translate("  ") == ()


_ARGUMENTS = {
    "decline": st.sampled_from(FAILED_DETAILS).map(lambda detail: f":{detail}"),
    **dict.fromkeys(scripts.COUNTED, st.one_of(st.just(""), st.integers(1, 1000).map(lambda times: f":{times}"))),
    **dict.fromkeys(("late", "delay"), st.decimals(0, 86_400, places=3).map(lambda seconds: f":{seconds}s")),
}
_SUPPORTED = [
    (operation, behaviour)
    for operation in OPERATIONS
    for behaviour, kind in scripts.KINDS.items()
    if operation.replace("confirmation", "confirm") in REQUESTS[kind]
]
_SHARES = st.one_of(st.just(""), st.decimals("0.1", 50, places=3).map(lambda share: f"@{share}"))
_RULES = st.sampled_from(_SUPPORTED).flatmap(
    lambda pair: st.tuples(_ARGUMENTS[pair[1]], _SHARES).map(lambda rest: f"{pair[0]}:{pair[1]}{rest[0]}{rest[1]}")
)


@given(st.lists(_RULES, max_size=5), st.integers(0, 2**63 - 1))
def test_each_rule_is_a_line_of_the_grammar(rules: list[str], seed: int) -> None:
    """Which makes the same fault."""
    for fault in translate(" ".join(rules), seed):
        assert parse(fault.line) == checked(fault) == fault


@each(
    "text, message",
    [
        ("lost", "operations payment, inquiry, refund, reversal, confirmation"),
        ("payment:explode", "behaviours decline"),
        ("payout:lost", "not a rule"),
        ("payment:decline", "insufficient_amount"),
        ("payment:decline:poor", "insufficient_amount"),
        ("reversal:decline:high_risk", "'reversal:decline:high_risk': request must be payment or confirm or refund"),
        ("inquiry:decline:high_risk", "must be payment or confirm or refund"),
        ("inquiry:late:1s", "must be payment or confirm or refund or reversal"),
        ("payment:lost:0", "from 1 to 1000"),
        ("payment:lost:1001", "from 1 to 1000"),
        ("payment:late", "needs a time"),
        ("payment:late:soon", "must be a time"),
        ("payment:late:86401s", "86400 seconds"),
        *((f"payment:lost@{share}", "write @0.1 to @50, or @100") for share in (101, 90, 67, 50.1, 0.01, 0.099)),
        ("payment:lost@-1", "not a rule"),
        ("payment:lost " * 51, "limit of 50"),
    ],
)
def test_invalid_rule_is_refused_with_the_valid_values(text: str, message: str) -> None:
    """The error quotes the rule and lists what is valid."""
    with pytest.raises(ValueError, match=message):
        translate(text)


@each(
    "line, message",
    [
        ("acquirer * decline:high_risk", "request must be payment or confirm or refund with decline"),
        ("acquirer payment decline:poor", "kind must name a detail of a failed payment: rejected_by_issuer"),
        ("acquirer refund other_amount", "request must be payment with other_amount"),
        ("acquirer refund reset card=visa_approved", "match.card is only for payment"),
    ],
)
def test_fault_that_its_request_does_not_have_is_refused(line: str, message: str) -> None:
    """An inquiry and a reversal are not declined."""
    with pytest.raises(FaultRefused, match=message):
        checked(parse(line))


def test_each_kind_of_the_edge_is_simulated() -> None:
    """For the requests of the grammar."""
    assert set(GROUPS) == set(REQUESTS) == {kind for kind, edges in KINDS.items() if "acquirer" in edges}
    assert {request for requests in REQUESTS.values() for request in requests} == {"*", *ACQUIRER_REQUESTS}


def test_first_fault_of_a_group_decides() -> None:
    """Faults of different groups combine."""
    script = "payment:decline:high_risk payment:decline:card_disabled payment:delay:2s payment:late:1s payment:lost"
    assert plan_of(firing_of(translate(script))) == Plan("answer_lost", "high_risk", late_ms=1000, delay_seconds=2)
    assert plan_of(()) == Plan()
    assert plan_of(firing_of([parse("acquirer payment other_amount")])) == Plan(is_other_amount=True)


def test_requests_under_a_key_meet_one_fault_after_the_other() -> None:
    """Each as often as it says."""
    script = translate("payment:not_sent:2 payment:unheard payment:lost:3")
    ways = [plan_of(firing_of(script, 1, attempt)).way for attempt in range(1, 8)]
    assert ways == ["not_sent", "not_sent", "reset", "answer_lost", "answer_lost", "answer_lost", ""]


def test_same_seed_repeats_the_random_choices() -> None:
    """Another seed leads to other choices; the share is exact, and two rules are independent."""
    script = "payment:decline:high_risk@20 payment:lost@20"
    chosen = {
        seed: [plan_of(firing_of(translate(script, seed), ordinal)) for ordinal in range(1, 2001)] for seed in (1, 2)
    }
    assert chosen[1] == [plan_of(firing_of(translate(script, 1), ordinal)) for ordinal in range(1, 2001)]
    assert chosen[1] != chosen[2]
    assert sum(bool(plan.decline_detail) for plan in chosen[1]) == 400
    both = sum(plan.decline_detail != "" and plan.way != "" for plan in chosen[1])
    assert 40 < both < 160


def test_last_digits_select_the_fault_of_a_card() -> None:
    """They are unique, every failed detail has a card, and an unknown card is approved."""
    digits = [card.last_digits for card in cards.CARDS.values()]
    assert len(set(digits)) == len(digits)
    for detail in FAILED_DETAILS:
        presented = Card("master", "credit_card", "503143", cards.CARDS[detail].last_digits, "chip")
        assert plan_of(firing_of(cards.faults_of_card(presented))).decline_detail == detail
        assert cards.name_of(presented) == detail
    unknown = Card("visa", "credit_card", "423564", "1111", "chip")
    assert (cards.faults_of_card(unknown), cards.name_of(unknown)) == ((), "1111")
    assert (cards.faults_of_card(None), cards.name_of(None)) == ((), "")


def test_faults_of_all_cards_and_amounts_are_valid() -> None:
    """Each parses, and its request has it."""
    for card in cards.CARDS.values():
        presented = Card(card.brand, card.type, card.first_digits, card.last_digits, "chip")
        assert [checked(fault) for fault in cards.faults_of_card(presented)] or not card.fault
    for amount_minor, lines in cards.AMOUNTS.items():
        assert len([checked(fault) for fault in cards.faults_of_amount(amount_minor)]) == lines.count(";") + 1
