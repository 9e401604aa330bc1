"""The parameters of an order search: their schemas, their validation, and the parsed query."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from paydesk.core.errors import PROPERTY_VALUE, UNSUPPORTED_PROPERTIES, Fault, Refusal
from paydesk.core.text import CHARACTER
from paydesk.operation import Query
from paydesk.orders.schemas import EXTERNAL_REFERENCE_PATTERN
from paydesk.orders.status import DETAILS
from paydesk.orders.status_labels import EXTENDED, Labels

LIMIT_DEFAULT, LIMIT_MAX = 50, 100
OFFSET_MAX = 10_000_000
DAY_MS = 24 * 3600 * 1000
DEFAULT_MS, RANGE_MS_MAX = 30 * DAY_MS, 31 * DAY_MS
"""A calendar month has at most 31 days."""
NEVER_MS = 2**62
NAME_CHARACTERS_MAX = 64
FAULTS_MAX = 50

_WORD = {"type": "string", "pattern": "^[a-z0-9_]{1,32}$"}
_DAY_PATTERN = "([0-9]{4}-[0-9]{2}-[0-9]{2})"
# An unescaped `+` arrives as a space.
_TIME_PATTERN = r"[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?([Zz]|[+ -][0-9]{2}:[0-9]{2})"
_DAY, _INSTANT = re.compile(_DAY_PATTERN), re.compile(_DAY_PATTERN + _TIME_PATTERN)
DATE = {
    "type": "string",
    "pattern": f"^{_DAY_PATTERN}(?:{_TIME_PATTERN})?$",
    "examples": ["2026-01-31", "2026-01-31T14:26:42.109Z"],
}
TERMINAL_ID_PATTERN = f"^{CHARACTER}{{1,80}}$"

_LIMITED = {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT}
PAGE = Query(
    "page",
    {"type": "integer", "minimum": 1, "maximum": OFFSET_MAX, "default": 1},
    "The page number. Cannot be combined with `offset` or `limit`.",
)
PAGE_SIZE = Query("page_size", _LIMITED, "Orders per page.")
OFFSET = Query("offset", {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX, "default": 0}, "Orders to skip.")
LIMIT = Query("limit", _LIMITED, "Orders at most.")

PARAMETERS = (
    Query("begin_date", DATE, "Created at this time or later: RFC 3339, or a date, which starts at midnight UTC."),
    Query(
        "end_date",
        DATE,
        "Created at this time or earlier; a date includes its whole day. At most one month after `begin_date`."
        " The default is the last 30 days.",
    ),
    Query("external_reference", {"type": "string", "pattern": EXTERNAL_REFERENCE_PATTERN}, "With this reference."),
    Query("type", {"const": "point"}, "The order type; there is only one."),
    Query("status", {"enum": list(EXTENDED.all)}, "With this status, as in responses."),
    Query("status_detail", {"enum": list(DETAILS)}, "With this detail."),
    Query("payment_method_id", _WORD, "Paid with this method, such as `visa`."),
    Query("payment_method_type", _WORD, "Paid with this type of method, such as `credit_card`."),
    Query("terminal_id", {"type": "string", "pattern": TERMINAL_ID_PATTERN}, "On this terminal."),
    PAGE,
    PAGE_SIZE,
    OFFSET,
    LIMIT,
    Query("sort_by", {"const": "created_date"}, "The sort key."),
    Query("sort_order", {"enum": ["asc", "desc"], "default": "desc"}, "The sort order; the default is newest first."),
)


@dataclass(frozen=True, slots=True)
class Search:
    """A parsed query: inclusive times, and the names of conditions of `search_store` with their values."""

    begin_ms: int
    end_ms: int
    filters: tuple[tuple[str, str], ...]
    offset: int
    limit: int
    newest_first: bool


def read(query_string: str, now_ms: int, labels: Labels) -> Search:
    """Parse a query string. Raises a refusal that names every invalid parameter."""
    query = _Query(query_string)
    begin_ms, end_ms = _dates(query, now_ms)
    offset, limit = _paging(query)
    label = query.checked("status", _one_of(*labels.all))
    filters = list(labels.conditions_of(label) if label is not None else ())
    filters += [(name, value) for name in FILTERS if (value := query.checked(name, FILTERS[name])) is not None]
    query.checked("type", _one_of("point"))
    query.checked("sort_by", _one_of("created_date"))
    newest_first = query.checked("sort_order", _one_of("asc", "desc")) != "asc"
    query.refuse_faults()
    return Search(begin_ms, end_ms, tuple(filters), offset, limit, newest_first)


Check = Callable[[str], Any]
"""Return a parameter's value from its text. Raises `ValueError` with the rule."""


