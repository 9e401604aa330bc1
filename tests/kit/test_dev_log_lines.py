"""The lines that `make run` and `paydesk dev` make of the log: what is shown, how, and what is left out."""

from __future__ import annotations

import io
import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kept_logging import kept_logging
from paydesk.core.errors import PROPERTY_VALUE
from paydesk.platform import logs
from paydesk.platform.http import request_log
from paydesk_dev.dev.log_lines import LogLines, has_colors
from tables import each

ORDER = "ORD01J67CQQH5904WDBVZEM4JMEP3"
BEGIN = datetime(2026, 1, 31, 14, 26, 42, 109_000, tzinfo=UTC)
ESCAPE = "\x1b"


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def request(method: str = "GET", path: str = "/v1/orders", status: int = 200, **more: Any) -> dict[str, Any]:
    """Return the event of a request."""
    seconds = more.pop("seconds", 0.0)
    fields = {"level": "info", "event": "request", "method": method, "path": path, "status": status, "ms": 11.6}
    return {"timestamp": _at(seconds), **fields, "request_id": "r", "address": "127.0.0.1", "seller_id": 7, **more}


def webhook(event: str = "webhook_sent", **more: Any) -> dict[str, Any]:
    """Return the event of a delivery in development."""
    level = "info" if event == "webhook_sent" else "warning"
    sent = {"delivery": "d", "attempt": 1, "status": 200, "milliseconds": 12, "action": "order.processed"}
    where = {"address": "http://127.0.0.1:8377/demo/inbox", "order": ORDER}
    return {"timestamp": _at(0), "level": level, "event": event, **sent, **where, **more}


def _at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def local(instant: datetime) -> str:
    """Return the time of day that a line begins with."""
    return instant.astimezone().strftime("%H:%M:%S")


def line(fields: dict[str, Any]) -> str | None:
    """Return its line, without colors."""
    return LogLines(colors=False).of(fields)


def test_a_request_is_a_line_in_columns() -> None:
    """Local time, method, path, status, duration."""
    shown = line(request())
    assert shown == f"{local(BEGIN)} GET     {'/v1/orders'.ljust(54)} 200    12 ms"


def test_a_refusal_has_its_code_and_reason() -> None:
    """The reason of the log, which says more than the answer."""
    shown = line(request("POST", status=400, error="property_value", reason="'$.type' - must be 'point'"))
    assert shown is not None
    assert shown.endswith(" 400    12 ms  property_value  '$.type' - must be 'point'")


def test_a_created_order_is_named() -> None:
    """The line of the request has the id in its response, and later requests do not."""
    lines = LogLines(colors=False)
    named = {"level": "info", "event": "order_response", "order_id": ORDER, "request_id": "r"}
    assert lines.of({**named, "request_id": "other"}) is None
    assert lines.of(named) is None
    first, second = lines.of(request("POST", status=201)), lines.of(request("POST", status=201))
    assert (first or "").endswith(f"12 ms  {ORDER}")
    assert (second or "").endswith("12 ms")


def test_a_fault_that_fired_is_a_line() -> None:
    """With its kind, the operation and the order."""
    fired = {"kind": "answer_lost", "operation": "create_order", "order": ORDER, "request_id": "r"}
    shown = line({"timestamp": _at(0), "level": "info", "event": "fault_fired", "fault": "FLT1", **fired})
    assert shown is not None
    assert shown.split()[1:] == ["fault", "answer_lost", "→", "create_order", "-", ORDER, "r"]


def test_memory_is_bounded() -> None:
    """Orders whose requests have no line, and paths, are forgotten."""
    lines = LogLines(colors=False)
    for number in range(1000):
        lines.of({"level": "info", "event": "order_response", "order_id": ORDER, "request_id": str(number)})
        lines.of(request(path=f"/{number}"))
    assert len(lines._orders) == len(lines._latest) == 100


def test_a_delivery_is_a_line() -> None:
    """With the action, the address, the status and the order."""
    target = "order.processed \u2192 http://127.0.0.1:8377/demo/inbox"
    assert line(webhook()) == f"{local(BEGIN)} webhook {target.ljust(54)} 200    12 ms  {ORDER}"


