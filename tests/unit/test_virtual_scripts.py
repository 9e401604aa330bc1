"""What a virtual terminal's script may be, and what comes of it."""

from __future__ import annotations

import pytest

from paydesk.orders.status import FAILED_DETAILS
from paydesk.sandbox.simulator.cards import CARDS
from paydesk.sandbox.terminals import cards, scripts
from paydesk.sandbox.terminals.scripts import Script


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("approve", Script("approve")),
        ("approve:0.05s", Script("approve", "", 0.05)),
        ("decline", Script("decline", "rejected_by_issuer")),
        ("decline:2s", Script("decline", "rejected_by_issuer", 2)),
        *((f"decline:{detail}", Script("decline", detail)) for detail in FAILED_DETAILS),
        ("decline:card_disabled:0.2s", Script("decline", "card_disabled", 0.2)),
        ("no_answer", Script("no_answer")),
        ("late:0.1s", Script("late", "", 0.1)),
        ("cancel", Script("cancel")),
        ("ignore", Script("ignore")),
        ("hold", Script("hold")),
    ],
)
def test_scripts_are_read(text: str, script: Script) -> None:
    """Every script is a name, for a decline a detail, and a speed where it ends by itself."""
    assert scripts.parse(text) == script
    assert scripts.parse(str(script)) == script


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "hold"),
        ("aprove", "decline:<detail>"),
        ("approve:card_disabled", "there are: approve"),
        ("decline:poor", "card_disabled"),
        ("decline:card_disabled:poor", "card_disabled"),
        ("hold:3s", "hold"),
        ("approve:31s", "30s"),
        ("approve:-1s", "approve"),
    ],
)
def test_wrong_scripts_are_refused_with_what_there_is(text: str, said: str) -> None:
    """A wrong script names what could have been written instead."""
    with pytest.raises(ValueError, match=said):
        scripts.parse(text)


def test_every_script_is_described() -> None:
    """Whoever lists the scripts finds each with a sentence."""
    assert set(scripts.DESCRIPTIONS) == set(scripts.STEPS)


def test_every_script_that_pays_presents_its_card() -> None:
    """The card says to the acquirer what is to come of it; six digits and four are shown, and how they were read."""
    for text, name in {"approve": "visa_approved", "no_answer": "no_answer", "late": "late"}.items():
        card = scripts.parse(text).presented({"amount": "10"})["card"]
        assert card["last_digits"] == CARDS[name].last_digits
        assert (len(card["first_digits"]), card["entry_mode"]) == (6, "contactless")
    for detail in FAILED_DETAILS:
        card = scripts.parse(f"decline:{detail}").presented({"amount": "10"})["card"]
        assert (card["last_digits"], card["entry_mode"]) == (CARDS[detail].last_digits, "chip")


@pytest.mark.parametrize("text", ["approve", "decline:high_risk"])
def test_an_order_may_want_a_debit_card(text: str) -> None:
    """Then the card is one, and means the same."""
    wanted = {"default_type": "debit_card"}
    shown = scripts.parse(text).presented({"amount": "10", "payment_method": wanted})
    assert shown["payment_method"] == {"id": "debvisa", "type": "debit_card", "installments": 1}
    if text != "approve":
        assert shown["card"]["last_digits"] == CARDS["high_risk"].last_digits


def test_results_are_what_the_protocol_asks_for() -> None:
    """Each answer of the acquirer is a result; what is none is an unknown outcome."""
    order, shown = {"amount": "10"}, scripts.parse("approve").presented({"amount": "10"})
    told = {"outcome": "approved", "amount": "10.00", "authorization_code": "831000", "reference_id": "41"}
    approved = cards.result(order, shown, told)
    assert (approved["outcome"], approved["status_detail"], approved["paid_amount"]) == ("approved", "accredited", "10")
    assert (approved["reference_id"], approved["authorization_code"]) == ("41", "831000")
    assert approved["card"] == shown["card"]
    declined = cards.result(order, shown, {"outcome": "declined", "status_detail": "high_risk"})
    assert (declined["outcome"], declined["status_detail"]) == ("declined", "high_risk")
    assert cards.result(order, shown, {"outcome": "not_sent"})["status_detail"] == "processing_error"
    assert (
        cards.result(order, shown, {"outcome": "unknown"}) == cards.result(order, shown, {}) == {"outcome": "unknown"}
    )
