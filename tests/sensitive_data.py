"""Card data as canaries: sent in every part of a request, and searched for wherever the service stores data."""

from __future__ import annotations

import itertools
import json
import random
import re
import unicodedata
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import Any

from declared.attempt import Attempt
from paydesk.platform.http.openapi import fields
from paydesk.platform.http.refusals.error_responses import takes_body
from paydesk.platform.storage.database import Database
from service import Reply

HEADERS = ("User-Agent", "Referer", "X-Forwarded-For", "Accept-Language", "X-Test-Token", "X-Card", "X-Cvv",
           "X-Request-Id")  # fmt: skip
SPELLINGS = 10
NUMBER, REST, WORD = 16, 13, 16
"""The lengths of a card number, of what follows it on a magnetic stripe, and of a word."""
NO_DIGITS, WORDS = re.compile(r"[\0-/:-\x7f]+"), re.compile(rf"[0-9A-F]{{{WORD},}}")
NUMBERS = re.compile(rf"(?=(4[0-9]{{{NUMBER - 1}}}|7[0-9]{{{REST - 1}}}))")
"""Where a card number or what follows it may begin, in digits."""

ALONE = {
    "Authorization": "Bearer {}",
    "Content-Type": "{}",
    "Cookie": "paydesk_session={}",
    "Host": "{}",
    "X-Idempotency-Key": "{}",
}
"""Headers that the service reads. Each makes its request invalid, so it is sent alone."""


