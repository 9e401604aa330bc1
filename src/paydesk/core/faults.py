"""The grammar of faults: what goes wrong on purpose, and with which requests. Pure: no I/O.

A fault is one line, `edge request kind[:argument][,kind…] [field=value…]`: `till create_order slow:5s every=3 seed=7`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Edge = Literal["till", "terminal", "acquirer", "webhook"]
EDGES: tuple[Edge, ...] = get_args(Edge)
ANY_REQUEST = "*"

_WIRE: tuple[Edge, ...] = ("till", "terminal")
_NOT_WEBHOOK: tuple[Edge, ...] = ("till", "terminal", "acquirer")
KINDS: Mapping[str, tuple[Edge, ...]] = {
    "reset": EDGES,
    "late": EDGES,
    "answer_lost": _NOT_WEBHOOK,
    "slow": _NOT_WEBHOOK,
    **dict.fromkeys(("dribble", "cut", "broken_json", "busy", "limited", "error", "missing", "error_after"), _WIRE),
    "twice": (*_WIRE, "webhook"),
    "out_of_order": ("terminal", "webhook"),
    **dict.fromkeys(("altered", "empty"), ("till",)),
    **dict.fromkeys(("decline", "not_sent", "other_amount"), ("acquirer",)),
    **dict.fromkeys(("before_answer", "bad_signature", "old_timestamp", "forged"), ("webhook",)),
}
"""The kinds, with the edges that have them."""
DELAYING = ("late", "slow", "dribble", "limited", "out_of_order")
FAILING = ("error", "error_after")
MATCHES: Mapping[Edge, tuple[str, ...]] = {
    "till": ("application", "seller", "mode", "terminal", "reference", "order", "grant"),
    "terminal": ("seller", "mode", "terminal", "reference", "order"),
    "acquirer": ("seller", "mode", "terminal", "order", "card"),
    "webhook": ("application", "seller", "mode", "order", "subscription"),
}
MODES = ("test", "live")
ACQUIRER_REQUESTS = ("payment", "inquiry", "confirm", "refund", "reversal")
PER = ("all", "key")
HEADER_FIELDS = ("delay", "status", "set")

EVERY_MAX, TIMES_MAX, SKIP_MAX, SEED_MAX = 1000, 1000, 1_000_000, 2**53 - 1
DELAY_SECONDS_MAX, ACQUIRER_DELAY_SECONDS_MAX, HELD_SECONDS_MAX = 600, 86_400, 60.0
LINE_CHARACTERS_MAX, VALUE_CHARACTERS_MAX, KINDS_MAX = 2000, 200, 10
STATUS_MIN, STATUS_MAX = 400, 599

_SECONDS = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(ms|s|m|h)?", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_DETAIL = re.compile("[a-z_]{1,64}")
_POINTER = re.compile(f"/[^=]{{0,{VALUE_CHARACTERS_MAX - 1}}}")
_LINE = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^;])+""", re.DOTALL)
"""The text up to the next semicolon that is not quoted, as a shell reads it."""
_NUMBERS = {"every": (1, EVERY_MAX), "times": (0, TIMES_MAX), "skip": (0, SKIP_MAX), "seed": (-SEED_MAX, SEED_MAX),
            "status": (STATUS_MIN, STATUS_MAX)}  # fmt: skip


class FaultRefused(ValueError):
    """A fault that the grammar does not have: the field, and the rule that it breaks."""

    def __init__(self, name: str, rule: str) -> None:
        super().__init__(f"{name} {rule}")
        self.field, self.rule = name, rule


