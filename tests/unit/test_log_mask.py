"""No secret reaches the log in clear: at any position, beside any character, quoted, and cut off with the path."""

from __future__ import annotations

import io
import json
import random
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import hostile
from cost import counted, timed
from paydesk.core.errors import NOT_FOUND
from paydesk.core.text import harmless
from paydesk.core.text.redaction import redacted, redacted_agent, redacted_answer, redacted_body, redacted_url
from paydesk.platform.http import request_log
from paydesk.platform.http.request_log import PATH_CHARACTERS_MAX
from rotating import quarter
from tables import each

RUN_CHARACTERS = 12
HEX, LETTERS = "0123456789abcdef", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
BESIDE = ["", "x", "é", "7", '"', "'", "_", "-", "=", ".", "/", "%2F", "%20", "\\", "\n", "Bearer ", "code=", "日",
          "\0"]  # fmt: skip


def _of(alphabet: str, size: int) -> st.SearchStrategy[str]:
    return st.text(alphabet=alphabet, min_size=size, max_size=size)


@st.composite
def card_numbers(draw: st.DrawFn) -> str:
    """A Visa number of 16 digits, or an American Express of 15."""
    prefix, size = draw(st.sampled_from([("4", 16), ("37", 15)]))
    digits = prefix + draw(_of("0123456789", size - len(prefix) - 1))
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits), start=1))
    return digits + str(-sum(number // 10 + number % 10 for number in doubled) % 10)


# Each whole secret, and the part of it that must not be logged.
SECRETS = {
    "access token": _of(HEX, 32).map(lambda part: (f"APP_USR-3676047501096810-091211-{part}-1160535239", part)),
    "test token": _of(HEX, 32).map(lambda part: (f"TEST-3676047501096810-091211-{part}-1160535239", part)),
    "code or refresh token": _of(HEX, 40).map(lambda part: (f"TG-{part}-1160535239", part)),
    "device token": _of(HEX, 40).map(lambda part: (f"PDT-{part}-1160535239", part)),
    "operator token": _of(HEX, 40).map(lambda part: (f"PDO-{part}", part)),
    "webhook secret": _of(LETTERS, 44).map(lambda part: (f"whsec_{part}", part)),
    "client secret": _of(HEX, 64).map(lambda part: (part, part)),
    "device code": _of(HEX, 40).map(lambda part: (part, part)),
    "password hash": _of(LETTERS, 43).map(lambda part: (f"$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ${part}", part)),
    "card number": card_numbers().map(lambda number: (number, number)),
}
ANY_SECRET = st.one_of(*SECRETS.values())
# Words, and never digits or letters that would be part of a number or a secret by themselves.
TEXT = st.text(alphabet="ghijk /:.,é%", max_size=220)
FORMS: list[Callable[[str], str]] = [
    str,
    lambda text: urllib.parse.quote(text, safe=""),
    lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    lambda text: urllib.parse.quote("".join(f"%{byte:02x}" for byte in text.encode()), safe=""),
]


@pytest.fixture(scope="module", autouse=True)
def stream() -> Iterator[io.StringIO]:
    """The log's lines as JSON; afterwards they go where they went before."""
    made = io.StringIO()
    request_log.configure(enabled=True, json_stream=made)
    yield made
    request_log.configure(enabled=True, json_stream=None)


def runs_of(part: str, text: str) -> list[str]:
    """The runs of the secret part that stand in the text, as long as may not be."""
    lowered = text.lower()
    runs = [part[place : place + RUN_CHARACTERS].lower() for place in range(len(part) - RUN_CHARACTERS + 1)]
    return [run for run in runs if run in lowered]


@given(ANY_SECRET, TEXT, TEXT, st.sampled_from(BESIDE), st.sampled_from(BESIDE), st.sampled_from(FORMS))
@example(("a1" * 32, "a1" * 32), "g" * (PATH_CHARACTERS_MAX - 46), "", "", "", str)
@example(("4111111111111111",) * 2, "g" * (PATH_CHARACTERS_MAX - 25), "", "", "", str)
@example(("4111111111111111",) * 2, "g" * (PATH_CHARACTERS_MAX - 25), "", "7", "", FORMS[1])
@example(("4111111111111111",) * 2, "", "", "%20", "", str)
@example((f"APP_USR-36-091211-{HEX}{HEX}-1", HEX + HEX), "%", "", "7", "", str)
def test_no_secret_is_in_a_line(
    stream: io.StringIO,
    secret: tuple[str, str],
    before: str,
    behind: str,
    left: str,
    right: str,
    form: Callable[[str], str],
) -> None:
    """In the path, as it is or quoted once or twice, and in the reason."""
    whole, part = secret
    stream.seek(0)
    stream.truncate()
    reason = f"{before}{left}{whole}{right}{behind}"
    path = f"/v1/orders/{before}{left}{form(whole)}{right}{behind}"
    refusal = NOT_FOUND.with_reason(reason)
    request_log.write("GET", path, 404, "own-id", time.perf_counter(), refusal, "203.0.113.9")
    line = json.loads(stream.getvalue())
    for text in (line["path"], urllib.parse.unquote(urllib.parse.unquote(line["path"])), line["reason"]):
        assert runs_of(part, text) == []
    assert len(line["path"]) <= PATH_CHARACTERS_MAX


@given(ANY_SECRET, TEXT, TEXT, st.sampled_from(BESIDE), st.sampled_from(BESIDE))
def test_no_secret_is_in_a_value(secret: tuple[str, str], before: str, behind: str, left: str, right: str) -> None:
    """Of a value and of a name, deep inside another one; and in a receiver's answer."""
    whole, part = secret
    text = f"{before}{left}{whole}{right}{behind}"
    assert runs_of(part, json.dumps(redacted({"x": [{text: text}]}))) == []
    assert runs_of(part, redacted_answer(json.dumps({"x": text}))) == []
    assert runs_of(part, redacted_answer(text)) == []


@given(st.sampled_from(sorted(SECRETS)).flatmap(lambda name: st.tuples(st.just(name), SECRETS[name])), st.data())
def test_no_truncated_secret_is_in_a_value(named: tuple[str, tuple[str, str]], data: st.DataObject) -> None:
    """What begins with a prefix is known by it, however much of its end is missing."""
    name, (whole, part) = named
    if whole != part:
        cut = whole[: data.draw(st.integers(0, len(whole)))]
        assert runs_of(part, redacted(cut)) == [], name


@given(st.text(alphabet="BCDFGHJKLMNPQRSTVWXZ", min_size=8, max_size=8), TEXT, st.sampled_from(BESIDE))
def test_no_user_code_is_in_a_line(stream: io.StringIO, letters: str, before: str, left: str) -> None:
    """Its eight letters are few enough to be tried: none is shown."""
    code = f"{letters[:4]}-{letters[4:]}"
    for written in (code, code.lower()):
        stream.seek(0)
        stream.truncate()
        request_log.write(
            "GET", f"/operator/v1/pairings/{left}{written}", 404, "own-id", time.perf_counter(), None, "203.0.113.9"
        )
        assert written not in stream.getvalue()
        assert written not in redacted(f"{before}{left}{written}")


@each(
    "name",
    ["cvv", "CVC2", "cvv2", "cid", "pin", "pinBlock", "pin_block", "track", "track1", "Track2Data", "pan", "cardNumber",
     "card-number", "card_number", "securityCode", "security_code", "57", "5A", "client_secret"],
)  # fmt: skip
@each(
    "answer",
    ['{{"ok": true, "{}": "z9z"}}', '{{"a":{{"{}":737737}}}}', '{{"{}":"z9z', '{{"{}": ["z9z"]}}',
     '{{"{}":{{"a":"z9z"}}}}', '{{"a":"{{\\"{}\\":\\"z9z\\"}}"}}', "ok=1&{}=z9z&b=2", "{}=z9z", '{{"{}":"z\\"z9z"}}',
     '{{"{}":z9z}}'],
)  # fmt: skip
def test_values_of_secret_names_are_removed_from_an_answer(answer: str, name: str) -> None:
    """Of JSON and forms, whole or cut off, nested or escaped."""
    kept = redacted_answer(answer.format(name))
    assert "z9z" not in kept
    assert "737737" not in kept
    assert "***" in kept


@each("value", ["737", "4821", "12345", "9F3A2B1C4D5E6F70", "4509953566233704D25121010000", "MTIzNDU2", "737.5", "٧٣٧"])
@each(
    "template",
    ['{{"{}": "z"}}', '{{"a": {{"{}": "z"}}, "ok": true}}', '{{"a":"{{\\"{}\\":\\"z\\"}}"}}', '{{"{}": ["a", "z"]}}',
     "{}=z&ok=1", "<{0}>z</{0}>", "{}: z", "{} z was refused",
     '{{"error": "{} is z"}}', '{{"{}": z, "b": 2}}', '{{"{}": "z'],
)  # fmt: skip
@each(
    "name",
    ["cvvCode", "card.cvv", "cvn", "pvv", "Track2Equivalent", "verification", "x", "number", "data", "emv_57",
     "message", "card", "description", "external_reference", "id", "código"],
)  # fmt: skip
def test_values_that_are_not_known_to_be_harmless_are_removed_from_an_answer(
    name: str, template: str, value: str
) -> None:
    """Under any name and in any format, a verification value, a PIN block and a stripe are not kept."""
    text = template.format(name).replace("z", value)
    assert value not in redacted_answer(text)
    if name not in harmless.SENT:
        assert value not in redacted_body(text)
    assert value not in redacted_agent(text)


@each(
    "answer",
    ['{"ok":true,"status":500,"error":"signature mismatch","count":2,"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"}',
     '{"id":"ORD01J67CQQH5904WDBVZEM4JMEP3","total_amount":"24.90","at":"2026-01-31T14:26:42.109Z","v":null}',
     "<html><title>502 Bad Gateway</title><center>nginx/1.18.0</center></html>", "HTTP 503", "não autorizado",
     "java.lang.NullPointerException at line 42", "45099535-6623-4704-8111-111111111111"],
)  # fmt: skip
def test_harmless_values_of_an_answer_are_kept(answer: str) -> None:
    """Words, statuses, dates, versions and ids say why a receiver refused a notification."""
    assert redacted_answer(answer) == answer


@each(
    "answer",
    ["CVV 123 accepted", '{"message":"cvv 123: OK"}', "security code 321 - accepted", '{"seguridad":"123 OK"}',
     "cvc 123 found", "404 ok"],
)  # fmt: skip
def test_three_digits_before_a_phrase_are_no_status(answer: str) -> None:
    """But for the status whose phrase it is."""
    assert not re.search("[0-9]", redacted_answer(answer))


def test_an_escape_before_digits_leaves_json_as_it_is() -> None:
    """Its letter is none of what follows."""
    assert json.loads(redacted_answer(r'{"error":"foo\n1234567","path":"a\\b12345678"}')) == {
        "error": "foo\n***",
        "path": "a\\***",
    }


def test_of_a_long_user_agent_no_more_is_masked_than_is_kept() -> None:
    """It would take long, for a request that needs no credential."""
    assert len(redacted_agent("=1&" * 5_000)) <= 400


@each(
    "agent",
    ["shop/7", "python-requests/2.31.0", "Java/17.0.2", "Go-http-client/1.1", "",
     "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 Firefox/127.0",
     "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.6478.127 Safari/537.36",
     "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4"],
)  # fmt: skip
def test_programs_and_systems_of_a_user_agent_are_kept(agent: str) -> None:
    """The console names them."""
    assert redacted_agent(agent) == agent


def test_a_recorded_order_can_be_sent_again() -> None:
    """Fields of the interface are kept as they were sent, but for card numbers."""
    point = {"terminal_id": "NEWLAND_N950__N950NCB801293324", "ticket_number": "S0392"}
    order = {"type": "point", "external_reference": "737", "description": "Phone 128 GB", "expiration_time": "PT16M"}
    body = json.dumps(order | {"transactions": {"payments": [{"amount": "24.90"}]}, "config": {"point": point}})
    assert redacted_body(body) == body
    assert "3704" not in redacted_body('{"external_reference": "4509953566233704"}')


def test_every_field_of_the_interface_is_a_secret_or_kept() -> None:
    """The list of fields whose values are kept is that of the OpenAPI document, without objects."""
    secret = {"access_token", "authorization_code", "chip_data", "client_secret", "code", "code_verifier",
              "device_code", "device_token", "encrypted_data", "issuer_data", "refresh_token", "token",
              "user_code"}  # fmt: skip
    document = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())
    paths = {
        path: item
        for path, item in document["paths"].items()
        if path.startswith(("/v1/", "/terminals/", "/oauth/", "/device/", "/users/"))
    }
    plain, objects = set[str](), set[str]()
    read, waiting = set[str](), [paths, document.get("webhooks", {})]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            for name, schema in node["properties"].items() if isinstance(node.get("properties"), dict) else ():
                (objects if _is_object(schema, document) else plain).add(name)
            reference = node.get("$ref")
            if isinstance(reference, str) and reference not in read:
                read.add(reference)
                waiting.append(_resolved(node, document))
            waiting += node.values()
    assert plain - secret <= harmless.ANSWERED
    assert not (secret | objects - plain) & harmless.ANSWERED


def _resolved(schema: Any, document: Any) -> Any:
    return reduce(getitem, schema["$ref"][2:].split("/"), document) if "$ref" in schema else schema


def _is_object(schema: Any, document: Any) -> bool:
    """Return whether the schema is one of an object, or of an array of objects or of anything."""
    schema = _resolved(schema, document)
    choices = schema.get("anyOf") or schema.get("oneOf") or [schema.get("items", schema)]
    return any(not choice or _resolved(choice, document).get("type") == "object" for choice in choices)


def test_escaped_digits_and_names_are_read() -> None:
    """JSON may write any character as its number."""
    kept = redacted_answer('{"cv\\u0076": "z9z", "note": "\\u0034111 1111 1111 1111"}')
    assert "z9z" not in kept
    assert "1111" not in kept


@pytest.mark.parametrize(
    "answer",
    ['{"status":"ok","shipping":"fast","mapping":3,"company":"Pan American"}', "thank you", "<html>spin=1</html>",
     "ok=1&b=2"],
)  # fmt: skip
def test_other_answers_are_unchanged(answer: str) -> None:
    """Names that only end like a secret one, and texts."""
    assert redacted_answer(answer) == answer


def _odd_answers(size: int) -> list[str]:
    chance = random.Random(1)
    odd = ['"a":', '{"a":"', '"\\', "a=", "=&", '"a" ', "[{", "%B4", "pin=", "4 ", "\\u0034", "d" * 41, "bcdf-"]
    odd += ["=", "%24", "\\" * 1000 + '"a', '"pin":' + "\\" * 1000 + '"', '"a"' + " " * 1000, *hostile.UNITS.values()]
    texts = [one * size for one in odd] + ["".join(chance.choices(odd, k=size))]
    return [(start + text)[:size] for start in ("", '"pin":', '{"a":"', '"pin\\":\\"', "pin=") for text in texts]


@pytest.mark.parametrize("size", [4608, 32 * 1024])
def test_masking_time_is_proportional_to_the_size(size: int) -> None:
    """Whatever the answer is, masking it takes at most 20 ms of processor time for each 4,608 characters."""
    for text in quarter(_odd_answers(size)):
        timed(20 * size / 4608, redacted_answer, text)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(_odd_answers(1))))
