"""Reading bodies: strict syntax, bounds, and faults with their paths in document order."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paydesk.core.errors import Refusal
from paydesk.engine.orders.schemas import OrderRequest
from paydesk.platform.http import body
from paydesk.platform.http.validation import validate
from tables import each

SECRET_KEY = rb'{"a\"secret\"b": 1, "a\"secret\"b": 2}'

WIDE_ARRAY = b"[" + b",".join(b"%d" % number for number in range(256)) + b"]"
WIDE_OBJECT = b"{" + b",".join(b'"%d":1' % number for number in range(256)) + b"}"

GOOD: dict[str, Any] = {
    "type": "point",
    "transactions": {"payments": [{"amount": "24.90"}]},
    "config": {"point": {"terminal_id": "T__1"}},
}


def faults(document: Any, **context: Any) -> list[tuple[str, str]]:
    """The code and the path of each fault."""
    raw = msgspec.json.encode(document)
    _, found = validate(OrderRequest, body.parse_json(raw), raw, {"currency": "BRL", **context})
    return [(fault.kind.code, fault.detail.partition("'")[2].partition("'")[0]) for fault in found]


@each(
    "raw",
    [
        b"",
        b"{",
        b"{} {}",
        b'{"a": 1, "a": 2}',
        b'{"a": "\\ud800"}',
        b'{"a": "\xff"}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b"\xef\xbb\xbf{}",
        '{"a": 1}'.encode("utf-16"),
        b'{"a": 01}',
        b"{'a': 1}",
        b'{"a": 123456789012345678901}',
        b'{"a": 0.12345678901234567890123}',
        b'{"a": "\x00"}',
        b"[" * 33 + b"]" * 33,
        b'{"a":' * 33 + b"1" + b"}" * 33,
        WIDE_ARRAY.replace(b"[", b"[0,"),
        WIDE_OBJECT.replace(b"{", b'{"a":0,'),
        b'{"a":[' + WIDE_ARRAY.replace(b"[", b"[0,") + b"]}",
        b'{"%s": 1}' % (b"a" * 129),
        b'[{"a": {"%s": 1}}]' % ("é" * 129).encode(),
        b'{"%s": 1}' % (b"\\u00e9" * 129),
        b'{"%s": 1}' % (b'\\"' * 129),
    ],
)
def test_lenient_json_is_a_syntax_error(raw: bytes) -> None:
    """Duplicate keys, lone surrogates, NaN, other encodings, long numbers and names; depth and width."""
    with pytest.raises(Refusal) as refused:
        body.parse_json(raw)
    assert refused.value.kind.code == "json_syntax_error"


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 32 + b"]" * 32,
        b'{"a": "123456789012345678901234567890"}',
        b'{"a": "\\"123456789012345678901234567890\\\\"}',
        b'{"a": 1e20}',
        WIDE_ARRAY,
        WIDE_OBJECT,
        b"[" + b",".join([WIDE_ARRAY] * 3) + b"]",
        b'["' + b"," * 1000 + b'"]',
        b'{"%s": "%s"}' % (b"a" * 128, b"a" * 129),
        b'{"%s": 1}' % (b"\\u00e9" * 128),
        b'{"\\"%s": 1}' % (b"a" * 127),
    ],
)
def test_bodies_at_the_limits_are_accepted(raw: bytes) -> None:
    """32 levels, 256 members and names of 128 characters are fine, and so are digits and commas in a string."""
    body.parse_json(raw)


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b"[" * 33 + b"]" * 33, "must be at most 32 levels deep"),
        (WIDE_ARRAY.replace(b"[", b"[0,"), "an object or an array must have at most 256 members"),
        (b'{"a": 123456789012345678901}', "a number must have at most 20 digits"),
        (b'{"%s": 1}' % (b"a" * 129), "a name must have at most 128 characters"),
    ],
)
def test_the_detail_names_the_limit(raw: bytes, rule: str) -> None:
    """So that the caller knows what to send instead."""
    with pytest.raises(Refusal) as refused:
        body.parse_json(raw)
    assert refused.value.details == (rule,)


# Whole numbers, fractions and exponents, and the same as text, of lengths around the limit.
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,22})?([eE][+-]?[0-9]{1,22})?", fullmatch=True).filter(
    lambda text: text.isascii()
)
TEXTS = (NUMBERS | st.text()).map(json.dumps)
DOCUMENTS = st.recursive(
    NUMBERS | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]")
        | st.tuples(TEXTS, inner).map(lambda member: f"{{{member[0]}:{member[1]}}}")
    ),
    max_leaves=8,
)


@given(DOCUMENTS)
@example("-123456789012345678901")
@example('["123456789012345678901"]')
@example(r'["\"", 123456789012345678901, "\""]')
@example("1234567890.1234567890e-1")
@example("1234567890.1234567890")
def test_a_document_is_refused_for_its_numbers_alone(document: str) -> None:
    """A number has more than 20 digits, as another parser reads the document; digits in texts don't count."""
    numbers: list[str] = []
    json.loads(document, parse_int=numbers.append, parse_float=numbers.append)
    is_long = any(sum(map(str.isdigit, number)) > body.NUMBER_DIGITS_MAX for number in numbers)
    refusal = pytest.raises(Refusal, match="long number") if is_long else contextlib.nullcontext()
    with refusal:
        body.parse_json(document.encode())