@dataclass
class Canaries:
    """All values that were sent and must not be stored."""

    chance: random.Random = field(default_factory=random.Random)
    numbers: set[str] = field(default_factory=set)
    """Digits: card numbers, and what follows them on a magnetic stripe."""
    words: set[str] = field(default_factory=set)
    """Values that are recognized only by the name of their field."""
    spellings: int = 0
    """How many spellings were used so far."""

    def number(self) -> str:
        """Return a new card number."""
        digits = "4" + "".join(self.chance.choices("0123456789", k=NUMBER - 2))
        doubled = (int(digit) * (1 + (place % 2 == 0)) for place, digit in enumerate(digits))
        whole = digits + str(-sum(number // 10 + number % 10 for number in doubled) % 10)
        self.numbers.add(whole)
        return whole

    def texts(self) -> Iterator[str]:
        """Yield card numbers and magnetic stripes as they occur in free text, each with a new number."""
        yield self.number()
        yield " ".join(_fours(self.number()))
        yield "\u200b".join(self.number())
        yield self.number().translate({48 + digit: 0x660 + digit for digit in range(10)})
        yield f"%B{self.number()}^SHOPPER/ANA^2512101{self._rest()}?"
        yield f";{self.number()}=2512101{self._rest()}?"
        yield f"{self.number()}D2512101{self._rest()}F"
        yield f"https://shop.example/{self.number()}"
        yield f"{self.number()}@shop.example"
        yield f"{self.number()}{'x' * 27}"

    def some(self) -> Iterator[str]:
        """Yield one of these texts, the next one each time, so that all parts together use all of them."""
        self.spellings += 1
        first = self.spellings % SPELLINGS
        yield from itertools.islice(self.texts(), first, first + 1)

    def named(self) -> dict[str, str]:
        """Sensitive fields, by the names that terminals and acquirers give them."""
        names = ("cvv", "cvc2", "pin", "pin_block", "cvvCode", "card.cvv", "cvn", "pvv")
        texts = list(self.texts())
        made = dict(
            zip(("track1", "track2", "57", "card_number"), (texts[4], texts[5], texts[6], texts[0]), strict=True)
        )
        return {name: self.word() for name in names} | made | {"Track2Equivalent": next(self.texts())}

    def word(self) -> str:
        """Return a new PIN block."""
        made = f"{self.chance.getrandbits(64):016X}"
        self.words.add(made)
        return made

    def found_in(self, text: str) -> list[str]:
        """Return the canaries in the text, in any script and with anything between their digits."""
        digits = NO_DIGITS.sub("", text)
        if not digits.isascii():
            found = (unicodedata.digit(character, None) for character in digits)
            digits = "".join(str(digit) for digit in found if digit is not None)
        parts = set(NUMBERS.findall(digits))
        runs = WORDS.findall(text.upper())
        words = {run[place : place + WORD] for run in runs for place in range(len(run) - WORD + 1)}
        return sorted((parts & self.numbers) | (words & self.words))

    def _rest(self) -> str:
        rest = "7" + "".join(self.chance.choices("0123456789", k=REST - 1))
        self.numbers.add(rest)
        return rest


def _fours(number: str) -> list[str]:
    return [number[place : place + 4] for place in range(0, len(number), 4)]


Valid = Callable[[], Awaitable[Attempt]]
Sending = Callable[[Attempt], Awaitable[Reply]]
Choose = Callable[[list[Sending]], list[Sending]]


async def sprayed(valid: Valid, canaries: Canaries, choose: Choose = list) -> AsyncIterator[Reply]:
    """Yield the answers to requests of one operation with canaries in every part, or in those that are chosen.

    After each success the next request starts from a new valid one.
    """
    attempt = await valid()
    places = (_in_headers(canaries), _in_query(attempt, canaries), _in_path(attempt, canaries))
    for send in choose([sending for place in (*places, _in_body(attempt, canaries)) for sending in place]):
        reply = await send(attempt)
        yield reply
        if reply.status < 400 and attempt.operation.method != "GET":
            attempt = await valid()


def _in_headers(canaries: Canaries) -> Iterator[Sending]:
    yield _with_headers({"User-Agent": f"POS/1.0 {canaries.word()} cvv={canaries.word()}"})
    for text in canaries.some():
        value = text if text.isascii() else urllib.parse.quote(text)
        yield _with_headers(dict.fromkeys(HEADERS, value))
        for name, template in ALONE.items():
            yield _with_headers({name: template.format(value)})


def _in_query(attempt: Attempt, canaries: Canaries) -> Iterator[Sending]:
    yield _with_query(canaries.named())
    for query in attempt.operation.query:
        for text in canaries.some():
            yield _with_query({query.name: text})


def _in_path(attempt: Attempt, canaries: Canaries) -> Iterator[Sending]:
    for name in attempt.paths:
        for text in canaries.some():
            hexadecimal = "".join(f"%{byte:02X}" for byte in text.encode())
            for quoted in (urllib.parse.quote(text, safe=""), hexadecimal, urllib.parse.quote(hexadecimal)):
                yield _with_path({name: quoted})


def _in_body(attempt: Attempt, canaries: Canaries) -> Iterator[Sending]:
    if not takes_body(attempt.operation):
        return
    for text in (*canaries.some(), json.dumps(canaries.named()), json.dumps(canaries.named())[:-9]):
        yield _with_raw(text.encode())
    for place in _places(attempt):
        for value in (canaries.number(), *canaries.some(), canaries.named()):
            yield _with_field(place, value)
    for name, value in canaries.named().items():
        yield _with_field(name, value)
    for text in canaries.some():
        yield _with_field(text.replace(".", "_"), "1")


def _with_headers(headers: dict[str, str]) -> Sending:
    return lambda attempt: attempt.send(headers=headers)


def _with_query(sent: dict[str, str]) -> Sending:
    def send(attempt: Attempt) -> Awaitable[Reply]:
        query = dict(urllib.parse.parse_qsl(attempt.query[1:])) | sent
        return replace(attempt, query="?" + urllib.parse.urlencode(query)).send()

    return send


def _with_path(sent: dict[str, str]) -> Sending:
    return lambda attempt: attempt.at(**sent).send()


def _with_raw(raw: bytes) -> Sending:
    return lambda attempt: attempt.send(data=raw)


def _with_field(place: str, value: Any) -> Sending:
    return lambda attempt: attempt.send(body=_changed(attempt.body, place, value))


def _places(attempt: Attempt) -> list[str]:
    """Return the fields of the operation's model and of its valid body."""
    model = attempt.operation.body
    rows = [row.path for row in fields.rows_of(fields.plain(model.model_json_schema()))] if model is not None else []
    return list(dict.fromkeys([*rows, *_paths_of(attempt.body or {})]))


def _paths_of(document: dict[str, Any]) -> Iterator[str]:
    for name, value in document.items():
        yield name
        if isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in _paths_of(value))


def _changed(document: Any, place: str, value: Any) -> Any:
    """Return the document with this value at the path, creating the parents."""
    name, _, rest = place.partition(".")
    is_list, name = name.endswith("[]"), name.removesuffix("[]")
    copied = dict(document) if isinstance(document, dict) else {}
    current = copied.get(name)
    if isinstance(current, list) and (is_list or not rest):
        copied[name] = [_changed(current[0] if current else {}, rest, value) if rest else value]
    elif is_list:
        copied[name] = [_changed({}, rest, value)]
    else:
        copied[name] = _changed(current, rest, value) if rest else value
    return copied


async def stored(database: Database) -> dict[str, str]:
    """Return the content of each table as text."""
    found: dict[str, str] = {}
    for table in await _tables(database):
        rows = await database.read(methodcaller("all", f'SELECT * FROM "{table}"'))
        found[table] = "\n".join("\t".join(_text(value) for value in row) for row in rows)
    return found


async def _tables(database: Database) -> list[str]:
    listed = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
        "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
    }
    name = "sqlite" if "sqlite" in database.name.lower() else "postgres"
    rows: list[Any] = await database.read(methodcaller("all", listed[name]))
    return [row[0] for row in rows]


def _text(value: Any) -> str:
    return bytes(value).decode(errors="replace") if isinstance(value, bytes | memoryview) else str(value)
