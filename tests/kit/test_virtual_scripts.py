"""Scripts of virtual terminals: their syntax, the cards they present, the results they lead to."""

from __future__ import annotations

import pytest

from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk_dev.virtual.scripts import scripts
from paydesk_dev.virtual.scripts.presented import paid_amount
from paydesk_dev.virtual.scripts.scripts import Script
from paydesk_dev.virtual.terminal.device import NEVER_CHARGED, UNKNOWN, result_of
from tables import each


@each(
    "text, script",
    [
        ("approve", Script("approve")),
        ("approve:0.05s", Script("approve", "", 0.05)),
        ("decline", Script("decline", "rejected_by_issuer")),
        ("decline:2s", Script("decline", "rejected_by_issuer", 2)),
        *((f"decline:{detail}", Script("decline", detail)) for detail in FAILED_DETAILS),
        ("decline:card_disabled:0.2s", Script("decline", "card_disabled", 0.2)),
        ("no_answer", Script("no_answer")),
        ("late:0.1s", Script("late", "", 0.1)),
        ("approve:tip=10", Script("approve", tip_percent=10)),
        ("approve:tip=5:0.05s", Script("approve", "", 0.05, 5)),
        ("cancel", Script("cancel")),
        ("ignore", Script("ignore")),
        ("hold", Script("hold")),
        ("manual", Script("manual")),
    ],
)
def test_parses_every_script(text: str, script: Script) -> None:
    """A script is a name, a detail for a decline, and a speed unless it never ends."""
    assert scripts.parse(text) == script
    assert scripts.parse(str(script)) == script


@each(
    "text, message",
    [
        ("", "hold"),
        ("aprove", "decline:<detail>"),
        ("approve:card_disabled", "valid scripts: approve"),
        ("decline:poor", "card_disabled"),
        ("decline:card_disabled:poor", "card_disabled"),
        ("hold:3s", "hold"),
        ("manual:3s", "manual"),
        ("approve:31s", "30s"),
        ("approve:-1s", "approve"),
        ("approve:tip=0", "approve:tip=<percent>"),
        ("cancel:tip=10", "approve:tip=<percent>"),
    ],
)
def test_invalid_script_is_refused_with_the_valid_ones(text: str, message: str) -> None:
    """The error lists the valid scripts or details."""
    with pytest.raises(ValueError, match=message):
        scripts.parse(text)


def test_each_paying_script_presents_its_test_card() -> None:
    """The last four digits select the acquirer's rules; the entry mode fits the script."""
    for text, name in {"approve": "visa_approved", "no_answer": "no_answer", "late": "late"}.items():
        card = scripts.parse(text).presented({"amount": "10"})["card"]
        assert card["last_digits"] == CARDS[name].last_digits
        assert (len(card["first_digits"]), card["entry_mode"]) == (6, "contactless")
    for detail in FAILED_DETAILS:
        card = scripts.parse(f"decline:{detail}").presented({"amount": "10"})["card"]
        assert (card["last_digits"], card["entry_mode"]) == (CARDS[detail].last_digits, "chip")


@pytest.mark.parametrize("text", ["approve", "decline:high_risk"])
def test_order_that_prefers_debit_gets_a_debit_card(text: str) -> None:
    """A debit card triggers the same rules."""
    preferred = {"default_type": "debit_card"}
    presented = scripts.parse(text).presented({"amount": "10", "payment_method": preferred})
    assert presented["payment_method"] == {"id": "debvisa", "type": "debit_card", "installments": 1}
    if text != "approve":
        assert presented["card"]["last_digits"] == CARDS["high_risk"].last_digits


@pytest.mark.parametrize(
    ("currency", "amount", "offered", "tip", "paid"),
    [
        ("BRL", "24.90", [5, 10], "2.49", "27.39"),
        ("BRL", "24.91", [10], "2.50", "27.41"),
        ("CLP", "1005", [10], "101", "1106"),
        ("BRL", "24.9", [5], None, "24.9"),
        ("BRL", "24.9", None, None, "24.9"),
    ],
)
def test_a_tip_is_given_where_it_is_offered(
    currency: str, amount: str, offered: list[int] | None, tip: str | None, paid: str
) -> None:
    """Rounded up to a minor unit, and added to the amount."""
    order = {"amount": amount, "currency": currency, **({"tip": {"percentages": offered}} if offered else {})}
    presented = scripts.parse("approve:tip=10").presented(order)
    assert presented.get("tip_amount") == tip
    assert paid_amount(order, presented) == paid


def test_each_acquirer_answer_becomes_a_result() -> None:
    """An unexpected answer becomes an unknown outcome."""
    order, presented = {"amount": "10"}, scripts.parse("approve").presented({"amount": "10"})
    answer = {"outcome": "approved", "amount": "10.00", "authorization_code": "831000", "reference_id": "41"}
    approved = result_of(order, presented, answer)
    assert (approved["outcome"], approved["status_detail"], approved["paid_amount"]) == (
        "approved",
        "accredited",
        "10.00",
    )
    assert (approved["reference_id"], approved["authorization_code"]) == ("41", "831000")
    assert approved["card"] == presented["card"]
    declined = result_of(order, presented, {"outcome": "declined", "status_detail": "high_risk"})
    assert (declined["outcome"], declined["status_detail"]) == ("declined", "high_risk")
    assert result_of(order, presented, {"outcome": "not_sent"}) == NEVER_CHARGED
    assert result_of(order, presented, {"outcome": "unknown"}) == result_of(order, presented, {}) == UNKNOWN