def test_a_key_is_not_repeated_in_the_message() -> None:
    """A secret that was sent as a key stays out of the answer."""
    with pytest.raises(Refusal) as refused:
        body.parse_json(b'{"s3cret": 1, "s3cret": 2}')
    assert "s3cret" not in refused.value.reason + "".join(refused.value.details)


@each(
    "change, expected",
    [
        ({}, []),
        ({"type": "qr"}, [("property_value", "$.type")]),
        ({"type": 5}, [("property_type", "$.type")]),
        ({"description": None}, [("property_type", "$.description")]),
        ({"description": "a\nb"}, [("property_value", "$.description")]),
        ({"description": "x" * 151}, [("property_value", "$.description")]),
        ({"description": "pay 4509 9535 6623 3704 now"}, [("property_value", "$.description")]),
        ({"external_reference": "a b"}, [("property_value", "$.external_reference")]),
        ({"external_reference": "a\n"}, [("property_value", "$.external_reference")]),
        ({"surprise": 1}, [("unsupported_properties", "$.surprise")]),
        ({"sur prise": 1}, [("unsupported_properties", '$["sur prise"]')]),
        ({"expiration_time": "PT29S"}, [("property_value", "$.expiration_time")]),
        ({"expiration_time": "PT3H1S"}, [("property_value", "$.expiration_time")]),
        ({"expiration_time": "PT30S"}, []),
        ({"expiration_time": "PT3H"}, []),
        ({"expiration_time": "P1D"}, [("property_value", "$.expiration_time")]),
        ({"transactions": {}}, [("minimum_properties", "$.transactions")]),
        ({"transactions": {"payments": []}}, [("minimum_items", "$.transactions.payments")]),
        ({"transactions": {"payments": [{"amount": "1.00"}] * 2}}, [("maximum_items", "$.transactions.payments")]),
        ({"transactions": {"payments": [{"amount": 1}]}}, [("property_type", "$.transactions.payments[0].amount")]),
        ({"transactions": {"payments": "x"}}, [("property_type", "$.transactions.payments")]),
        ({"config": {"point": {"terminal_id": ""}}}, [("property_value", "$.config.point.terminal_id")]),
        ({"config": {"point": {"terminal_id": "x" * 81}}}, [("property_value", "$.config.point.terminal_id")]),
        ({"total_amount": "24.9", "currency": "BRL"}, []),
        ({"total_amount": "24.91"}, [("property_value", "$.total_amount")]),
        ({"currency": "CLP"}, [("property_value", "$.currency")]),
        ({"processing_mode": "manual"}, [("property_value", "$.processing_mode")]),
        ({"capture_mode": "automatic_async", "processing_mode": "automatic"}, []),
        ({"integration_data": {"sponsor": {"id": 7}}}, [("property_type", "$.integration_data.sponsor.id")]),
    ],
)
def test_each_fault_of_an_order_has_its_code_and_path(change: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """The field rules, one by one."""
    assert faults({**GOOD, **change}) == expected


@each(
    "amount, currency, good",
    [
        ("24.90", "BRL", True),
        ("24.9", "BRL", True),
        ("10", "BRL", True),
        ("0.01", "BRL", True),
        ("999999999999.99", "BRL", True),
        ("0", "BRL", False),
        ("0.00", "BRL", False),
        ("1000000000000", "BRL", False),
        ("1.234", "BRL", False),
        ("-1", "BRL", False),
        ("+1", "BRL", False),
        (" 1", "BRL", False),
        ("1,5", "BRL", False),
        ("1e3", "BRL", False),
        ("", "BRL", False),
        (".5", "BRL", False),
        ("5.", "BRL", False),
        ("\u0661", "BRL", False),
        ("1\n", "BRL", False),
        ("2490", "CLP", True),
        ("2490.0", "CLP", False),
        ("2490.5", "CLP", False),
    ],
)
def test_an_amount_is_a_decimal_string_of_the_currency(amount: str, currency: str, good: bool) -> None:  # noqa: FBT001
    """Above zero, with no more decimals than the currency has, and never another spelling of a number."""
    found = faults({**GOOD, "transactions": {"payments": [{"amount": amount}]}}, currency=currency)
    assert found == ([] if good else [("property_value", "$.transactions.payments[0].amount")])


def test_faults_are_in_document_order_with_missing_fields_last() -> None:
    """All faults are reported at once."""
    document = {
        "zzz": 1,
        "config": {"point": {"print_on_terminal": "maybe"}},
        "transactions": {"payments": [{"amount": "0", "extra": True}]},
        "external_reference": "!",
    }
    assert faults(document) == [
        ("unsupported_properties", "$.zzz"),
        ("property_value", "$.config.point.print_on_terminal"),
        ("required_properties", "$.config.point.terminal_id"),
        ("property_value", "$.transactions.payments[0].amount"),
        ("unsupported_properties", "$.transactions.payments[0].extra"),
        ("property_value", "$.external_reference"),
        ("required_properties", "$.type"),
    ]


@pytest.mark.parametrize("document", [[], "x", 1, True])
def test_a_body_that_is_not_an_object_has_the_wrong_type(document: Any) -> None:
    """At the root too."""
    raw = msgspec.json.encode(document)
    _, found = validate(OrderRequest, body.parse_json(raw), raw, {"currency": "BRL"})
    assert [(fault.kind.code, fault.detail) for fault in found] == [("property_type", "'$' - must be an object")]


def test_an_empty_object_needs_properties() -> None:
    """`{}` is one fault, not one for each field."""
    assert faults({}) == [("minimum_properties", "$")]


def test_installments_are_for_credit_cards() -> None:
    """With another default_type they are refused, and with none they are not."""
    point = {"terminal_id": "T__1"}
    debit = {"default_type": "debit_card", "default_installments": 3}
    assert faults({**GOOD, "config": {"point": point, "payment_method": debit}}) == [
        ("property_value", "$.config.payment_method.default_installments")
    ]
    credit = {"default_type": "credit_card", "default_installments": 3}
    assert faults({**GOOD, "config": {"point": point, "payment_method": credit}}) == []


@each(
    "raw", [b"a=1&a=2", b"a", b"a=%ff", b"a=%00", b"a=%zz", b"a=%4", b"a=%", b"\xff=1", b"a=%E2%80%8B", b"%E2%80%A8=1"]
)
def test_a_malformed_form_is_refused(raw: bytes) -> None:
    """A field sent twice, one without a value, bytes that are no UTF-8, broken escapes, forbidden characters."""
    with pytest.raises(Refusal):
        body.parse_form(raw)


def test_a_long_name_of_a_form_is_refused_with_its_limit() -> None:
    """Of 129 characters, however many bytes they are."""
    assert body.parse_form(b"%C3%A9" * 128 + b"=1") == {"é" * 128: "1"}
    with pytest.raises(Refusal) as refused:
        body.parse_form(b"%C3%A9" * 129 + b"=1")
    assert refused.value.details == ("a name must have at most 128 characters",)


def test_a_repeated_key_is_not_in_the_message() -> None:
    """What is wrong and where, without the key, whatever it is made of."""
    with pytest.raises(Refusal) as refused:
        body.parse_json(SECRET_KEY)
    assert refused.value.details == ("Detected duplicate key at line 1 column 36",)
