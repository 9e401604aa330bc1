"""The parameters of an order search: their schemas, their validation, and the parsed query."""

from __future__ import annotations

import re
import urllib.parse
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from paydesk.core.errors import UNSUPPORTED_PROPERTIES
from paydesk.core.text.characters import CHARACTER
from paydesk.engine.orders.schemas import EXTERNAL_REFERENCE_PATTERN
from paydesk.engine.orders.status import DETAILS
from paydesk.engine.orders.status_labels import EXTENDED, Labels
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Query

LIMIT_DEFAULT, LIMIT_MAX = 50, 100
OFFSET_MAX = 10_000_000
DAY_MS = 24 * 3600 * 1000
DEFAULT_MS, RANGE_MS_MAX = 30 * DAY_MS, 31 * DAY_MS
"""A calendar month has at most 31 days."""
NEVER_MS = 2**62

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


_WORD = {"type": "string", "pattern": "^[a-z0-9_]{1,32}$"}
_WORD_RULE = "must have 1 to 32 lowercase letters, digits and underscores"
STATUS = Query("status", {"enum": list(EXTENDED.all)}, "With this status, as in responses.")
REFERENCE_RULE = "must have 1 to 64 letters, digits, _ and -"
TERMINAL_RULE = "must have 1 to 80 characters, none of them control or invisible"
PARAMETERS = (
    Query(
        "begin_date",
        DATE,
        "Created at this time or later: RFC 3339, or a date, which starts at midnight UTC.",
        check=instant_of,
    ),
    Query(
        "end_date",
        DATE,
        "Created at this time or earlier; a date includes its whole day. At most one month after `begin_date`."
        " The default is the last 30 days.",
        check=instant_of,
    ),
    Query(
        "external_reference",
        {"type": "string", "pattern": EXTERNAL_REFERENCE_PATTERN},
        "With this reference.",
        rule=REFERENCE_RULE,
    ),
    Query("type", {"const": "point"}, "The order type; there is only one."),
    STATUS,
    Query("status_detail", {"enum": list(DETAILS)}, "With this detail."),
    Query("payment_method_id", _WORD, "Paid with this method, such as `visa`.", rule=_WORD_RULE),
    Query("payment_method_type", _WORD, "Paid with this type of method, such as `credit_card`.", rule=_WORD_RULE),
    Query("terminal_id", {"type": "string", "pattern": TERMINAL_ID_PATTERN}, "On this terminal.", rule=TERMINAL_RULE),
    Query(
        "page",
        {"type": "integer", "minimum": 1, "maximum": OFFSET_MAX, "default": 1},
        "The page number. Cannot be combined with `offset` or `limit`.",
    ),
    Query("page_size", _LIMITED, "Orders per page."),
    Query("offset", {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX, "default": 0}, "Orders to skip."),
    Query("limit", _LIMITED, "Orders at most."),
    Query("sort_by", {"const": "created_date"}, "The sort key."),
    Query("sort_order", {"enum": ["asc", "desc"], "default": "desc"}, "The sort order; the default is newest first."),
)
COMPARED = ("external_reference", "status_detail", "payment_method_id", "payment_method_type", "terminal_id")
"""Those whose values are compared with a column, in the order of the conditions."""
_NAMES = {parameter.name for parameter in PARAMETERS}


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
    sent = urllib.parse.parse_qsl(query_string, keep_blank_values=True)
    names = Counter(name for name, _ in sent)
    repeated = [name for name, count in names.items() if count > 1]
    # Which statuses there are depends on the settings.
    parameters = (replace(STATUS, schema={"enum": labels.all}) if one is STATUS else one for one in PARAMETERS)
    filters = Filters(parameters, dict(sent), unread=repeated)
    for name in names.keys() - _NAMES:
        filters.fault(name, "is not known here", UNSUPPORTED_PROPERTIES)
    for name in repeated:
        filters.fault(name, "must be sent once")
    begin_ms, end_ms = _dates(filters, now_ms)
    offset, limit = _paging(filters)
    label = filters.get(STATUS.name)
    conditions = list(labels.conditions_of(label) if label is not None else ())
    conditions += [(name, filters.get(name)) for name in COMPARED if filters.get(name) is not None]
    filters.refuse_faults()
    newest_first = filters.get("sort_order") != "asc"
    return Search(begin_ms, end_ms, tuple(conditions), offset, limit, newest_first)


def _dates(filters: Filters, now_ms: int) -> tuple[int, int]:
    """Return the first and last millisecond. Without `end_date` there is no end, because node clocks differ."""
    begin, end = filters.get("begin_date"), filters.get("end_date")
    if begin is not None and end is not None and end[0] < begin[0]:
        filters.fault("end_date", "must not be before begin_date")
    elif begin is not None and (end or (now_ms,))[0] - begin[0] > RANGE_MS_MAX:
        filters.fault("begin_date", "must be at most one month before end_date, which defaults to now")
    begin_ms = begin[0] if begin is not None else (end[0] if end is not None else now_ms) - DEFAULT_MS
    return begin_ms, end[1] if end is not None else NEVER_MS


def _paging(filters: Filters) -> tuple[int, int]:
    """Return the offset and limit, from either style of paging."""
    if "page" in filters or "page_size" in filters:
        for name in ("offset", "limit"):
            if name in filters:
                filters.fault(name, "must not be sent with page or page_size")
        return (filters.get("page") - 1) * filters.get("page_size"), filters.get("page_size")
    return filters.get("offset"), filters.get("limit")