def test_a_failed_delivery_says_when_it_is_tried_again() -> None:
    """And why it failed, if there was no status."""
    following = BEGIN + timedelta(seconds=15)
    failed = webhook("delivery_failed", status=None, error="connection refused", attempt=2, next_attempt=_at(15))
    shown = line(failed) or ""
    assert f"   -    12 ms  {ORDER}  connection refused  attempt 2, next at {local(following)}" in shown
    last = line(webhook("delivery_failed", status=500, attempt=11, next_attempt=None)) or ""
    assert last.endswith(f"500    12 ms  {ORDER}  attempt 11")


@each(
    "fields",
    [
        request(path="/device/v1/next", status=204, terminal_id="PAYDESK_VIRTUAL__75D5FBBF2321"),
        request("POST", "/device/v1/hello", 409, terminal_id="PAYDESK_VIRTUAL__75D5FBBF2321", error="x", reason="y"),
        request("POST", "/virtual/v1/acquirer/payments", terminal_id="PAYDESK_VIRTUAL__75D5FBBF2321"),
        request("POST", "/demo/inbox"),
        request(path="/livez"),
        request(path="/readyz"),
        request(path="/metrics"),
        request(path="/pages/assets/paydesk.css"),
        request(path="/favicon.ico", status=404, error="not_found", reason="unknown path"),
        request(path="/virtual/PAYDESK_VIRTUAL__75D5FBBF2321/events"),
        request(path="/console/orders"),
        request(path="/console/events"),
        request(path="/console", status=303),
        {"timestamp": _at(0), "level": "info", "event": "rows_pruned", "rows": 7},
        {"timestamp": _at(0), "level": "info", "event": "webhook_sent", "delivery": "d", "status": 200},
    ],
    ids=lambda fields: f"{fields['event']} {fields.get('path', '')}",
)
def test_what_the_service_does_by_itself_is_left_out(fields: dict[str, Any]) -> None:
    """It is in the log file."""
    assert line(fields) is None


@each(
    "fields",
    [
        request(path="/device/v1/next", status=204, terminal_id="NEWLAND_N950__N950NCB801293324"),
        request(path="/device/v1/next", status=401, error="unauthorized", reason="no token"),
        request(path="/device/v1/next", status=500, terminal_id="PAYDESK_VIRTUAL__1", error="internal_error"),
        request(path="/readyz", status=503, error="not_ready", reason="database"),
        request(path="/demo/inbox"),
        request("DELETE", "/demo/inbox", 204),
        request("POST", "/oauth/token"),
        request(path="/v1/events"),
        request("POST", f"/v1/orders/{ORDER}/events", 204),
        request(path="/virtual/PAYDESK_VIRTUAL__1"),
        request("POST", "/virtual/v1/PAYDESK_VIRTUAL__1/card"),
        request(path="/operator/v1/orders"),
        request(path="/authorization"),
        request(path="/console/orders/ORD1", status=404, error="console_refused", reason="404 order_not_found"),
        request("POST", "/console/development/clock", 303),
    ],
    ids=lambda fields: f"{fields['method']} {fields['path']} {fields['status']}",
)
def test_what_the_user_does_is_shown(fields: dict[str, Any]) -> None:
    """On every surface, with terminals of one's own too; and every failure of the service."""
    assert fields["path"] in (line(fields) or "")


def test_polling_has_one_line_until_its_status_changes() -> None:
    """Repeated within a second; a slower or another request has its own line."""
    lines = LogLines(colors=False)
    path = f"/v1/orders/{ORDER}"
    shown = [
        lines.of(fields) is not None
        for fields in (
            request(path=path),
            request(path=path, seconds=0.5),
            request(path=path, seconds=1.4),
            request(path="/v1/orders", seconds=1.5),
            request(path=path, seconds=1.6, status=404),
            request(path=path, seconds=2.3),
            request(path=path, seconds=3.4),
            request("POST", path, seconds=3.5),
            request("POST", path, seconds=3.6),
        )
    ]
    assert shown == [True, False, False, True, True, False, True, True, True]


def test_warnings_and_errors_are_lines() -> None:
    """With their fields, those of operators' events with their message, and a traceback below."""
    time = {"timestamp": _at(0)}
    alert = {
        **time,
        "level": "warning",
        "event": "late_approval",
        "subject": ORDER,
        "message": "The order was canceled.",
    }
    assert line(alert) == f"{local(BEGIN)} warning late_approval The order was canceled. subject={ORDER}"
    trace = "Traceback (most recent call last):\n  File\nValueError: x"
    shown = line({**time, "level": "error", "event": "job_failed", "order": ORDER, "exception": trace})
    assert (shown or "").splitlines() == [
        f"{local(BEGIN)} error   job_failed order={ORDER}",
        "    Traceback (most recent call last):",
        "      File",
        "    ValueError: x",
    ]


