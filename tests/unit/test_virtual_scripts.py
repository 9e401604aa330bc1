"""What a virtual terminal's script may be, and what comes of it."""

from __future__ import annotations

import pytest

from paydesk.orders.status import FAILED_DETAILS
from paydesk.virtual import scripts
from paydesk.virtual.scripts import Script


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("approve", Script("approve")),
        ("approve:0.05s", Script("approve", "", 0.05)),
        ("decline", Script("decline", "rejected_by_issuer")),
        ("decline:2s", Script("decline", "rejected_by_issuer", 2)),
        *((f"decline:{detail}", Script("decline", detail)) for detail in FAILED_DETAILS),
        ("decline:card_disabled:0.2s", Script("decline", "card_disabled", 0.2)),
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


def test_an_approval_is_what_the_protocol_asks_for() -> None:
    """An approved result pays the very amount, with six and four digits and a reference of its own."""
    order = {"amount": "10", "payment_method": {"default_type": "debit_card"}}
    first, second = (scripts.parse("approve").outcome(order) for _ in range(2))
    assert (first["outcome"], first["status_detail"], first["paid_amount"]) == ("approved", "accredited", "10")
    assert first["payment_method"] == {"id": "debvisa", "type": "debit_card", "installments": 1}
    assert first["card"]["entry_mode"] == "contactless"
    assert [len(first["card"][digits]) for digits in ("first_digits", "last_digits")] == [6, 4]
    assert first["reference_id"].isdigit()
    assert first["reference_id"] != second["reference_id"]


def test_a_decline_carries_its_detail() -> None:
    """A declined result names why."""
    outcome = scripts.parse("decline:high_risk").outcome({"amount": "1.00"})
    assert (outcome["outcome"], outcome["status_detail"]) == ("declined", "high_risk")
