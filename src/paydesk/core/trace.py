"""The trace of a request (W3C Trace Context); `CURRENT` carries it to all that the request causes."""

from __future__ import annotations

import random
import re
from contextvars import ContextVar

import msgspec

from paydesk.core.text import card_numbers

Attributes = dict[str, str | int]
"""What a span says of what was done."""
SAMPLED, RANDOM = 1, 2
"""The known flags: the spans are recorded; the trace's id was drawn at random."""
_PARENT = re.compile(
    "(?:(00)|(?!00|ff)[0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?(1)|(?:-.*)?)"
)
_STATE = re.compile("[ -~]{1,512}")


class Trace(msgspec.Struct, frozen=True):
    """A span in a trace. `parent_id` is the span that caused it, or "" for the first one."""

    trace_id: str
    span_id: str
    flags: int
    state: str = ""
    parent_id: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of what is sent within the span."""
        parent = {"traceparent": f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"}
        return {**parent, "tracestate": self.state} if self.state else parent

    def child(self) -> Trace:
        """Return a new span that this one causes."""
        return Trace(self.trace_id, _new_id(16), self.flags, self.state, self.span_id)


CURRENT: ContextVar[Trace | None] = ContextVar("trace", default=None)


def headers() -> dict[str, str]:
    """Return the headers of what is sent now: none without a trace."""
    trace = CURRENT.get()
    return {} if trace is None else trace.headers


def read(parent: str, state: str = "") -> Trace | None:
    """Return the span that the headers name, or None if `traceparent` is malformed.

    A `tracestate` that is too long, malformed or could have a card number is dropped: it is stored and sent on.
    """
    match = _PARENT.fullmatch(parent)
    state = state if _STATE.fullmatch(state) and not card_numbers.could_carry(state) else ""
    return Trace(match[2], match[3], int(match[4], 16) & (SAMPLED | RANDOM), state) if match else None


def first(ratio: float) -> Trace:
    """Return the first span of a new trace; `ratio` of them are recorded."""
    sampled = SAMPLED if random.random() < ratio else 0  # noqa: S311 - no secret
    return Trace(_new_id(32), _new_id(16), RANDOM | sampled)


def _new_id(digits: int) -> str:
    return f"{random.getrandbits(4 * digits) or 1:0{digits}x}"
