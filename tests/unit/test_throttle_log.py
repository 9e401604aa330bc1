"""Throttled requests in the log: the first at once, then a count at intervals."""

from __future__ import annotations

import structlog

from moved_time import advance
from paydesk.core.limits.throttle_log import INTERVAL_SECONDS, ThrottleLog
from waiting import until


async def test_a_flood_is_two_lines() -> None:
    """The first is logged at once with its address, the rest as a count; after the end nothing is logged."""
    log = ThrottleLog()
    with structlog.testing.capture_logs() as logged:
        for number in range(1000):
            log.note("sign_in_failures", address=f"203.0.113.{number % 250}")
        assert len(logged) == 1
        advance(INTERVAL_SECONDS)
        await until(lambda: len(logged) == 2)
        advance(INTERVAL_SECONDS)
        await until(lambda: not log.counted)
        log.note("bearer_failures", address="192.0.2.1")
    assert [(line["what"], line["count"], line.get("address")) for line in logged] == [
        ("sign_in_failures", 1, "203.0.113.0"),
        ("sign_in_failures", 999, None),
        ("bearer_failures", 1, "192.0.2.1"),
    ]


async def test_a_flood_without_end_is_logged_once_in_each_interval() -> None:
    """No event goes uncounted."""
    log, flood = ThrottleLog(), 100
    with structlog.testing.capture_logs() as logged:
        for lines in range(1, 5):
            for _ in range(flood):
                log.note("bearer_failures", address="203.0.113.1")
            assert len(logged) == lines
            advance(INTERVAL_SECONDS)
            await until(lambda expected=lines + 1: len(logged) == expected)  # type: ignore[misc]
    assert [line["count"] for line in logged] == [1, flood - 1, flood, flood, flood]
    assert {line["log_level"] for line in logged} == {"warning"}
