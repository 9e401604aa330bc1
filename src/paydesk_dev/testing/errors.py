"""Failures of a test: something did not happen, and the message says what was there instead."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


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


def line_of_test() -> str:
    """Return the file and line outside of this package that is running, such as `test_till.py:12`."""
    frame = sys._getframe(1)  # noqa: SLF001 - `inspect.stack` reads the source of each frame
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(f"{__package__}."):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


class Refused(PaydeskError):
    """The service refused a request of the test itself."""

    def __init__(self, request: str, status: int, code: str, message: str, details: Sequence[str] = ()) -> None:
        super().__init__(f"{request} is refused with {status} {code}: {message} {'; '.join(details)}".rstrip())
        self.status, self.code, self.message, self.details = status, code, message, tuple(details)
