"""Every field of POST /v1/orders: the values at the bounds that it accepts, and the faults of those beyond."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from paydesk.core.money import CURRENCIES
from paydesk.core.text.characters import RULE
from paydesk.engine.orders.schemas import OrderRequest
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Reply, Service, order_body, running

Path = tuple[str | int, ...]
AMOUNT: Path = ("transactions", "payments", 0, "amount")
PAYMENT_METHOD: Path = ("transactions", "payments", 0, "payment_method")
VALUE, TYPE, REQUIRED = "property_value", "property_type", "required_properties"


@dataclass(frozen=True)
class Rule:
    """A field: accepted values, and rejected ones with the code and the text of the fault."""

    path: Path
    good: tuple[Any, ...]
    bad: tuple[tuple[Any, str, str], ...]
    required: bool = False
    beside: dict[str, Any] = field(default_factory=dict)
    """What the body must have so that the good ones are good."""

    @property
    def name(self) -> str:
        """Return the field's path as in faults and documents."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)


Refused = tuple[tuple[Any, str, str], ...]


def text(most: int, *, least: int = 0) -> tuple[tuple[Any, ...], Refused]:
    """Return accepted and rejected values of a text of at most `most` characters."""
    good = ("ü" * least, "ü" * most, "emoji 🛒 and\u200d more"[:most])
    short: Refused = (("", VALUE, "must have at least 1 character"),) * least
    return good, (*short, ("x" * (most + 1), VALUE, f"must have at most {most} characters"), (1, TYPE, STRING))


def choice(*choices: str) -> tuple[tuple[Any, ...], Refused]:
    """Return accepted and rejected values of an enumeration."""
    quoted = [f"'{word}'" for word in choices]
    words = f"must be {' or '.join(filter(None, (', '.join(quoted[:-1]), quoted[-1])))}"
    return choices, (*_all(VALUE, words, choices[0].upper(), ""), *_all(TYPE, words, 1, [choices[0]]))


def _all(code: str, words: str, *values: Any) -> Refused:
    return tuple((value, code, words) for value in values)


STRING = "must be a string"
DURATION = "must be an ISO 8601 duration"
EXPIRATION = f"{DURATION} in hours, minutes and seconds, from PT30S to PT3H, such as PT15M"
REFERENCE = "must have 1 to 64 letters, digits, _ and -"
AMOUNT_RULE = 'must be a decimal string such as "24.90": 1 to 12 digits, and with a point at most 2 more'
OBJECT = "must be an object"
NO_INSTALLMENTS = (
    *_all(VALUE, "must be greater than or equal to 1", "0", "00"),
    ("49", VALUE, "must be less than or equal to 48"),
    *_all(VALUE, "must be an integer, or a string of its digits", "", "6.0", "-1", "six", "\u0666", "100"),
)
ONLY_POINT = "must be 'point': orders here are for terminals"

