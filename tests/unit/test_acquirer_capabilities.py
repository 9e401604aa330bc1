"""What an acquirer declares: what the engine refuses, and the instants that follow from a declaration."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from paydesk.engine.payments.capabilities import Capabilities, DayClose, not_found_seconds
from paydesk.platform.settings import Settings
from tables import each

MIDNIGHT_IN_SAO_PAULO = DayClose(time(0, 0), ZoneInfo("America/Sao_Paulo"))
BERLIN = ZoneInfo("Europe/Berlin")


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _all_but(*operations: str) -> dict[str, Any]:
    return {"idempotent": frozenset({"authorize", "confirm", "reverse", "refund"}) - set(operations)}


@each(
    "declared, fault",
    [
        ({}, None),
        ({"answer_seconds": 0}, "`answer_seconds` must be"),
        ({"answer_seconds": 1}, None),
        ({"answer_seconds": 20}, None),
        ({"answer_seconds": 21}, "`answer_seconds` must be"),
        (_all_but("reverse"), "`reverse` must be idempotent"),
        (_all_but("authorize", "confirm", "refund"), None),
        (_all_but("confirm") | {"needs_confirmation": True}, "`confirm` must be idempotent"),
        ({"needs_confirmation": True}, None),
        ({"confirm_before": 119}, "`confirm_before` must be at least 120 s"),
        ({"confirm_before": 120}, None),
        ({"confirm_before": MIDNIGHT_IN_SAO_PAULO}, None),
        ({"can_inquire": False}, None),
        ({"can_inquire": False, "after_reverse_until": "refund"}, "`after_reverse_until` must be `person`"),
        ({"after_reverse_until": "refund"}, None),
        ({"can_inquire": False, "reverse_until": 899}, "`reverse_until` must be at least 900 s"),
        ({"can_inquire": False, "reverse_until": 900}, None),
        ({"reverse_until": 60}, None),
    ],
)
def test_a_declaration_that_the_engine_cannot_work_with_has_a_fault(declared: Any, fault: str | None) -> None:
    """Each rule at its limit, and what is just allowed."""
    answer = Capabilities(**declared).fault(unknown_after_seconds=40)
    assert fault in answer if fault is not None and answer is not None else answer is fault


@each("seconds, is_refused", [(39, True), (40, False)])
def test_a_provisional_approval_must_leave_its_terminal_time(seconds: int, *, is_refused: bool) -> None:
    """`unknown_after_seconds` limits it, but only where approvals need a confirmation."""
    fault = Capabilities(needs_confirmation=True).fault(unknown_after_seconds=seconds)
    assert (fault is not None and "`unknown_after_seconds` must be at least 40" in fault) == is_refused
    assert Capabilities().fault(unknown_after_seconds=seconds) is None


@each(
    "closes, zone, after, closing",
    [
        ("00:00", "America/Sao_Paulo", "2026-02-01T12:00:00-03:00", "2026-02-02T00:00:00-03:00"),
        ("23:30", "America/Sao_Paulo", "2026-02-01T12:00:00-03:00", "2026-02-01T23:30:00-03:00"),
        # At the closing itself the next day's follows.
        ("00:00", "America/Sao_Paulo", "2026-02-02T00:00:00-03:00", "2026-02-03T00:00:00-03:00"),
        # The day there is not the day in UTC.
        ("00:00", "America/Sao_Paulo", "2026-02-02T02:30:00+00:00", "2026-02-02T00:00:00-03:00"),
        ("06:00", "Pacific/Auckland", "2026-06-30T23:00:00+00:00", "2026-07-02T06:00:00+12:00"),
        ("00:00", "America/Sao_Paulo", "2026-12-31T12:00:00-03:00", "2027-01-01T00:00:00-03:00"),
        ("12:00", "Europe/Berlin", "2027-12-31T12:00:00+01:00", "2028-01-01T12:00:00+01:00"),
        # Summer time began at midnight, so that day began at 1:00.
        ("00:00", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", "2018-11-04T01:00:00-02:00"),
        # 2:30 does not exist on the day that summer time begins in Berlin.
        ("02:30", "Europe/Berlin", "2026-03-29T00:30:00+01:00", "2026-03-29T03:30:00+02:00"),
        ("02:30", "Europe/Berlin", "2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"),
        ("06:00", "Europe/Berlin", "2026-03-28T07:00:00+01:00", "2026-03-29T06:00:00+02:00"),
        # 2:30 comes twice on the day that it ends: the first counts, also when it has passed.
        ("02:30", "Europe/Berlin", "2026-10-25T00:30:00+02:00", "2026-10-25T02:30:00+02:00"),
        ("02:30", "Europe/Berlin", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"),
        ("02:30", "Europe/Berlin", "2026-10-25T02:15:00+01:00", "2026-10-26T02:30:00+01:00"),
    ],
)
def test_the_next_closing_follows_the_acquirers_clock(closes: str, zone: str, after: str, closing: str) -> None:
    """Of its zone, with its summer time."""
    next_ms = DayClose(time.fromisoformat(closes), ZoneInfo(zone)).next_ms(_ms(after))
    assert datetime.fromtimestamp(next_ms / 1000, UTC) == datetime.fromisoformat(closing)


def test_a_closing_is_at_most_25_hours_away() -> None:
    """At every half hour of a year, and always in the future."""
    closing, start_ms = DayClose(time(2, 30), BERLIN), _ms("2026-01-01T00:00:00+00:00")
    for half_hours in range(365 * 48):
        after_ms = start_ms + half_hours * 1_800_000
        assert 0 < closing.next_ms(after_ms) - after_ms <= 25 * 3_600_000


def test_deadlines_count_from_the_approval() -> None:
    """In seconds, to the closing hour, or never."""
    approved_ms = _ms("2026-02-01T23:59:00-03:00")
    midnight_ms = _ms("2026-02-02T00:00:00-03:00")
    for declared, deadline_ms in ((None, None), (600, approved_ms + 600_000), (MIDNIGHT_IN_SAO_PAULO, midnight_ms)):
        assert Capabilities(confirm_before=declared).confirm_until_ms(approved_ms) == deadline_ms
        assert Capabilities(reverse_until=declared).reverse_until_ms(approved_ms) == deadline_ms


@each(
    "declared, setting, seconds",
    [
        ({}, 120, 120),
        ({}, 300, 300),
        ({"not_found_final_seconds": 90}, 120, 90),
        ({"not_found_final_seconds": 240}, 120, 240),
        # Never while a call may be under way.
        ({"not_found_final_seconds": 1}, 120, 50),
        ({"not_found_final_seconds": 1, "answer_seconds": 20}, 120, 60),
        ({}, 70, 70),
        # Without inquiries there is nothing to wait for but the call.
        ({"can_inquire": False}, 120, 50),
        ({"can_inquire": False, "not_found_final_seconds": 240}, 120, 50),
    ],
)
def test_not_found_counts_after_the_declared_time(declared: Any, setting: int, seconds: int) -> None:
    """The setting is the default of acquirers that say nothing."""
    settings = Settings(inquiry_not_found_seconds=setting, grant_seconds=40)
    assert not_found_seconds(Capabilities(**declared), settings) == seconds


@each("accepted, currency, is_supported", [((), "BRL", True), (("BRL",), "BRL", True), (("BRL", "CLP"), "ARS", False)])
def test_an_acquirer_without_currencies_takes_any(accepted: Any, currency: str, *, is_supported: bool) -> None:
    """One that names some takes no other."""
    assert Capabilities(currencies=frozenset(accepted)).supports(currency) == is_supported
