"""The most expensive content of requests within the limits of size: texts, JSON, forms, queries and headers."""

from __future__ import annotations

import copy
import itertools
import json
import string
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, partial
from typing import Any

from paydesk.platform.http.body import BODY_BYTES_MAX, DEPTH_MAX, FORM_FIELDS_MAX, MEMBERS_MAX

QUERY_BYTES_MAX = 7 * 1024
HEADER_BYTES_MAX = 14 * 1024

UNITS: Mapping[str, str] = {
    "letters": "a",
    "capitals": "TG-",
    "digits": "1",
    "card_numbers": "4111 1111 1111 1111 ",
    "digit_groups": "4 1-",
    "hex": "0f",
    "blanks": " ",
    "dots": "a.",
    "colons": "a:",
    "slashes": "/a",
    "at_signs": "a@",
    "backslashes": "\\",
    "quotes": '"',
    "escaped_nul": "\x00",
    "format_characters": "\U000e0041",
    "joiners": "\u200d",
    "combining": "a\u0301",
    "wide": "\U0001f600",
    "durations": "PT1H",
    "lists": "a,b;q=0.1,",
    "parameters": "&a=b",
    "markup": "<b>",
    "percent": "%41",
    "dollars": "$argon2id$",
}
"""Texts that are repeated up to the size needed."""