RULES = (
    Rule(
        ("type",),
        ("point",),
        (*_all(VALUE, ONLY_POINT, "qr", "online", "POINT", ""), *_all(TYPE, ONLY_POINT, 1, ["point"])),
        required=True,
    ),
    Rule(
        ("external_reference",),
        ("a", "a" * 64, "Az09_-"),
        (
            ("", VALUE, REFERENCE),
            ("a" * 65, VALUE, REFERENCE),
            ("a b", VALUE, REFERENCE),
            ("ação", VALUE, REFERENCE),
            ("a.b", VALUE, REFERENCE),
            (7, TYPE, STRING),
        ),
    ),
    Rule(
        ("description",),
        (*text(150)[0], "Smartphone 12345678", "4509 9535 6623 3705"),
        (*text(150)[1], ("paid with 4509953566233704.", VALUE, "must not contain a card number")),
    ),
    Rule(
        ("expiration_time",),
        ("PT30S", "PT3H", "PT15M", "PT1H30M", "PT2H59M60S", "PT180M", "PT00030S"),
        (
            *_all(VALUE, EXPIRATION, "PT29S", "PT3H1S", "PT0S", "PT", "P1D", "15M", "pt15m", "PT1.5M", "PT15M30"),
            *_all(VALUE, EXPIRATION, "-PT15M", "", "PT30S "),
            (900, TYPE, STRING),
        ),
    ),
    Rule(("transactions",), (), ((1, TYPE, OBJECT), ([], TYPE, OBJECT)), required=True),
    Rule(
        ("transactions", "payments"),
        (),
        (
            ([], "minimum_items", "must have at least 1 item"),
            ([{"amount": "1"}] * 2, "maximum_items", "must have at most 1 item"),
            ({}, TYPE, "must be a valid array"),
        ),
        required=True,
    ),
    Rule(("transactions", "payments", 0), (), (("24.90", TYPE, OBJECT),)),
    Rule(
        AMOUNT,
        ("0.01", "1", "10", "10.5", "24.90", "0024.90", "999999999999", "999999999999.99"),
        (
            *_all(VALUE, AMOUNT_RULE, "", "1,50", "-1", "+1", " 1", "1.", ".5", "1e3", "1.505", "1000000000000"),
            *_all(VALUE, AMOUNT_RULE, "\u0661", "1 000", "0x1", "NaN"),
            *_all(VALUE, "must be above zero", "0", "0.0", "0.00"),
            *_all(TYPE, STRING, 24.9, 10),
        ),
        required=True,
    ),
    Rule(PAYMENT_METHOD, ({},), (("visa", TYPE, OBJECT),)),
    Rule((*PAYMENT_METHOD, "id"), *text(64)),
    Rule((*PAYMENT_METHOD, "type"), *choice("credit_card", "debit_card", "qr")),
    Rule(
        (*PAYMENT_METHOD, "installments"),
        (1, 48, "1", "48", "01"),
        (
            (0, VALUE, "must be greater than or equal to 1"),
            (49, VALUE, "must be less than or equal to 48"),
            *NO_INSTALLMENTS,
        ),
    ),
    Rule(("config",), (), (("x", TYPE, OBJECT),), required=True),
    Rule(("config", "point"), (), ((None, TYPE, "must not be null"),), required=True),
    Rule(("config", "point", "terminal_id"), (), text(80, least=1)[1], required=True),
    Rule(("config", "point", "print_on_terminal"), *choice("seller_ticket", "no_ticket")),
    Rule(("config", "point", "ticket_number"), *text(20)),
    Rule(
        ("config", "point", "screen_time"),
        ("PT30S", "PT0S", "PT90M", "P1D", "P1Y2M3W4DT5H6M7.5S"),
        _all(VALUE, DURATION, "30", " ", "P", "PT", "P1DT", "1D", "P1H", "PT30S" + "0" * 40),
    ),
    Rule(("config", "payment_method"), ({},), (("qr", TYPE, OBJECT),)),
    Rule(("config", "payment_method", "default_type"), *choice("credit_card", "debit_card", "qr")),
    Rule(
        ("config", "payment_method", "default_installments"),
        (1, 48, "1", "48", "01"),
        (
            (0, VALUE, "must be greater than or equal to 1"),
            (49, VALUE, "must be less than or equal to 48"),
            *NO_INSTALLMENTS,
            (6.0, TYPE, "must be a valid integer"),
            (True, TYPE, "must be a valid integer"),
        ),
        beside={"default_type": "credit_card"},
    ),
    Rule(("config", "payment_method", "installments_cost"), *choice("seller", "buyer")),
    Rule(
        ("taxes",),
        ([{"payer_condition": "payment_taxable_iva"}], [{"payer_condition": "payment_exempt_iva"}]),
        (
            ([], "minimum_items", "must have at least 1 item"),
            ([{"payer_condition": "payment_exempt_iva"}] * 2, "maximum_items", "must have at most 1 item"),
            ({}, TYPE, "must be a valid array"),
        ),
    ),
    Rule(("taxes", 0), (), (("iva", TYPE, OBJECT),)),
    Rule(("taxes", 0, "payer_condition"), *choice("payment_taxable_iva", "payment_exempt_iva"), required=True),
    Rule(("integration_data",), ({},), (([], TYPE, OBJECT),)),
    Rule(("integration_data", "platform_id"), *text(64)),
    Rule(("integration_data", "integrator_id"), *text(64)),
    Rule(("integration_data", "corporation_id"), *text(64)),
    Rule(("integration_data", "sponsor"), ({},), (("446566691", TYPE, OBJECT),)),
    Rule(("integration_data", "sponsor", "id"), *text(64)),
    Rule(
        ("total_amount",),
        ("24.90", "24.9", "024.90"),
        (
            ("24.91", VALUE, "must be the amount of the payment"),
            ("24.900", VALUE, AMOUNT_RULE),
            ("", VALUE, AMOUNT_RULE),
            (24.9, TYPE, STRING),
        ),
    ),
    Rule(
        ("currency",),
        ("BRL",),
        (
            ("ARS", VALUE, "must be BRL, the seller's currency"),
            ("brl", VALUE, "must be BRL, the seller's currency"),
            ("", VALUE, "must be BRL, the seller's currency"),
            (986, TYPE, STRING),
        ),
    ),
    Rule(("payer",), ({},), (("buyer@shop.example", TYPE, OBJECT),)),
    Rule(
        ("payer", "email"),
        ("a@b", "ação@loja.example", f"{'x' * 250}@b.c", "4509953566233704@shop.example"),
        (
            *_all(VALUE, "must be an e-mail address, with one @", "", "@", "a@", "@b", "a", "a@b@c", "a@@b"),
            (f"{'x' * 251}@b.c", VALUE, "must have at most 254 characters"),
            (1, TYPE, STRING),
        ),
    ),
    Rule(("processing_mode",), *choice("automatic")),
    Rule(("capture_mode",), *choice("automatic", "automatic_async")),
)
OBJECTS: tuple[Path, ...] = (
    (),
    ("transactions",),
    ("transactions", "payments", 0),
    ("config",),
    ("config", "point"),
    ("config", "payment_method"),
    ("integration_data",),
    ("integration_data", "sponsor"),
    PAYMENT_METHOD,
    ("taxes", 0),
    ("payer",),
)
MISSING = object()


