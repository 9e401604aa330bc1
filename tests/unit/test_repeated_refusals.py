"""Refusals of one caller: the first has a line, the others are counted, and memory and lines stay bounded."""

from __future__ import annotations

from typing import Any

import structlog

from moved_time import advance
from paydesk.core.errors import FORBIDDEN, NOT_FOUND, SERVICE_UNAVAILABLE, TOO_MANY_REQUESTS, UNAUTHORIZED, ErrorKind
from paydesk.engine.orders.errors import ORDER_NOT_FOUND
from paydesk.platform.http.refusals.repeated import (
    CALLERS_MAX,
    INTERVAL_SECONDS,
    UNKNOWN_CALLERS_MAX,
    RepeatedRefusals,
)
from tables import each
from waiting import until

APPLICATION: dict[str, Any] = {"application_id": 11, "seller_id": 22}
TERMINAL: dict[str, Any] = {"seller_id": 22, "terminal_id": "PAX_A910__1"}


def counts(refusals: RepeatedRefusals, kind: ErrorKind, address: str = "203.0.113.9", **ids: Any) -> bool:
    """Whether the refusal is counted instead of logged."""
    return refusals.counts(kind.with_reason("a test"), address, ids)


async def test_refusals_of_a_caller_are_one_line_and_then_their_number_once_a_minute() -> None:
    """Until a minute passes without one; then the next one has a line again."""
    refusals = RepeatedRefusals()
    with structlog.testing.capture_logs() as logged:
        assert [counts(refusals, UNAUTHORIZED, **TERMINAL) for _ in range(5)] == [False, True, True, True, True]
        assert logged == []
        advance(INTERVAL_SECONDS)
        await until(lambda: len(logged) == 1)
        assert counts(refusals, UNAUTHORIZED, **TERMINAL)
        advance(INTERVAL_SECONDS)
        await until(lambda: len(logged) == 2)
        advance(INTERVAL_SECONDS)
        await until(lambda: not refusals.events.counted)
        assert not counts(refusals, UNAUTHORIZED, **TERMINAL)
    line = {
        "event": "requests_refused",
        "log_level": "info",
        "error": "unauthorized",
        "within_seconds": 60.0,
        **TERMINAL,
    }
    assert logged == [{**line, "count": 4}, {**line, "count": 1}]


async def test_callers_and_errors_are_counted_apart() -> None:
    """An IPv6 subscriber is one caller, whatever its addresses; a client_id is named with its address."""
    refusals = RepeatedRefusals()
    callers: tuple[tuple[ErrorKind, str, dict[str, Any]], ...] = (
        (UNAUTHORIZED, "203.0.113.9", {}),
        (UNAUTHORIZED, "203.0.113.10", {}),
        (FORBIDDEN, "203.0.113.9", {}),
        (UNAUTHORIZED, "203.0.113.9", APPLICATION),
        (UNAUTHORIZED, "203.0.113.9", TERMINAL),
        (UNAUTHORIZED, "203.0.113.9", {"client_id": 11}),
        (UNAUTHORIZED, "2001:db8::1", {}),
    )
    for kind, address, ids in callers:
        assert not counts(refusals, kind, address, **ids)
        assert counts(refusals, kind, address, **ids)
    assert counts(refusals, UNAUTHORIZED, "2001:db8::2")
    assert counts(refusals, UNAUTHORIZED, "192.0.2.1", **TERMINAL), "a known caller is one from every address"


@each(
    "kind, ids, is_counted",
    [
        (UNAUTHORIZED, APPLICATION, True),
        (FORBIDDEN, APPLICATION, True),
        (TOO_MANY_REQUESTS, TERMINAL, True),
        (NOT_FOUND, {}, True),
        (ORDER_NOT_FOUND, APPLICATION, False),
        (SERVICE_UNAVAILABLE, {}, False),
        (SERVICE_UNAVAILABLE, APPLICATION, False),
    ],
)
async def test_refusals_of_work_and_errors_have_a_line_each(
    kind: ErrorKind, ids: dict[str, Any], *, is_counted: bool
) -> None:
    """Of callers who are known; errors of the service always."""
    refusals = RepeatedRefusals()
    assert not counts(refusals, kind, **ids)
    assert counts(refusals, kind, **ids) is is_counted


async def test_lines_and_memory_stay_bounded_with_ten_thousand_callers() -> None:
    """Unknown callers beyond the limit share a line; known ones are counted apart even then, up to theirs."""
    refusals, rounds, callers = RepeatedRefusals(), 3, 10_000
    with structlog.testing.capture_logs() as logged:
        lines = sum(
            not counts(refusals, UNAUTHORIZED, f"10.{number >> 8}.{number & 255}.1")
            for _ in range(rounds)
            for number in range(callers)
        )
        assert lines == len(refusals.events.counted) == UNKNOWN_CALLERS_MAX + 1
        lines += sum(not counts(refusals, FORBIDDEN, application_id=number) for number in range(callers))
        assert lines == len(refusals.events.counted) == CALLERS_MAX + 1
        advance(INTERVAL_SECONDS)
        await until(lambda: len(refusals.events.counted) <= UNKNOWN_CALLERS_MAX + 2)
        assert len(logged) <= UNKNOWN_CALLERS_MAX + 2
        assert lines + sum(line["count"] for line in logged) == (rounds + 1) * callers, "each is logged or counted"
        assert {line["error"] for line in logged if line.get("callers") == "others"} == {"unauthorized", "forbidden"}
        advance(INTERVAL_SECONDS)
        await until(lambda: not refusals.events.counted)