def test_no_character_of_a_client_controls_the_terminal() -> None:
    """Neither an escape sequence nor a line break nor a direction, in any field."""
    bad = "a\x1b[31m\r\nb\x9b\u202ec\x07"
    for fields in (
        request(bad, f"/{bad}", 404, error=bad, reason=bad),
        webhook(action=bad, address=bad, order=bad),
        webhook("delivery_failed", error=bad, attempt=bad, next_attempt=bad, status=None),
        {"timestamp": bad, "level": "warning", "event": bad, bad: bad, "message": bad, "exception": bad},
    ):
        shown = LogLines(colors=False).of(fields) or ""
        assert not set(shown) & set("\x1b\r\x9b\u202e\x07"), shown
        assert shown.count("\n") == (fields["event"] == bad) * 2
    assert LogLines(colors=False).of_json(f"not JSON {bad}") == "not JSON a [31m  b  c "


@pytest.mark.parametrize("status", [None, "200", 7, 999, True, {}])
def test_strange_values_do_no_harm(status: Any) -> None:
    """A line of another version of the service."""
    for fields in (request(status=status, ms="x"), webhook(status=status, milliseconds=None), {"event": status}, {}):
        assert isinstance(LogLines(colors=True).of(fields), str)
    for text in ("[]", "7", "null", "{", ""):
        assert LogLines(colors=False).of_json(text) == text


@pytest.mark.parametrize(("status", "color"), [(201, "32"), (303, "36"), (404, "33"), (500, "31")])
def test_a_status_has_the_color_of_its_class(status: int, color: str) -> None:
    """And without colors no line has an escape sequence."""
    shown = LogLines(colors=True).of(request(status=status)) or ""
    assert f"{ESCAPE}[{color}m{status}{ESCAPE}[0m" in shown
    assert ESCAPE not in (line(request(status=status)) or "")


def test_colors_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for a file, with `NO_COLOR`, or on a dumb terminal."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert has_colors(Terminal())
    assert not has_colors(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colors(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colors(Terminal())


def _logged(stream: io.StringIO, log_format: logs.LogFormat) -> list[str]:
    started = time.perf_counter()
    with kept_logging():
        logs.configure(log_format, stream, text_line=LogLines(colors=False).of)
        for path, refusal in (
            ("/v1/orders/APP_USR-1-010203-0123456789abcdef0123456789abcdef-7", None),
            ("/livez", None),
        ):
            request_log.write("GET", path, 200, "r", started, refusal, "127.0.0.1")
        refused = PROPERTY_VALUE.with_reason("card 4509 9535 6623 3704")
        request_log.write("POST", "/v1/orders", 400, "r", started, refused, "127.0.0.1")
        return stream.getvalue().splitlines()


def test_the_lines_replace_text_on_a_terminal_only() -> None:
    """JSON, and text in a file, have every request; secrets are masked in all of them."""
    for stream, log_format, count in (
        (Terminal(), "auto", 2),
        (Terminal(), "text", 2),
        (Terminal(), "json", 3),
        (io.StringIO(), "auto", 3),
        (io.StringIO(), "text", 3),
    ):
        written = _logged(stream, log_format)  # type: ignore[arg-type]  # each is a format
        assert len(written) == count, (log_format, written)
        assert not any("0123456789abcdef" in text or "6623" in text for text in written)
        is_json = log_format == "json" or (log_format == "auto" and not stream.isatty())
        assert all(text.startswith("{") is is_json for text in written)


def _without_times(text: str) -> str:
    return re.sub(r" +[0-9]+ ms", "", text[9:])


def test_lines_of_the_file_are_those_of_the_events() -> None:
    """`make run` and `paydesk dev` show the same."""
    stream = io.StringIO()
    from_file = [LogLines(colors=False).of_json(text) for text in _logged(stream, "json")]
    from_events = _logged(Terminal(), "text")
    assert [_without_times(text) for text in from_file if text is not None] == [*map(_without_times, from_events)]
    assert json.loads(stream.getvalue().splitlines()[0])["event"] == "request"
