"""Streams of server-sent events, for the hints of the console and the pages of virtual terminals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from weakref import WeakKeyDictionary

from paydesk.core import runtime
from paydesk.core.signals import Signals
from paydesk.platform.operation import Answer
from paydesk.platform.web.changes import Changes

EVENT_STREAM = "text/event-stream"
LAST_EVENT_ID = "last-event-id"
COMMENT_SECONDS = 15.0
"""A stream without messages sends a comment this often, so that proxies keep it open."""
COMMENT = b":\n\n"
_HEADERS = (
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    # Otherwise nginx collects an answer before it passes it on.
    ("x-accel-buffering", "no"),
)

Check = Callable[[], Awaitable[bool]]


class EventStreams:
    """The open streams of one kind on a node. They end when it stops."""

    def __init__(self, signals: Signals, monotonic: Callable[[], float] = runtime.monotonic) -> None:
        self._signals, self._monotonic = signals, monotonic
        # A stream counts until its generator is freed, even if it was never started.
        self._open: WeakKeyDictionary[AsyncGenerator[bytes, None], tuple[str, Changes]] = WeakKeyDictionary()
        signals.listen("stop", self._end)

    def __len__(self) -> int:
        return len(self._open)

    def count(self, reader: str) -> int:
        """Return how many streams a reader has."""
        return sum(name == reader for name, _ in self._open.values())

    def answer(
        self,
        reader: str,
        source: Changes,
        lacking: Callable[[], bytes | None],
        *,
        is_permitted: Check | None = None,
        spacing_seconds: float = 0,
    ) -> Answer:
        """Return the answer that streams a source to a reader.

        `lacking` returns the events that the reader lacks, or None to end the stream. It also ends when
        `is_permitted`, which is called every 15 s, returns False.
        """

        async def events() -> AsyncGenerator[bytes, None]:
            yield COMMENT
            checked = self._monotonic()
            while not self._signals.stopping:
                revision, missing = source.revision, lacking()
                if missing is None:
                    return
                if missing:
                    yield missing
                if spacing_seconds:
                    await asyncio.sleep(spacing_seconds)
                # A slow reader always lacks something: check between messages too.
                remaining = checked + COMMENT_SECONDS - self._monotonic()
                if remaining <= 0 or not await source.changed(revision, remaining):
                    checked = self._monotonic()
                    if is_permitted is not None and not await is_permitted():
                        return
                    yield COMMENT

        stream = events()
        self._open[stream] = reader, source
        return streamed(stream)

    def _end(self, _: str) -> None:
        for _reader, source in list(self._open.values()):
            source.notify()


def streamed(events: AsyncGenerator[bytes, None]) -> Answer:
    """Return the answer that streams these events."""
    return Answer(200, headers=_HEADERS, media_type=EVENT_STREAM, stream=events)


def event(data: str, *, name: str = "", identity: str = "") -> bytes:
    """Return a server-sent event."""
    head = [f"{field}: {value}" for field, value in (("event", name), ("id", identity)) if value]
    return "\n".join((*head, *(f"data: {line}" for line in data.splitlines()), "", "")).encode()