class _Query:
    """The parameters that were sent, and their faults."""

    def __init__(self, query_string: str) -> None:
        sent = urllib.parse.parse_qsl(query_string, keep_blank_values=True)
        self._values = dict(sent)
        self._faults: dict[str, Fault] = {}
        names = {parameter.name for parameter in PARAMETERS}
        for name in self._values:
            if name not in names:
                printable = name if name.isprintable() else ascii(name)
                self._faults[name] = Fault(
                    UNSUPPORTED_PROPERTIES, f"'{printable[:NAME_CHARACTERS_MAX]}' - is not known here"
                )
            elif sum(name == other for other, _ in sent) > 1:
                self.fault(name, "must be sent once")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def checked(self, name: str, check: Check) -> Any:
        """Return the parameter's value; None if it was not sent or is invalid."""
        text = self._values.get(name)
        if text is None or name in self._faults:
            return None
        try:
            return check(text)
        except ValueError as error:
            return self.fault(name, str(error))

    def fault(self, name: str, what: str) -> None:
        """Add a parameter's fault; the first one of each parameter is kept."""
        self._faults.setdefault(name, Fault(PROPERTY_VALUE, f"'{name}' - {what}"))

    def refuse_faults(self) -> None:
        """Raise a refusal with up to `FAULTS_MAX` faults, in the order in which the parameters were sent."""
        faults = tuple(self._faults[name] for name in self._values if name in self._faults)[:FAULTS_MAX]
        if faults:
            raise Refusal(faults[0].kind, "; ".join(fault.detail for fault in faults), faults=faults)


def _dates(query: _Query, now_ms: int) -> tuple[int, int]:
    """Return the first and last millisecond. Without `end_date` there is no end, because node clocks differ."""
    begin = query.checked("begin_date", instant_of)
    end = query.checked("end_date", instant_of)
    if begin is not None and end is not None and end[0] < begin[0]:
        query.fault("end_date", "must not be before begin_date")
    elif begin is not None and (end or (now_ms,))[0] - begin[0] > RANGE_MS_MAX:
        query.fault("begin_date", "must be at most one month before end_date, which defaults to now")
    begin_ms = begin[0] if begin is not None else (end[0] if end is not None else now_ms) - DEFAULT_MS
    return begin_ms, end[1] if end is not None else NEVER_MS


def instant_of(text: str) -> tuple[int, int]:
    """Return the first and last millisecond of a date; for a time they are equal. Raises `ValueError`."""
    try:
        if _DAY.fullmatch(text):
            day_ms = _milliseconds(datetime.fromisoformat(f"{text}T00:00:00+00:00"))
            return day_ms, day_ms + DAY_MS - 1
        match = _INSTANT.fullmatch(text)
        if match is not None:
            day, time, fraction, zone = match.groups()
            zone = "+00:00" if zone in "Zz" else zone.replace(" ", "+")
            instant = _milliseconds(datetime.fromisoformat(f"{day}T{time}{zone}"))
            instant += int((fraction or "0").ljust(3, "0")[:3])
            return instant, instant
    except ValueError:
        pass
    raise ValueError("must be a date, such as 2026-01-31, or RFC 3339, such as 2026-01-31T14:26:42.109Z")


def is_instant(text: str) -> bool:
    """Return whether `instant_of` accepts the text."""
    try:
        instant_of(text)
    except ValueError:
        return False
    return True


def _milliseconds(instant: datetime) -> int:
    return int((instant - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1000


def _paging(query: _Query) -> tuple[int, int]:
    """Return the offset and limit, from either style of paging."""
    page, page_size, offset, limit = (
        query.checked(number.name, number.parse_number) for number in (PAGE, PAGE_SIZE, OFFSET, LIMIT)
    )
    if "page" in query or "page_size" in query:
        for name in ("offset", "limit"):
            if name in query:
                query.fault(name, "must not be sent with page or page_size")
        page_size = page_size or LIMIT_DEFAULT
        return ((page or 1) - 1) * page_size, page_size
    return offset or 0, limit or LIMIT_DEFAULT


def _one_of(*choices: str) -> Check:
    def check(text: str) -> str:
        if text in choices:
            return text
        raise ValueError(f"must be {choices[0]}" if len(choices) == 1 else f"must be one of {', '.join(choices)}")

    return check


def _matching(pattern: str, rule: str) -> Check:
    compiled = re.compile(pattern, re.ASCII)

    def check(text: str) -> str:
        if compiled.fullmatch(text):
            return text
        raise ValueError(rule)

    return check


_word = _matching(_WORD["pattern"], "must have 1 to 32 lowercase letters, digits and underscores")
FILTERS: dict[str, Check] = {
    "external_reference": _matching(EXTERNAL_REFERENCE_PATTERN, "must have 1 to 64 letters, digits, _ and -"),
    "status_detail": _one_of(*DETAILS),
    "payment_method_id": _word,
    "payment_method_type": _word,
    "terminal_id": _matching(TERMINAL_ID_PATTERN, "must have 1 to 80 characters, none of them control or invisible"),
}
