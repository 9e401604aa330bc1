"""The exceptions of a case that does not hold, or could not be judged."""

from __future__ import annotations


class Failed(Exception):
    """The terminal did what the protocol forbids, or not what it demands; the message says what."""


class NotShown(Exception):
    """The situation did not come about, so nothing was judged; the message says what was missing."""


class NotApplicable(Exception):
    """The case does not concern this terminal; the message says why."""
