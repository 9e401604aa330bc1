"""Throttled requests in the log: the first at once, then a count at intervals."""

from __future__ import annotations

import asyncio

import pytest
import structlog

from paydesk.core import throttle_log
from paydesk.core.throttle_log import ThrottleLog


async def test_a_flood_is_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is logged at once with its address, the rest as a count; after the end nothing is logged."""
    monkeypatch.setattr(throttle_log, "INTERVAL_SECONDS", 0.05)
    log = ThrottleLog()
    with structlog.testing.capture_logs() as logged:
        for number in range(1000):
            log.note("sign_in_failures", address=f"203.0.113.{number % 250}")
        assert len(logged) == 1
        await asyncio.sleep(0.2)
        log.note("bearer_failures", address="192.0.2.1")
    assert [(line["what"], line["count"], line.get("address")) for line in logged] == [
        ("sign_in_failures", 1, "203.0.113.0"),
        ("sign_in_failures", 999, None),
        ("bearer_failures", 1, "192.0.2.1"),
    ]


async def test_whoever_goes_on_is_told_of_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood without end is one line in each pause, and no refusal goes uncounted."""
    monkeypatch.setattr(throttle_log, "INTERVAL_SECONDS", 0.02)
    log, noted = ThrottleLog(), 0
    with structlog.testing.capture_logs() as logged:
        while len(logged) < 4:
            log.note("bearer_failures", address="203.0.113.1")
            noted += 1
            await asyncio.sleep(0.001)
        counted = sum(line["count"] for line in logged)
        while counted < noted:
            await asyncio.sleep(0.01)
            counted = sum(line["count"] for line in logged)
    assert counted == noted
    assert {line["log_level"] for line in logged} == {"warning"}
