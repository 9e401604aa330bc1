"""Live pages: one stream of server-sent events a page, whose messages carry the parts that have changed.

The id of a message says what the page shows after it: a browser that comes back with `Last-Event-ID` gets only what it
lacks, also after a restart of the service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256

from paydesk.core.errors import ErrorKind
from paydesk.platform.operation import Answer
from paydesk.platform.web.changes import Changes
from paydesk.platform.web.event_streams import EventStreams, event

TOO_MANY_STREAMS = ErrorKind(
    "too_many_streams",
    503,
    "Too many windows show this page live. Close some of them, then reload.",
    advice="Close some windows.",
    repeat="later",
)
PER_PAGE_MAX, STREAMS_MAX = 20, 200
SPACING_SECONDS = 0.25
"""The least time between two messages."""
_FINGERPRINT_DIGITS = 8

Parts = Mapping[str, str]
"""The live parts of a page in a fixed order: the id of each element, and the element as HTML."""


def answer(streams: EventStreams, page: str, source: Changes, render: Callable[[], Parts | None], shown: str) -> Answer:
    """Return the answer that streams a page to a browser which has the state `shown`, a `Last-Event-ID`.

    `render` returns the parts, or None to end the stream. Raises `too_many_streams`.
    """
    of_page = streams.count(page)
    if of_page >= PER_PAGE_MAX or len(streams) >= STREAMS_MAX:
        raise TOO_MANY_STREAMS.with_reason(f"{of_page} streams of the page, {len(streams)} in all")

    def lacking() -> bytes | None:
        nonlocal shown
        parts = render()
        if parts is None:
            return None
        lacked, shown = changes(parts, shown), state_of(parts)
        return event(partials(lacked), identity=shown) if lacked else b""

    return streams.answer(page, source, lacking, spacing_seconds=SPACING_SECONDS)


def partials(parts: Parts) -> str:
    """Return the HTML with which htmx replaces these parts of a page; what is the same in them stays untouched."""
    return "".join(
        f'<hx-partial hx-target="#{name}" hx-swap="outerMorph">{html}</hx-partial>' for name, html in parts.items()
    )


def state_of(parts: Parts) -> str:
    """Return the state of a page that shows these parts."""
    return ".".join(_fingerprint(html) for html in parts.values())


def changes(parts: Parts, shown: str) -> Parts:
    """Return the parts that a page in the state `shown` lacks: all of them if that is not a state of this page."""
    known = shown.split(".")
    if len(known) != len(parts):
        return parts
    return {name: html for (name, html), seen in zip(parts.items(), known, strict=True) if seen != _fingerprint(html)}


def _fingerprint(html: str) -> str:
    return sha256(html.encode()).hexdigest()[:_FINGERPRINT_DIGITS]
