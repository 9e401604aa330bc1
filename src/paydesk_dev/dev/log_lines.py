"""The log as a developer reads it on a terminal: a line for each of the user's requests, each delivery and warning.

`scripts/run.py` makes the lines of the JSON in the log file, `paydesk dev` of the events themselves. The other events
are in the log of the format `json` only: polls of virtual terminals, the demo inbox's requests, health checks, assets,
pages of the console.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TextIO

from paydesk.core.text.characters import visible

METHOD_WIDTH, TARGET_WIDTH, STATUS_WIDTH, DURATION_WIDTH = 7, 54, 3, 8
REMEMBERED_MAX = 100
"""Orders in responses, and requests that may be repeated."""
POLL_SECONDS = 1.0
"""A GET that is repeated within this time, with the same status, is polling; only the first one has a line."""

WEBHOOK, FAULT = "webhook", "fault"
VIRTUAL = "PAYDESK_VIRTUAL__"
WITHOUT_DETAILS = frozenset(("timestamp", "level", "event", "exception", "message", "process"))
HEALTH = ("/livez", "/readyz", "/metrics")
ASSETS = ("/pages/assets/", "/favicon.ico")
INBOX = "/demo/inbox"
PAGES, STREAM = "/virtual/", "/events"
"""The start and the end of the paths of streams of terminals' pages."""
CONSOLE = "/console"

RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, DIM, BOLD = "31", "32", "33", "34", "35", "36", "2", "1"
_BY_CLASS = {2: GREEN, 3: CYAN, 4: YELLOW, 5: RED}

Fields = Mapping[str, Any]


def has_colors(stream: TextIO) -> bool:
    """Return whether colors are wanted: on a terminal that has them, unless `NO_COLOR` is set (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class LogLines:
    """Turns log events into lines for people, with or without colors."""

    def __init__(self, *, colors: bool) -> None:
        self._colors = colors
        self._orders: dict[str, str] = {}
        """The orders in the responses of requests whose lines have not come yet, by request id."""
        self._latest: dict[tuple[str, ...], float] = {}
        """The time of the last GET by its method, path and status."""

    def of_json(self, text: str) -> str | None:
        """Return the line for one of the log file, or None if it is left out. One that is not JSON is kept."""
        try:
            fields = json.loads(text)
        except ValueError:
            fields = None
        return self.of(fields) if isinstance(fields, dict) else visible(text)

    def of(self, fields: Fields) -> str | None:
        """Return the line of an event, or None if it is left out."""
        event = fields.get("event")
        if event == "request":
            order_id = self._orders.pop(str(fields.get("request_id")), "")
            if not _is_shown(fields) or self._is_polling(fields):
                return None
            details = (_words(fields, "error"), _words(fields, "reason")) if "error" in fields else (order_id,)
            return self._line(fields, _words(fields, "method"), _words(fields, "path"), fields.get("ms"), details)
        if event == "order_response":
            _remember(self._orders, str(fields.get("request_id")), str(fields.get("order_id")))
            return None
        if event in ("webhook_sent", "delivery_failed") and fields.get("action"):
            target = f"{_words(fields, 'action')} \u2192 {_words(fields, 'address')}"
            about = [_words(fields, "order")]
            if event == "delivery_failed":
                following = _time(fields.get("next_attempt"))
                about.append(_words(fields, "error"))
                about.append(f"attempt {_words(fields, 'attempt')}" + (f", next at {following}" if following else ""))
            return self._line(fields, WEBHOOK, target, fields.get("milliseconds"), about)
        if event == "fault_fired":
            target = f"{_words(fields, 'kind')} \u2192 {_words(fields, 'operation')}"
            return self._line(fields, FAULT, target, None, (_words(fields, "order"), _words(fields, "request_id")))
        return self._notice(fields) if fields.get("level") not in ("info", "debug") else None

    def _is_polling(self, fields: Fields) -> bool:
        request = (_words(fields, "method"), _words(fields, "path"), _words(fields, "status"))
        now = _instant(fields.get("timestamp"))
        if request[0] != "GET" or now is None:
            return False
        earlier, seconds = self._latest.pop(request, None), now.timestamp()
        _remember(self._latest, request, seconds)
        return earlier is not None and abs(seconds - earlier) < POLL_SECONDS

    def _line(self, fields: Fields, kind: str, target: str, duration: Any, details: Iterable[str]) -> str:
        status = fields.get("status")
        number = status if isinstance(status, int) else 0
        milliseconds = f"{duration:.0f} ms" if isinstance(duration, int | float) else ""
        columns = (
            self._painted(_time(fields.get("timestamp")), DIM),
            self._painted(kind.ljust(METHOD_WIDTH), MAGENTA if kind == WEBHOOK else BLUE),
            target.ljust(TARGET_WIDTH),
            self._painted(str(number or "-").rjust(STATUS_WIDTH), _BY_CLASS.get(number // 100, RED)),
            self._painted(milliseconds.rjust(DURATION_WIDTH), DIM),
        )
        failed = number >= 400 or not number
        rest = "  ".join(text for text in details if text)
        return f"{' '.join(columns)}  {rest if failed else self._painted(rest, DIM)}".rstrip()

    def _notice(self, fields: Fields) -> str:
        level = str(fields.get("level") or "notice")
        color = YELLOW if level == "warning" else RED
        details = [f"{visible(name)}={_words(fields, name)}" for name in fields if name not in WITHOUT_DETAILS]
        message = _words(fields, "message")
        line = " ".join(
            (
                self._painted(_time(fields.get("timestamp")), DIM),
                self._painted(level.ljust(METHOD_WIDTH), color),
                self._painted(_words(fields, "event"), BOLD),
                *([message] if message else []),
                self._painted(" ".join(details), DIM),
            )
        ).rstrip()
        trace = str(fields.get("exception") or "").splitlines()
        return "\n".join((line, *(f"    {visible(part)}" for part in trace)))

    def _painted(self, text: str, color: str) -> str:
        return f"\x1b[{color}m{text}\x1b[0m" if self._colors and text.strip() else text


def _is_shown(fields: Fields) -> bool:
    """Return whether a request is one of the user's, rather than of the service's own parts, or failed."""
    method, path, status = str(fields.get("method")), str(fields.get("path")), fields.get("status")
    if isinstance(status, int) and status >= 500:
        return True
    is_own = (
        str(fields.get("terminal_id")).startswith(VIRTUAL)
        or path in HEALTH
        or path.startswith(ASSETS)
        or (method, path) == ("POST", INBOX)
        or (method == "GET" and path.startswith(PAGES) and path.endswith(STREAM))
        or (method == "GET" and path.startswith(CONSOLE) and isinstance(status, int) and status < 400)
    )
    return not is_own


def _words(fields: Fields, name: str) -> str:
    """Return a field as one line of visible characters, without JSON's null."""
    value = fields.get(name)
    return "" if value is None else visible(str(value))


def _time(timestamp: Any) -> str:
    """Return the local time of day, or what was logged instead of a time."""
    instant = _instant(timestamp)
    if instant is None:
        return "" if timestamp is None else visible(str(timestamp))
    return instant.astimezone().strftime("%H:%M:%S")


def _instant(timestamp: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(timestamp))
    except ValueError:
        return None


def _remember(memory: dict[Any, Any], key: Any, value: Any) -> None:
    if len(memory) >= REMEMBERED_MAX:
        memory.pop(next(iter(memory)))
    memory[key] = value