def texts(size: int, encoded: Callable[[str], int]) -> Iterator[tuple[str, str]]:
    """Yield a text of each kind that has at most `size` bytes when it is encoded."""
    for name, unit in UNITS.items():
        yield name, unit * (size // encoded(unit))


@lru_cache(maxsize=200)
def quoted(text: str) -> str:
    """Return the text as a part of an address; long ones are quoted again for every operation."""
    return urllib.parse.quote(text, safe="")


@cache
def documents() -> tuple[tuple[str, bytes], ...]:
    """Return JSON that matches no model, close to the limit of size."""
    return tuple(_documents())


def _documents() -> Iterator[tuple[str, bytes]]:
    keys = list(_names(40_000))
    wide = dict.fromkeys(keys[:MEMBERS_MAX], 0)
    yield "unknown_keys", _json(dict.fromkeys(keys[:7_000], 1))
    yield "unknown_keys_allowed", _json(wide)
    yield "long_keys", _json({f"{key}{'é' * 100}": 1 for key in keys[:MEMBERS_MAX]})
    yield "one_long_key", _json({"\U0001f600" * 16_000: None})
    numbers = UNITS["card_numbers"] * 3_000
    yield "one_name_of_card_numbers", _json({numbers: 1})
    yield "doubled_name_of_card_numbers", b'{"%s":1,"%s":1}' % ((numbers[:30_000].encode(),) * 2)
    yield "names_of_card_numbers", _json({f"{number:03}{numbers[:125]}": 1 for number in range(MEMBERS_MAX)})
    yield "doubled_long_key", b'{"%s":1,"%s":1}' % (b"a" * 32_000, b"a" * 32_000)
    for name, value in (("nulls", None), ("numbers", 1), ("empties", []), ("controls", "\x00"), ("texts", "\u200d")):
        member = _json(value)
        rows = 60_000 // ((len(member) + 1) * MEMBERS_MAX)
        flat: Any = [[value] * MEMBERS_MAX] * rows
        yield f"many_{name}", _json({"a": flat})
        yield f"many_{name}_deep", _json(_nested(flat, DEPTH_MAX - 4, "a"))
    yield "nulls_at_long_paths", _json(_nested([None] * MEMBERS_MAX, DEPTH_MAX - 2, "\U0001f600" * 64))
    yield "objects", _json({"a": [[{"b": None}] * 200] * 29})
    yield "deep_array", b"[" * BODY_BYTES_MAX
    yield "deep_object", b'{"a":' * (BODY_BYTES_MAX // 5)
    yield "one_number", b'{"a":%s}' % (b"1" * 65_000)
    for name in ("backslashes", "quotes", "card_numbers"):
        unit = json.dumps(UNITS[name])[1:-1].encode()
        yield f"one_text_of_{name}", b'{"a":"%s"}' % (unit * (65_000 // len(unit)))
    yield "one_fraction", b'{"a":0.%s}' % (b"1" * 65_000)
    yield "one_exponent", b'{"a":1e%s}' % (b"1" * 65_000)
    yield "twenty_digits", _json({"a": [[10**19 + 1] * MEMBERS_MAX] * 11})
    yield "many_digits", _json({"a": [[10**21 + 1] * MEMBERS_MAX] * 10})
    yield "small_floats", _json({"a": [[5e-324] * MEMBERS_MAX] * 34})
    yield "broken_at_the_end", _json({"a": [[1] * MEMBERS_MAX] * 100})[:-1]
    yield "one_array", _json([0] * 32_000)
    yield "blanks", b" " * BODY_BYTES_MAX


def large(good: Mapping[str, Any], bytes_max: int) -> Iterator[tuple[str, bytes]]:
    """Yield JSON close to another limit of size: a name, and each text of the valid document, of card numbers."""
    numbers = UNITS["card_numbers"] * ((bytes_max - len(_json(good))) // len(UNITS["card_numbers"]) - 1)
    yield "large name", _json({numbers: 1})
    for name in (name for name, value in good.items() if isinstance(value, str)):
        yield f"large {name}", _json({**good, name: numbers})


def spoiled(good: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the valid document with one field replaced, `names` are its optional ones, by the largest values.

    It is written when it is called: most of them are not sent.
    """
    document = good if isinstance(good, dict) else {}
    room = 60_000 - len(_json(document))
    for path in (*_paths(document), *((name,) for name in names if name not in document)):
        where = ".".join(map(str, path))
        values = itertools.chain(texts(room, _of_a_text), _containers(_at(document, path), room))
        for name, value in values:
            yield f"{where}={name}", partial(_with, document, path, value)
    further = {**document, **dict.fromkeys(_names(MEMBERS_MAX - len(document)), None)}
    yield "further_keys", partial(_json, further)


@cache
def _of_a_text(unit: str) -> int:
    """Return how many bytes this takes within a text of JSON."""
    return len(_json(unit)) - 2


def _with(document: Any, path: tuple[str | int, ...], value: Any) -> bytes:
    return _json(_put(document, path, value))


def forms(good: Mapping[str, str]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the valid form with one field replaced, and forms with too many fields and escapes, written when called."""
    room = 62_000 - len(urllib.parse.urlencode(good))
    for field in good:
        for name, text in texts(room, lambda unit: len(quoted(unit))):
            yield f"{field}={name}", partial(_form, {**good, field: text})
    for name, written in _broken_forms():
        yield name, partial(bytes, written)


def _form(fields: Mapping[str, str]) -> bytes:
    return urllib.parse.urlencode(fields, quote_via=_of_a_form).encode()


@cache
def _broken_forms() -> tuple[tuple[str, bytes], ...]:
    numbers = UNITS["card_numbers"] * 3_000
    names = {f"{number:02}{numbers[:126]}": 1 for number in range(FORM_FIELDS_MAX)}
    return (
        ("one_name_of_card_numbers", urllib.parse.urlencode({numbers: 1}).encode()),
        ("doubled_name_of_card_numbers", b"&".join([urllib.parse.urlencode({numbers[:30_000]: 1}).encode()] * 2)),
        ("names_of_card_numbers", urllib.parse.urlencode(names).encode()),
        ("escapes", b"a=" + b"%41" * 21_000),
        ("broken_escapes", b"a=" + b"%" * 65_000),
        ("no_utf_8", b"a=" + b"%ff" * 21_000),
        ("blanks", b"a=" + b"+" * 65_000),
        ("separators", b"&" * BODY_BYTES_MAX),
        ("fields", b"&".join(b"%d=%d" % (number, number) for number in range(5_000))),
        ("fields_allowed", b"&".join(b"%d=%s" % (number, b"%41" * 400) for number in range(FORM_FIELDS_MAX))),
    )


_of_a_form = lru_cache(maxsize=200)(urllib.parse.quote_plus)


def queries(names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield queries with one parameter as large as possible, and those with too many parameters and escapes."""
    for field in names:
        for name, text in texts(QUERY_BYTES_MAX, lambda unit: len(quoted(unit))):
            yield f"{field}={name}", f"{field}={quoted(text)}"
        yield f"{field} many times", "&".join([f"{field}=1"] * (QUERY_BYTES_MAX // (len(field) + 3)))
    yield "one name", "%41" * (QUERY_BYTES_MAX // 3)
    yield "names", "&".join(f"{name}=" for name in _names(QUERY_BYTES_MAX // 4))
    yield "names without a value", "&".join(_names(QUERY_BYTES_MAX // 4))
    yield "separators", "&" * QUERY_BYTES_MAX
    yield "broken escapes", "a=" + "%" * QUERY_BYTES_MAX
    yield "no UTF-8", "a=" + "%ff" * (QUERY_BYTES_MAX // 3)


HEADERS: Mapping[str, tuple[str, ...]] = {
    "Accept-Language": ("lists", "letters", "colons"),
    "Cookie": ("letters", "quotes", "blanks"),
    "Origin": ("letters", "slashes", "at_signs", "colons"),
    "X-Forwarded-For": ("lists", "colons", "digits"),
    "X-Request-Id": ("letters",),
    "X-Test-Token": ("capitals",),
    "X-Allow-Cancelable-Status": ("lists",),
    "X-Signature": ("lists", "digits"),
    "Webhook-Signature": ("lists", "blanks"),
}
"""Headers that are read, with the texts that could be expensive to parse."""


def headers() -> Iterator[tuple[str, list[str]]]:
    """Yield header fields: each one that is read as large as possible, and as many as are accepted."""
    for field, kinds in HEADERS.items():
        for name in kinds:
            yield f"{field}={name}", [f"{field}: x{UNITS[name] * (HEADER_BYTES_MAX // len(UNITS[name]))}"]
    yield "latin_1", [f"Origin: http://{'é' * HEADER_BYTES_MAX}"]
    yield "weights", [f"Accept-Language: {','.join(['a;q=0.' + '1' * 250] * 50)}"]
    yield "cookies", [f"Cookie: {'; '.join(f'{name}={name}' for name in _names(1_500))}"]
    yield "fields", [f"X-{name}: {name * 50}" for name in _names(90)]


def _containers(there: Any, room: int) -> Iterator[tuple[str, Any]]:
    """Yield values other than texts; for an array also long arrays of its own items."""
    wide = dict.fromkeys(_names(MEMBERS_MAX), 0)
    yield "number", 10**19
    yield "object", wide
    yield "deep", _nested([None] * MEMBERS_MAX, DEPTH_MAX - 8, "a")
    item = there[0] if isinstance(there, list) and there else {}
    for count in (20, 50, 100, MEMBERS_MAX):
        each = room // count
        yield f"{count} items", [item] * min(count, room // (len(_json(item)) + 1))
        if isinstance(item, dict):
            yield f"{count} items of unknown keys", [{**item, **_filled(each - len(_json(item)) - 2)}] * count
        else:
            yield f"{count} long items", [f"https://{'a' * (each - 16)}"] * count


def _filled(room: int) -> dict[str, int | None]:
    """Return an object of unknown keys of about this size."""
    count = min(room // 7, MEMBERS_MAX - 20)
    return dict.fromkeys(_names(max(count, 0)), 0)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every value in the document."""
    if path:
        yield path
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in steps:
        yield from _paths(child, (*path, step))


def _at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document.get(step) if isinstance(document, dict) else document[step]
    return document


def _put(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    _at(changed, path[:-1])[path[-1]] = value
    return changed


def _nested(value: Any, levels: int, key: str) -> Any:
    for _ in range(levels):
        value = {key: value}
    return value


def _names(count: int) -> Iterator[str]:
    letters = string.ascii_letters
    every = ("".join(name) for length in (1, 2, 3) for name in itertools.product(letters, repeat=length))
    return itertools.islice(every, count)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