@dataclass(frozen=True, slots=True)
class Kind:
    """What goes wrong; the argument is a delay such as `5s`, a status, or the detail of a decline."""

    name: str
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.argument}" if self.argument else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault; `create` checks what it is made of."""

    edge: Edge
    request: str
    kinds: tuple[Kind, ...]
    match: Mapping[str, str] = field(default_factory=dict)
    every: int = 1
    times: int = 1
    """Maximum number of firings; 0: without end."""
    skip: int = 0
    delay: float | None = None
    per: str = "all"
    seed: int | None = None
    status: int | None = None
    set: Mapping[str, Any] = field(default_factory=dict)
    """The values of an altered answer by their JSON pointers."""

    @property
    def kind(self) -> str:
        """The kinds as text."""
        return ",".join(map(str, self.kinds))

    def hits(self, number: int) -> bool:
        """Return whether the matching request with this number, from 1, is chosen: one of each `every`.

        It is the last one, or with a seed one that depends on the seed and the place in the sequence alone.
        """
        turn, place = divmod(number - self.skip - 1, self.every)
        chosen = self.every - 1 if self.seed is None else _draw(f"{self.seed}:{turn}", self.every)
        return number > self.skip and place == chosen

    def kind_at(self, firing: int) -> Kind:
        """Return the kind of the firing with this number, from 1: in turn, or as the seed chooses."""
        drawn = firing - 1 if self.seed is None else _draw(f"{self.seed}:kind:{firing}", len(self.kinds))
        return self.kinds[drawn % len(self.kinds)]

    def delay_of(self, kind: Kind) -> float | None:
        """Return the seconds of a kind; None if it has none."""
        return seconds_of(kind.argument) if kind.argument and kind.name in DELAYING else self.delay

    def status_of(self, kind: Kind, default: int) -> int:
        """Return the status that a kind answers."""
        return int(kind.argument) if kind.argument else self.status or default

    @property
    def line(self) -> str:
        """The line that makes this fault."""
        defaults = {"every": 1, "times": 1, "skip": 0, "per": "all"}
        names = ("every", "times", "skip", "delay", "per", "seed", "status")
        fields = {name: one for name in names if (one := getattr(self, name)) not in (None, defaults.get(name))}
        if self.delay is not None:
            fields["delay"] = f"{self.delay:.3f}".rstrip("0").rstrip(".") + "s"
        named = (f"{name}={one}" for name, one in {**self.match, **fields}.items())
        words = [self.edge, self.request, self.kind, *named]
        words += (f"set={pointer}={_as_text(one)}" for pointer, one in self.set.items())
        return shlex.join(words)


def create(edge: str, request: str, kind: str, match: Mapping[str, str] | None = None, **fields: Any) -> Fault:
    """Return a fault. Raises `FaultRefused`; the values of `fields` have their types."""
    if edge not in EDGES:
        raise FaultRefused("edge", f"must be one of {', '.join(EDGES)}")
    if edge == "acquirer" and request not in (names := (ANY_REQUEST, *ACQUIRER_REQUESTS)):
        raise FaultRefused("request", f"must be one of {', '.join(names)} at the edge acquirer")
    known = {name: one for name, one in fields.items() if one is not None}
    for name, (least, most) in _NUMBERS.items():
        if name in known and not least <= known[name] <= most:
            raise FaultRefused(name, f"must be a whole number from {least} to {most}")
    _check_values(edge, match or {}, known.get("set"))
    kinds = tuple(_kind(edge, word) for word in kind.split(","))
    if len(kinds) > KINDS_MAX:
        raise FaultRefused("kind", f"must name at most {KINDS_MAX} kinds")
    if len(kinds) == 1 and kinds[0].argument and kinds[0].name in DELAYING and "delay" not in known:
        known["delay"], kinds = seconds_of(kinds[0].argument), (Kind(kinds[0].name),)
    if "delay" in known:
        known["delay"] = round(known["delay"], 3) or 0.0
    return _checked(Fault(edge=edge, request=request, kinds=kinds, match=match or {}, **known))


def parse(line: str) -> Fault:
    """Return the fault of a line. Raises `FaultRefused`."""
    if len(line) > LINE_CHARACTERS_MAX:
        raise FaultRefused("line", f"must have at most {LINE_CHARACTERS_MAX} characters")
    edge, request, kind, *rest = _words(line, "edge request kind", 3)
    return create(edge, request, kind, **typed(rest))


def parse_header(edge: Edge, request: str, text: str) -> Fault:
    """Return the fault of one request, whose header has `kind[:argument] [field=value…]`. Raises `FaultRefused`."""
    kind, *rest = _words(text, "kind", 1)
    for name in {word.partition("=")[0] for word in rest}.difference(HEADER_FIELDS):
        raise FaultRefused(name, f"is not for a single request: use {', '.join(HEADER_FIELDS)}")
    return create(edge, request, kind, **typed(rest))


def parse_all(lines: str) -> list[Fault]:
    """Return the faults of lines that are separated by semicolons. Raises `FaultRefused`, which quotes the line."""
    faults = []
    for line in filter(None, map(str.strip, _LINE.findall(lines))):
        try:
            faults.append(parse(line))
        except FaultRefused as error:
            raise FaultRefused(f"{line!r}: {error.field}", error.rule) from None
    return faults


def typed(words: Iterable[str]) -> dict[str, Any]:
    """Return the fields of `name=value` texts. Raises `FaultRefused`."""
    fields: dict[str, Any] = {"match": {}, "set": {}}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise FaultRefused(name, "must be followed by = and a value")
        if name == "set":
            pointer, _, text = value.partition("=")
            fields["set"][pointer] = json_or_text(text)
        elif name in ("delay", "per"):
            fields[name] = seconds_of(value) if name == "delay" else value
        elif name in _NUMBERS:
            if not re.fullmatch("-?[0-9]{1,16}", value):
                raise FaultRefused(name, "must be a whole number")
            fields[name] = int(value)
        elif name in {one for names in MATCHES.values() for one in names}:
            fields["match"][name] = value
        else:
            raise FaultRefused(name, f"is not a field: use {', '.join((*_NUMBERS, 'delay', 'per', 'set'))}, or a match")
    return fields