def full(terminal_id: str = "NEWLAND_N950__NOWHERE") -> dict[str, Any]:
    """Return a body with every object."""
    body = order_body(terminal_id, integration_data={"sponsor": {}})
    body["config"]["payment_method"] = {}
    body["transactions"]["payments"][0]["payment_method"] = {}
    body["taxes"] = [{"payer_condition": "payment_taxable_iva"}]
    body["payer"] = {}
    return body


def put(body: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return the body with another value at the path, or without the field."""
    changed = copy.deepcopy(body)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    if value is MISSING:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return changed


FORBIDDEN = "\x00\n\x7f\x85\xad\u061c\u200b\u2028\u202e\u2066\ufeff\U000e0041"


def refusals() -> Iterator[tuple[dict[str, Any], str, str, str]]:
    """Yield every body with one fault, with its code, path and text."""
    for rule in RULES:
        body = full()
        body["config"]["payment_method"] |= rule.beside
        name = f"${rule.name}"
        for value, code, words in rule.bad:
            yield put(body, rule.path, value), code, name, words
        yield put(body, rule.path, None), TYPE, name, "must not be null"
        if rule.required:
            body = put(full(), rule.path, MISSING)
            parent = "$" + Rule(rule.path[:-1], (), ()).name
            left: Any = body
            for step in rule.path[:-1]:
                left = left[step]
            if left:
                yield body, REQUIRED, name, "is required"
            else:
                yield body, "minimum_properties", parent, f"must have {rule.path[-1]}"
        if isinstance(rule.good[0] if rule.good else None, str):
            for character in FORBIDDEN:
                yield put(body, rule.path, f"a{character}b"), VALUE, name, RULE
    for place in OBJECTS:
        name = "$" + Rule(place, (), ()).name
        yield put(full(), (*place, "surprise"), 1), "unsupported_properties", f"{name}.surprise", "is not known here"
        yield put(full(), (*place, "Typé"), 1), "unsupported_properties", f'{name}["Typ\\u00e9"]', "is not known here"
    for default_type in ("debit_card", "qr"):
        body = put(full(), ("config", "payment_method"), {"default_installments": 2, "default_type": default_type})
        path = "$.config.payment_method.default_installments"
        yield body, VALUE, path, "is only for the default_type credit_card"
        body = put(full(), PAYMENT_METHOD, {"installments": 2, "type": default_type})
        yield (
            body,
            VALUE,
            f"${Rule(PAYMENT_METHOD, (), ()).name}.installments",
            "must be 1, as the type is not credit_card",
        )
    alone = put(full(), ("config", "payment_method"), {"default_installments": 2})
    yield alone, VALUE, "$.config.payment_method.default_installments", "is only for the default_type credit_card"


async def test_an_invalid_value_is_rejected_with_its_rule(service: Service) -> None:
    """One fault, with its code, path and rule; never a regular expression."""
    count = 0
    for body, code, path, words in refusals():
        reply = await service.request("POST", "/v1/orders", body)
        faults = [(error["code"], *error["details"][0].split(" - ", 1)) for error in reply.body["errors"]]
        assert reply.status == 400, (body, reply)
        assert faults[0][:2] == (code, f"'{path}'"), (body, faults)
        assert len(faults) == 1, (body, faults)
        assert faults[0][2].startswith(words), (path, faults)
        assert "pattern" not in faults[0][2], faults
        assert "^" not in faults[0][2], faults
        count += 1
    assert count > 150


async def test_a_valid_value_is_accepted(service: Service) -> None:
    """And returned as sent."""
    terminal = await service.terminal()
    count = 0
    for rule in RULES:
        body = full(terminal.id)
        body["config"]["payment_method"] |= rule.beside
        for value in rule.good:
            reply = await service.request("POST", "/v1/orders", put(body, rule.path, value))
            assert reply.status == 201, (rule.name, value, reply)
            if rule.path[0] in (
                "external_reference",
                "description",
                "expiration_time",
                "config",
                "integration_data",
                "taxes",
            ) or (rule.path == ("payer", "email")):
                shown: Any = reply.body
                for step in rule.path:
                    shown = shown[step]
                assert shown == value or rule.path == ("integration_data",)
            assert (await service.cancel(reply.body["id"])).status == 200
            count += 1
    assert count > 50


def test_every_field_of_the_model_is_tested() -> None:
    """A new field needs a rule here."""
    schema = OrderRequest.model_json_schema()
    assert {rule.name for rule in RULES if rule.path[-1] != 0} == set(_fields(schema, schema["$defs"], ""))


def _fields(schema: dict[str, Any], named: dict[str, Any], path: str) -> Iterator[str]:
    for name, child in schema["properties"].items():
        yield f"{path}.{name}"
        for choice in (child, *child.get("anyOf", ())):
            inner, index = (choice["items"], "[0]") if "items" in choice else (choice, "")
            if "$ref" in inner:
                yield from _fields(named[inner["$ref"].rpartition("/")[2]], named, f"{path}.{name}{index}")


async def test_faults_are_listed_in_document_order(service: Service) -> None:
    """Each at its field's position; a missing field at the end of its object."""
    method, payment = "$.config.payment_method.default_type", "$.transactions.payments[0]"
    faults: list[tuple[str, Any, list[str]]] = [
        ("capture_mode", "manual", ["$.capture_mode"]),
        ("surprise", {"deep": None}, ["$.surprise", "$.surprise.deep"]),
        ("config", {"payment_method": {"default_type": 1}}, [method, "$.config.point"]),
        ("transactions", {"payments": [{"tip": "1", "amount": "x"}]}, [f"{payment}.tip", f"{payment}.amount"]),
        ("external_reference", "", ["$.external_reference"]),
    ]
    for order in itertools.permutations(faults):
        body = {name: value for name, value, _ in order}
        reply = await service.request("POST", "/v1/orders", body)
        paths = [detail.partition("'")[2].rpartition("' - ")[0] for detail in reply.details]
        assert paths == [path for _, _, expected in order for path in expected] + ["$.type"], body
        assert reply.body["error"] == reply.body["errors"][0]["code"]
        assert reply.body["message"].startswith(reply.body["errors"][0]["message"][:-1])
        assert f"'{paths[0]}'" in reply.body["message"]


@pytest.mark.parametrize("code", CURRENCIES)
async def test_every_currency(database: Database, code: str) -> None:
    """Amounts have the decimals of the seller's currency and respect the configured minimum."""
    currency = CURRENCIES[code]
    least_minor = 150
    least, below = ("1.50", "1.49") if currency.decimals else ("150", "149")
    settings = Settings(order_amount_minor_min=least_minor)
    async with running(database, settings=settings, workers=False) as service:
        await service.scene.run(
            "UPDATE sellers SET currency = $2, country = $3 WHERE seller_id = $1",
            service.seller_id,
            code,
            currency.country,
        )
        terminal = await service.terminal()

        async def created(amount: str, **fields: Any) -> Reply:
            reply = await service.create(terminal, amount=amount, **fields)
            if reply.status == 201:
                assert (await service.cancel(reply.body["id"])).status == 200
            return reply

        for amount in (least, "999999999999", "0000000150"):
            order = (await created(amount, currency=code, total_amount=amount)).body
            assert (order["total_amount"], order["currency"], order["country_code"]) == (amount, code, currency.country)
            assert order["transactions"]["payments"][0]["amount"] == amount
        path = "'$.transactions.payments[0].amount'"
        assert (await created(below)).details == [f"{path} - must be at least {least}"]
        assert (await created("0")).details == [f"{path} - must be above zero"]
        other = next(other for other in CURRENCIES if other != code)
        assert (await created(least, currency=other)).details == [
            f"'$.currency' - must be {code}, the seller's currency"
        ]
        with_decimals, total = await created("2000.50"), await created("2000", total_amount="2000.00")
        if currency.decimals:
            assert (with_decimals.status, total.status) == (201, 201)
        else:
            rule = f'must be a decimal string such as "2490": 1 to 12 digits, without decimals, as {code} has none'
            assert with_decimals.details == [f"{path} - {rule}"]
            assert total.details == [f"'$.total_amount' - {rule}"]
