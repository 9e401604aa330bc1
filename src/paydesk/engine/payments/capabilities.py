"""The capabilities of an acquirer, as its adapter declares them, and the declarations that the engine refuses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Literal, Protocol
from zoneinfo import ZoneInfo

Operation = Literal["authorize", "confirm", "reverse", "refund"]
ANSWER_SECONDS_MAX = 20
CONFIRM_BEFORE_SECONDS_MIN = 120
REVERSE_UNTIL_SECONDS_MIN = 900
UNKNOWN_AFTER_SECONDS_MIN = 40
"""With a third message: an approval of the last moment leaves its terminal 15 s."""


@dataclass(frozen=True, slots=True)
class DayClose:
    """The acquirer's closing hour, such as 00:00 in America/Sao_Paulo."""

    time: time
    zone: ZoneInfo

    def next_ms(self, after_ms: int) -> int:
        """Return the first closing after an instant."""
        local = datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(self.zone)
        # On the day that a zone's clock jumps the closing hour may come twice or never; the first instant counts.
        for days in range(3):
            closing = datetime.combine(local.date() + timedelta(days), self.time, self.zone)
            closing_ms = round(closing.timestamp() * 1000)
            if closing_ms > after_ms:
                return closing_ms
        raise AssertionError("each day has a closing hour")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of one acquirer."""

    can_inquire: bool = True
    not_found_final_seconds: int | None = None
    """A payment that an inquiry does not find this long after the permit is not made later. None: the setting
    `inquiry_not_found_seconds`."""
    needs_confirmation: bool = False
    """An approval may be provisional, until a third message confirms it."""
    confirm_before: int | DayClose | None = None
    """Seconds after the approval, or the closing hour, before which it is confirmed. None: no deadline."""
    at_deadline: Literal["confirms", "undoes", "blocks"] = "blocks"
    """The acquirer's own act at the deadline; `blocks`: the amount stays held on the card."""
    idempotent: frozenset[Operation] = frozenset({"authorize", "confirm", "reverse", "refund"})
    """The operations that take effect once per key, however often they are requested."""
    reversal_blocks: bool = False
    """Reversing a payment that the acquirer does not have makes a later authorization of it fail."""
    reverse_until: int | DayClose | None = None
    """Seconds after the payment, or the closing hour, until which it can be reversed. None: for ever."""
    after_reverse_until: Literal["refund", "person"] = "person"
    """The next step when a reversal came too late."""
    partial_refunds: bool = True
    currencies: frozenset[str] = frozenset()
    """Empty: any."""
    answer_seconds: int = 10
    """The limit of one call."""
    chip_data: bool = False
    """The acquirer wants the card's data at the end of the payment, with a confirmation or a reversal."""

    def supports(self, currency: str) -> bool:
        """Return whether payments in the currency are accepted."""
        return not self.currencies or currency in self.currencies

    def confirm_until_ms(self, approved_ms: int) -> int | None:
        """Return the deadline of the confirmation of an approval."""
        return _until_ms(self.confirm_before, approved_ms)

    def reverse_until_ms(self, approved_ms: int) -> int | None:
        """Return the end of the time in which an approval can be reversed."""
        return _until_ms(self.reverse_until, approved_ms)

    def fault(self, *, unknown_after_seconds: int) -> str | None:
        """Return why the engine cannot work with an acquirer like this, or None."""
        before, until = self.confirm_before, self.reverse_until
        blind = not self.can_inquire
        rules = (
            (
                1 <= self.answer_seconds <= ANSWER_SECONDS_MAX,
                f"`answer_seconds` must be from 1 to {ANSWER_SECONDS_MAX}",
            ),
            ("reverse" in self.idempotent, "`reverse` must be idempotent: an unanswered reversal is repeated"),
            (
                not self.needs_confirmation or "confirm" in self.idempotent,
                "`confirm` must be idempotent: an unanswered confirmation is repeated",
            ),
            (
                not self.needs_confirmation or unknown_after_seconds >= UNKNOWN_AFTER_SECONDS_MIN,
                "an approval that needs a confirmation must leave its terminal time: the setting"
                f" `unknown_after_seconds` must be at least {UNKNOWN_AFTER_SECONDS_MIN}",
            ),
            (
                not isinstance(before, int) or before >= CONFIRM_BEFORE_SECONDS_MIN,
                f"`confirm_before` must be at least {CONFIRM_BEFORE_SECONDS_MIN} s",
            ),
            (
                not (blind and self.after_reverse_until == "refund"),
                "without inquiries `after_reverse_until` must be `person`: the payment may never have been made",
            ),
            (
                not (blind and isinstance(until, int) and until < REVERSE_UNTIL_SECONDS_MIN),
                f"without inquiries `reverse_until` must be at least {REVERSE_UNTIL_SECONDS_MIN} s",
            ),
        )
        return next((fault for holds, fault in rules if not holds), None)


NO_CAPABILITIES = Capabilities()
"""The assumption for a payment without an acquirer, or with an unknown acquirer."""


def _until_ms(period: int | DayClose | None, from_ms: int) -> int | None:
    if period is None:
        return None
    return period.next_ms(from_ms) if isinstance(period, DayClose) else from_ms + period * 1000


class Waits(Protocol):
    """The settings that an acquirer's declaration is completed by."""

    @property
    def grant_seconds(self) -> int:
        """Return how long a permit to authorize is valid."""

    @property
    def inquiry_not_found_seconds(self) -> int:
        """Return the default of adapters that do not declare how long a payment may still be made."""


def not_found_seconds(capabilities: Capabilities, waits: Waits) -> int:
    """Return how long after the permit a payment that the acquirer does not find may still be made."""
    under_way_seconds = waits.grant_seconds + capabilities.answer_seconds
    if not capabilities.can_inquire:
        return under_way_seconds
    declared_seconds = capabilities.not_found_final_seconds
    return max(waits.inquiry_not_found_seconds if declared_seconds is None else declared_seconds, under_way_seconds)