def seconds_of(text: str) -> float:
    """Return the seconds of `5s`, `0.5s`, `200ms`, `2m` or `5`. Raises `FaultRefused`."""
    if (match := _SECONDS.fullmatch(text)) is None:
        raise FaultRefused("delay", "must be a time such as 5s, 0.5s or 2m")
    return float(match[1]) * _UNITS[match[2] or "s"]


def _words(line: str, form: str, least: int) -> list[str]:
    """Return the words of a line, as a shell splits them. Raises `FaultRefused` if there are fewer than `least`."""
    with suppress(ValueError):
        if len(words := shlex.split(line)) >= least:
            return words
    raise FaultRefused("line", f"must be `{form} [field=value…]`, not {line!r}")


def _kind(edge: Edge, word: str) -> Kind:
    name, _, argument = word.partition(":")
    name = "reset" if (edge, name) == ("webhook", "drop") else name  # Its earlier name.
    if name not in KINDS or edge not in KINDS[name]:
        own = [one for one, edges in KINDS.items() if edge in edges]
        raise FaultRefused("kind", f"must be one of {', '.join(own)} at the edge {edge}, not {name!r:.40}")
    kind = Kind(name, argument)
    if name == "decline" and not _DETAIL.fullmatch(argument):
        raise FaultRefused("kind", "must name the detail: decline:insufficient_amount")
    if name in FAILING and argument:
        if not (argument.isascii() and argument.isdigit() and STATUS_MIN <= int(argument) <= STATUS_MAX):
            raise FaultRefused("kind", f"must have a status from {STATUS_MIN} to {STATUS_MAX}, as error:503")
    elif argument and name != "decline":
        if name not in DELAYING:
            raise FaultRefused("kind", f"has no argument with {name}")
        seconds_of(argument)
    return kind


def _check_values(edge: Edge, match: Mapping[str, str], values: Mapping[str, Any] | None) -> None:
    """Check the values that requests must have, and those of an altered answer. Raises `FaultRefused`."""
    for name, value in match.items():
        if name not in MATCHES[edge]:
            raise FaultRefused(f"match.{name}", f"is not known at this edge: use {', '.join(MATCHES[edge])}")
        if not 0 < len(value) <= VALUE_CHARACTERS_MAX:
            raise FaultRefused(f"match.{name}", f"must have 1 to {VALUE_CHARACTERS_MAX} characters")
        if name == "mode" and value not in MODES:
            raise FaultRefused("match.mode", f"must be one of {', '.join(MODES)}")
    try:
        json.dumps(values, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        raise FaultRefused("set", "must have text and numbers that JSON can have") from None


def _checked(fault: Fault) -> Fault:
    """Return the fault, if its fields may stand beside one another. Raises `FaultRefused`."""
    names = [kind.name for kind in fault.kinds]
    most = ACQUIRER_DELAY_SECONDS_MAX if fault.edge == "acquirer" else DELAY_SECONDS_MAX
    for delay in map(fault.delay_of, fault.kinds):
        if delay is not None and not 0 <= delay <= most:
            raise FaultRefused("delay", f"must be from 0 to {most} seconds")
    if fault.delay is not None and not set(names) & set(DELAYING):
        raise FaultRefused("delay", f"is only for {', '.join(DELAYING)}")
    if "dribble" in names and not all(fault.delay_of(kind) for kind in fault.kinds if kind.name == "dribble"):
        raise FaultRefused("delay", "is needed with dribble: over how long the answer comes")
    if fault.status is not None and not set(names) & set(FAILING):
        raise FaultRefused("status", f"is only for {', '.join(FAILING)}")
    if ("altered" in names) != bool(fault.set):
        raise FaultRefused("set", "is needed with altered, and only with it: set=/status=weird")
    if not all(map(_POINTER.fullmatch, fault.set)):
        raise FaultRefused("set", "must name a place from the answer's top, without =: /transactions/payments/0/amount")
    if len(fault.line) > LINE_CHARACTERS_MAX:
        raise FaultRefused("set", f"is too long: the fault in one line has at most {LINE_CHARACTERS_MAX} characters")
    if fault.per not in PER or (fault.per == "key" and fault.edge != "acquirer"):
        raise FaultRefused("per", "must be all, or at the edge acquirer key")
    return fault


def json_or_text(text: str) -> Any:
    """Return the value of JSON, or the text if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) and json_or_text(value) == value else json.dumps(value)


def _draw(text: str, count: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % count
