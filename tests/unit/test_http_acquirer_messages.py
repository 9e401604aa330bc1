"""The messages of the HTTP adapter: request bodies, what answers mean, and signatures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from paydesk.core.secrets import Secret
from paydesk.engine.payments.acquirer import Approved, Card, Declined, NotFound, Payment, TooLate, Unknown
from paydesk.engine.payments.http import wire
from paydesk.engine.payments.http.signing import Signer, Verdict
from played_switch import APPROVED, CARD, OTHER_SECRET, PAYMENT, SECRET
from tables import each

UNREADABLE = "the answer is unreadable"
FULL = {
    **APPROVED,
    "authorization_code": "A83100",
    "needs_confirmation": True,
    "issuer_data": "igIwMA==",
    "payment_method": {"id": "master", "type": "debit_card"},
    "card": {"first_digits": "503143", "last_digits": "6351", "entry_mode": "chip"},
    "installments": 2,
    "a_later_version": [1],
}


def approved(**more: Any) -> Approved:
    """Return the result of `APPROVED`."""
    values = {"installments": 3, "currency": "BRL", "key": PAYMENT.payment_id, **more}
    return Approved("7f1c-2b.A_9", values.pop("amount_minor", 2490), **values)


def of(operation: str) -> wire.Operation[Any]:
    """Return the operation of this name."""
    found: wire.Operation[Any] = getattr(wire, operation.upper())
    return found


@each(
    "operation, answer, expected",
    [
        ("authorize", APPROVED, approved()),
        ("confirm", {**APPROVED, "key": "CNF1", "currency": "ARS"}, approved(key="CNF1", currency="ARS")),
        ("inquire", {**APPROVED, "amount_minor": 1}, approved(amount_minor=1)),
        (
            "authorize",
            FULL,
            approved(
                authorization_code="A83100",
                needs_confirmation=True,
                issuer_data=b"\x8a\x0200",
                card=Card("master", "debit_card", "503143", "6351", "chip"),
                installments=2,
            ),
        ),
        ("authorize", {"outcome": "declined"}, Declined("rejected_other_reason")),
        ("authorize", {"outcome": "declined", "code": "51"}, Declined("insufficient_amount")),
        ("refund", {"outcome": "declined", "code": "77"}, Declined("rejected_other_reason")),
        ("reverse", {"outcome": "declined", "code": "51", "detail": "high_risk"}, Declined("high_risk")),
        (
            "authorize",
            {"outcome": "declined", "detail": "card_disabled", "advice": "never", "issuer_data": "igIwNQ=="},
            Declined("card_disabled", b"\x8a\x0205", advice="never"),
        ),
        ("inquire", {"outcome": "not_found"}, NotFound()),
        ("reverse", {"outcome": "not_found", "final": True}, NotFound(is_final=True)),
        ("confirm", {"outcome": "too_late"}, TooLate()),
        ("reverse", {"outcome": "too_late"}, TooLate()),
        *(
            (operation, {"outcome": "pending"}, Unknown("the acquirer has no outcome yet"))
            for operation in ("authorize", "confirm", "inquire", "reverse", "refund")
        ),
        (
            "authorize",
            {**APPROVED, "payment_id": "PAY2"},
            Unknown("the answer differs in payment_id", differs=True),
        ),
    ],
)
def test_an_answer_is_the_result_that_it_says(operation: str, answer: object, expected: object) -> None:
    """Further members are ignored; the engine compares amount, currency and key."""
    assert of(operation).result(PAYMENT, json.dumps(answer).encode(), {"51": "insufficient_amount"}) == expected


@each(
    "answer, name",
    [
        *((FULL, name) for name in FULL if name not in ("outcome", "a_later_version")),
        *(({"outcome": "declined"}, name) for name in ("code", "detail", "advice", "issuer_data")),
    ],
)
def test_null_is_no_value_of_any_field(answer: dict[str, Any], name: str) -> None:
    """The reason names the field."""
    result = wire.AUTHORIZE.result(PAYMENT, json.dumps({**answer, name: None}).encode(), {})
    assert isinstance(result, Unknown)
    assert result.reason.startswith(UNREADABLE)
    assert f"got `null` - at `$.{name}`" in result.reason


@each(
    "operation, body",
    [
        *(
            ("authorize", json.dumps({name: value for name, value in APPROVED.items() if name != missing}))
            for missing in APPROVED
        ),
        *(
            ("authorize", json.dumps({**APPROVED, name: value}))
            for name, value in (
                ("amount_minor", "2490"),
                ("amount_minor", 2490.0),
                ("amount_minor", True),
                ("amount_minor", -1),
                ("currency", "brl"),
                ("reference_id", ""),
                ("reference_id", "a" * 65),
                ("reference_id", "a b"),
                ("authorization_code", "'"),
                ("needs_confirmation", 1),
                ("issuer_data", "not base64"),
                ("issuer_data", "A" * 8192),
                ("installments", 0),
                ("card", {"first_digits": "5031433215406351", "last_digits": "6351"}),
            )
        ),
        ("authorize", '{"outcome": "declined", "advice": "perhaps"}'),
        ("authorize", '{"outcome": "not_found"}'),
        ("authorize", '{"outcome": "too_late"}'),
        ("inquire", '{"outcome": "too_late"}'),
        ("refund", '{"outcome": "not_found"}'),
        ("authorize", '{"outcome": "maybe"}'),
        ("authorize", "{}"),
        ("authorize", "[]"),
        ("authorize", ""),
        ("authorize", "<html>"),
        ("authorize", '{"outcome": "approved", "payment_id": "PAY'),
        ("authorize", '{"outcome": "declined", "more": ' + "[" * 60_000),
    ],
)
def test_any_other_answer_is_unknown(operation: str, body: str) -> None:
    """Whatever it was meant to say, the request may have taken effect."""
    result = of(operation).result(PAYMENT, body.encode(), {})
    assert isinstance(result, Unknown)
    assert result.reason.startswith(UNREADABLE)
    assert not result.differs


def test_what_the_switch_says_is_kept_short_and_without_secrets() -> None:
    """In one line; a card number in it is masked."""
    said = b'{"error": "bad_card", "message": "no\\n card 5031433215406351 ' + b"x " * 900 + b'"}'
    refused = msgspec.json.decode(said, type=wire.Refused)
    assert "5031433215406351" not in refused.reason
    assert "\n" not in refused.reason
    assert len(refused.reason) <= wire.REASON_CHARACTERS_MAX + len("bad_card: ")
    said = b'{"error": "clock_skew", "message": "The clocks differ by over 300 s."}'
    refused = msgspec.json.decode(said, type=wire.Refused)
    assert refused.reason == "clock_skew: The clocks differ by over 300 s"


def test_a_request_has_the_payment_and_what_belongs_to_its_operation() -> None:
    """Amounts are integers, bytes are base64."""
    body = wire.request(PAYMENT, **wire.presented(CARD, b"\x00\xff"))
    assert json.loads(body) == {
        "payment_id": PAYMENT.payment_id,
        "order_id": "ORD01J67CQQH5904WDBVZEM4JMEP3",
        "seller_id": 7782587281,
        "store_id": "47792478",
        "pos_id": "1",
        "terminal_id": "NEWLAND_N950__N950NCB801293324",
        "external_reference": "sale 1",
        "amount_minor": 2490,
        "tip_minor": 90,
        "currency": "BRL",
        "payment_method": {"id": "visa", "type": "credit_card"},
        "installments": 3,
        "installments_cost": "seller",
        "entry_mode": "contactless",
        "card": {"first_digits": "503143", "last_digits": "6351"},
        "encrypted_data": "AP8=",
    }
    assert body == wire.request(replace(PAYMENT), **wire.presented(replace(CARD), b"\x00\xff"))


def test_a_request_leaves_out_what_is_empty() -> None:
    """Before a card is presented there is no method; a tip of 0 is no empty value."""
    bare = Payment(1, "A__1", "PAY1", 100, "CLP")
    assert json.loads(wire.request(bare, reference_id="", chip_data=b"")) == {
        "payment_id": "PAY1",
        "order_id": "ORD1",
        "seller_id": 1,
        "terminal_id": "A__1",
        "amount_minor": 100,
        "tip_minor": 0,
        "currency": "CLP",
        "installments": 1,
    }


SIGNER = Signer("shop-1", (Secret(SECRET),))
REQUEST_SIGNATURE = "8ee897a1908f639746b3f85419c070baadc59b381fad898740376549c08c98e0"
ANSWER_SIGNATURE = "8a742230991a934e86e0df4ff8a2b96bca3e342f0f0d54a0a4e5c834a79398a7"


def test_signatures_are_those_of_the_published_example() -> None:
    """Computed with `openssl dgst -sha256 -hmac`: another implementation can compare each line."""
    request = "POST", "/paydesk/authorize", "PAY01J67CQQH5904WDBVZEM4JMEP3"
    header = SIGNER.sign(1_767_225_600, *request, body=b'{"amount_minor":2490}')
    assert header == f"t=1767225600,k=shop-1,v1={REQUEST_SIGNATURE}"
    header = SIGNER.sign(1_767_225_600, "200", "PAY01J67CQQH5904WDBVZEM4JMEP3", body=b'{"outcome":"pending"}')
    assert header == f"t=1767225600,k=shop-1,v1={ANSWER_SIGNATURE}"


@each(
    "headers, now, verdict",
    [
        (["{right}"], 1000, "valid"),
        (["{old}"], 1000, "valid"),
        (["{right}"], 1300, "valid"),
        (["{right}"], 700, "valid"),
        (["{right}"], 1301, "outdated"),
        (["{right}"], 699, "outdated"),
        ([], 1000, "absent"),
        (["{foreign}"], 1000, "wrong"),
        (["{right}", "{right}"], 1000, "wrong"),
        (["{right} "], 1000, "wrong"),
        (["v1=00"], 1000, "wrong"),
        ([""], 1000, "wrong"),
    ],
)
def test_an_answer_is_valid_with_a_signature_of_either_secret_within_300_seconds(
    headers: list[str], now: int, verdict: Verdict
) -> None:
    """Anything else than one header in its form is wrong."""
    third = Signer("shop-1", (Secret("third" * 8),))
    old = Signer("shop-1", (Secret(OTHER_SECRET),))
    names = {
        name: signer.sign(1000, "200", "K", body=b"body")
        for name, signer in (("right", SIGNER), ("old", old), ("foreign", third))
    }
    both = Signer("shop-1", (Secret(SECRET), Secret(OTHER_SECRET)))
    given = [header.format(**names) for header in headers]
    assert both.check(given, "200", "K", body=b"body", now_seconds=now)[0] == verdict


@each("status, key, body", [(201, "K", b"body"), (200, "L", b"body"), (200, "", b"body"), (200, "K", b"Body")])
def test_a_signature_covers_status_key_and_body(status: int, key: str, body: bytes) -> None:
    """That of another answer is wrong."""
    header = SIGNER.sign(1000, "200", "K", body=b"body")
    assert SIGNER.check([header], str(status), key, body=body, now_seconds=1000) == ("wrong", None)


def test_without_a_secret_no_signature_is_needed() -> None:
    """The client certificate proves both sides."""
    assert Signer("", ()).check([], "200", "K", body=b"", now_seconds=1000) == ("unneeded", None)


@pytest.mark.parametrize("text", [repr(SIGNER), str(SIGNER)])
def test_a_signer_never_shows_its_secret(text: str) -> None:
    """Not in a trace either."""
    assert SECRET not in text
