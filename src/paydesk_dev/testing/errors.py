"""Failures of a test: something did not happen, and the message says what was there instead."""

from __future__ import annotations

from collections.abc import Sequence


class PaydeskError(AssertionError):
    """A failure: what the test expects is not so."""


class NotShown(PaydeskError):
    """The terminal does not show the screen, or its screen does not take the step."""


class NotReached(PaydeskError):
    """The order does not reach the status."""


class NotReceived(PaydeskError):
    """The notification was not delivered."""


class NotFired(PaydeskError):
    """The fault did not fire as often as expected."""


class Refused(PaydeskError):
    """The service refused a request of the test itself."""

    def __init__(self, request: str, status: int, code: str, message: str, details: Sequence[str] = ()) -> None:
        super().__init__(f"{request} is refused with {status} {code}: {message} {'; '.join(details)}".rstrip())
        self.status, self.code, self.details = status, code, tuple(details)
