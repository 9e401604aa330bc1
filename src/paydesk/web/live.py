"""Live pages: one stream of server-sent events a page, whose messages carry the parts that have changed.

The id of a message says what the page shows after it: a browser that comes back with `Last-Event-ID` gets only what it
lacks, also after a restart of the service.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from hashlib import sha256
from typing import Protocol
from weakref import WeakKeyDictionary

from paydesk.core.errors import ErrorKind
from paydesk.core.signals import Signals
from paydesk.operation import Answer

EVENT_STREAM = "text/event-stream"
LAST_EVENT_ID = "last-event-id"
TOO_MANY_STREAMS = ErrorKind(
    "too_many_streams", 503, "Too many windows show this page live. Close some of them, then reload."
)
PER_PAGE_MAX, STREAMS_MAX = 20, 200
SPACING_SECONDS = 0.25
"""The least time between two messages."""
COMMENT_SECONDS = 15.0
"""A stream without messages sends a comment this often, so that proxies keep it open."""
COMMENT = b":\n\n"

STREAM_HEADERS = (
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    # Otherwise nginx collects an answer before it passes it on.
    ("x-accel-buffering", "no"),
)
_FINGERPRINT_DIGITS = 8

Parts = Mapping[str, str]
"""The live parts of a page in a fixed order: the id of each element, and the element as HTML."""


class Source(Protocol):
    """What a page shows. `revision` counts its changes."""

    revision: int

    async def changed(self, revision: int, seconds: float) -> bool:
        """Wait until `revision` is past; return False if it is not after `seconds`."""

    def notify(self) -> None:
        """Wake all that wait."""


class Streams:
    """The open streams of a process, bounded per page and in all. They end when the node stops."""

    def __init__(self, signals: Signals, *, per_page_max: int = PER_PAGE_MAX, streams_max: int = STREAMS_MAX) -> None:
        self._signals, self._per_page_max, self._streams_max = signals, per_page_max, streams_max
        # A stream counts until its generator is freed, even if it was never started.
        self._open: WeakKeyDictionary[AsyncGenerator[bytes, None], tuple[str, Source]] = WeakKeyDictionary()
        signals.listen("stop", self._end)

    def __len__(self) -> int:
        return len(self._open)

    def answer(self, page: str, source: Source, render: Callable[[], Parts | None], shown: str) -> Answer:
        """Return the answer that streams a page to a browser which has the state `shown`, a `Last-Event-ID`.

        `render` returns the parts, or None to end the stream. Raises `too_many_streams`.
        """
        of_page = sum(name == page for name, _ in self._open.values())
        if of_page >= self._per_page_max or len(self._open) >= self._streams_max:
            raise TOO_MANY_STREAMS.with_reason(f"{of_page} streams of the page, {len(self._open)} in all")
        stream = self._messages(source, render, shown)
        self._open[stream] = page, source
        return Answer(200, headers=STREAM_HEADERS, media_type=EVENT_STREAM, stream=stream)

    async def _messages(
        self, source: Source, render: Callable[[], Parts | None], shown: str
    ) -> AsyncGenerator[bytes, None]:
        yield COMMENT
        while not self._signals.stopping:
            revision, parts = source.revision, render()
            if parts is None:
                return
            lacking = changes(parts, shown)
            if lacking:
                shown = state_of(parts)
                yield message(shown, partials(lacking))
            await asyncio.sleep(SPACING_SECONDS)
            while not await source.changed(revision, COMMENT_SECONDS):
                yield COMMENT

    def _end(self, _: str) -> None:
        for _page, source in list(self._open.values()):
            source.notify()


def message(identity: str, data: str) -> bytes:
    """Return a server-sent event."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines())
    return f"id: {identity}\n{lines}\n".encode()


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