def test_the_instructions_of_masking_are_proportional_to_the_size(number: int) -> None:
    """64 KiB take as many as the time above has."""
    counted(20 * 64 * 1024 / 4608, redacted_answer, _odd_answers(64 * 1024)[number])


def test_request_ids_are_not_masked(stream: io.StringIO) -> None:
    """A UUID is written as it is, whatever its digits are: lines of one request must be found by it."""
    for identity in ("45099535-6623-4704-8111-111111111111", "41111111-1111-1111-8000-000000000000"):
        stream.seek(0)
        stream.truncate()
        request_log.write("GET", "/v1/orders", 200, identity, time.perf_counter(), None, "203.0.113.9")
        assert json.loads(stream.getvalue())["request_id"] == identity


def test_ip_addresses_are_not_masked() -> None:
    """The digits of an IP address may look like a card number; text with a zone may be anything."""
    address = "a9bd:8581:ef41:6932:1891:631b:5bc:87ae"
    assert redacted(address) != address
    for kept in (address, f"{address}/64", "203.0.113.9"):
        assert redacted({"address": kept}) == {"address": kept}
    for masked in ("4111111111111111", "::1%4111111111111111"):
        assert "4111" not in redacted({"address": masked})["address"]


@each(
    "name",
    ["token", "api_key", "API%2DKEY", "%74oken", "authtoken", "secretkey", "x-amz-signature", "jwt", "webhookSecret",
     "credentials", "passcode", "sig", "code"],
)  # fmt: skip
def test_secret_parameters_of_a_url_are_masked(name: str) -> None:
    """Under any of the usual names, however they are written; other parameters stay."""
    shown = redacted_url(f"https://shop.example/hook?shop=7&{name}=open=sesame&data.id=ord1&type=order")
    assert shown == f"https://shop.example/hook?shop=7&{name}=***&data.id=ord1&type=order"


@each(
    "name",
    [
        "correct-Horse%2Bbattery-f073093c",
        "9kh3-3tg4-5a3b-2kqq-rqm5",
        "kqrt-mnbx-wzhd-jkpl-vcds",
        "k" * 32,
        "hunter2024",
    ],
)
def test_names_of_parameters_that_are_no_words_are_masked(name: str) -> None:
    """A secret that was sent as a name, with a value or alone, is not kept; words and numbers stay."""
    assert redacted_url(f"/v1/orders?{name}=1&page=2&data.id=7&{name}") == "/v1/orders?***=1&page=2&data.id=7&***"
