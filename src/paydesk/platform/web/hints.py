"""Hints to open pages that something they may show has changed: a noun and an id, such as a terminal and its id.

A page that a hint concerns fetches its live part again. All streams of a node get the same messages, at most four a
second. The id of a message is that of its last hint: a browser that reconnects with it as `Last-Event-ID` gets the
hints that it missed, or `reset` if the node no longer has them. A page has such an id from the start, so that it gets
the hints from before its stream was open.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple

import msgspec

from paydesk.core import runtime
from paydesk.core.signals import EVERYTHING, Signals
from paydesk.platform.operation import Answer
from paydesk.platform.web.changes import Changes
from paydesk.platform.web.event_streams import Check, EventStreams, event, streamed
from paydesk.platform.web.live import SPACING_SECONDS

PER_READER_MAX, STREAMS_MAX = 8, 400
SENT_PER_SECOND_MAX = 40
"""Messages of all streams together: with more than ten streams, each gets fewer than four a second."""
REMEMBERED_MAX = 1000
"""This many hints can be sent again to a browser that reconnects."""
IDS_MAX = 50
"""A message with more ids of one noun names only the noun: everything of that kind may have changed."""
WATCHING = "watching"
ANNOUNCE_SECONDS = 20.0
"""A node with streams announces itself to the others this often."""
INTEREST_SECONDS = 60.0
"""Validity of another node's announcement."""

EXPECTED_SECONDS = 60.0
"""Time in which hints are collected for a page that was rendered and has no stream yet."""


class Batch(NamedTuple):
    """The hints of one message, with the numbers of the first and the last."""

    first: int
    last: int
    message: bytes


class Hints(Changes):
    """The hints of a node, and the streams that carry them, bounded per reader and in all.

    `revision` is the number of the last hint in a message. Orders and print actions notify `terminal:<id>` with every
    change; that is the hint of the noun `terminal`. Other changes are hinted with `Signals.hint`.
    """

    def __init__(
        self,
        signals: Signals,
        *,
        per_reader_max: int = PER_READER_MAX,
        streams_max: int = STREAMS_MAX,
        spacing_seconds: float | None = None,
        monotonic: Callable[[], float] = runtime.monotonic,
    ) -> None:
        super().__init__()
        self._signals, self._per_reader_max, self._streams_max = signals, per_reader_max, streams_max
        self._spacing_seconds, self._monotonic = spacing_seconds, monotonic
        self._epoch = secrets.token_hex(4)
        self._batches: deque[Batch] = deque()
        self._waiting: dict[str, set[str]] = {}
        self._count = 0
        self._flush_at: asyncio.TimerHandle | None = None
        self._announced = float("-inf")
        self._remote_until = float("-inf")
        self._expected_until = float("-inf")
        self._open = EventStreams(signals, monotonic)
        for topic, listener in (
            ("hint:", self._hinted),
            ("terminal:", self._collect),
            (EVERYTHING, self._lost),
            (WATCHING, self._watched_elsewhere),
            ("stop", self._end),
        ):
            signals.listen(topic, listener)

    def __len__(self) -> int:
        return len(self._open)

    def answer(self, reader: str, last_event_id: str, is_permitted: Check) -> Answer:
        """Return the answer that streams the hints after `last_event_id` to `reader`, an operator.

        The stream ends when `is_permitted`, which is called every 15 s, returns False. One stream too many ends at
        once, with a message that says why: no answer is an error, which a page could not read.
        """
        if self._open.count(reader) >= self._per_reader_max:
            return streamed(_crowded(f"{self._per_reader_max} other windows of yours are open"))
        if len(self._open) >= self._streams_max:
            return streamed(_crowded("too many windows of the console are open"))
        self._begin()
        seen = self._seen(last_event_id)

        def lacking() -> bytes:
            nonlocal seen
            after, seen = seen, self.revision
            missed = [batch for batch in self._batches if batch.last > after]
            if after == seen or (missed and missed[0].first <= after + 1):
                return b"".join(batch.message for batch in missed)
            return event("{}", name="reset", identity=f"{self._epoch}-{seen}")

        async def is_still_permitted() -> bool:
            self._announce()
            return await is_permitted()

        answer = self._open.answer(reader, self, lacking, is_permitted=is_still_permitted)
        self._announce()
        return answer

    def position(self) -> str:
        """Return the id after which a page needs the hints. Call it before the page's data is read."""
        self._begin()
        self._expected_until = self._monotonic() + EXPECTED_SECONDS
        self._announce()
        return f"{self._epoch}-{self.revision}"

    @property
    def _is_collecting(self) -> bool:
        return bool(self._open) or self._monotonic() < self._expected_until

    def _begin(self) -> None:
        """Begin to collect. Hints from before were not collected, so earlier ids become invalid."""
        if not self._is_collecting:
            self._lost("")

    def _seen(self, last_event_id: str) -> int:
        """Return the number of the last hint that the browser has seen, or -1 if another node numbered it."""
        if not last_event_id:
            return self.revision
        epoch, _, text = last_event_id.partition("-")
        if epoch != self._epoch or not (text.isascii() and text.isdigit() and len(text) <= 15):
            return -1
        return int(text) if int(text) <= self.revision else -1

    # Hints. -----------------------------------------------------------------------------------------------------------

    def _hinted(self, topic: str) -> None:
        if self._is_collecting:
            self._collect(topic)
        else:
            self._signals.watched = self._monotonic() < self._remote_until

    def _collect(self, topic: str) -> None:
        if self._flush_at is None:
            if not self._is_collecting:
                return
            # With many streams a message follows less often.
            seconds = self._spacing_seconds
            if seconds is None:
                seconds = max(SPACING_SECONDS, len(self._open) / SENT_PER_SECOND_MAX)
            self._flush_at = asyncio.get_running_loop().call_later(seconds, self.flush)
        noun, _, identity = topic.removeprefix("hint:").partition(":")
        ids = self._waiting.get(noun)
        if ids is None:
            ids = self._waiting[noun] = set()
        ids.add(identity)
        self._count += 1

    def flush(self) -> None:
        """Make the message of all hints since the last message, and wake the streams."""
        if self._flush_at is not None:
            self._flush_at.cancel()
            self._flush_at = None
        if not self._count:
            return
        hints = {noun: sorted(ids) if len(ids) <= IDS_MAX else [] for noun, ids in self._waiting.items()}
        first, self.revision = self.revision + 1, self.revision + self._count
        self._waiting, self._count = {}, 0
        data = msgspec.json.encode(hints).decode()
        self._batches.append(Batch(first, self.revision, event(data, identity=f"{self._epoch}-{self.revision}")))
        while self.revision - self._batches[0].last >= REMEMBERED_MAX:
            self._batches.popleft()
        self.wake()

    def _lost(self, _: str) -> None:
        """Hints of other nodes may be lost: every page fetches what it shows."""
        self._batches.clear()
        self.notify()

    def _end(self, _: str) -> None:
        if self._flush_at is not None:
            self._flush_at.cancel()

    # Which nodes have streams. ----------------------------------------------------------------------------------------

    def _announce(self) -> None:
        now = self._monotonic()
        self._signals.watched = self._is_collecting or now < self._remote_until
        if self._is_collecting and now - self._announced >= ANNOUNCE_SECONDS:
            self._announced = now
            self._signals.publish((WATCHING,))

    def _watched_elsewhere(self, _: str) -> None:
        self._remote_until = self._monotonic() + INTEREST_SECONDS
        self._signals.watched = True


async def _crowded(reason: str) -> AsyncGenerator[bytes, None]:
    yield event(f"Not live: {reason}. Updated every 10 s.", name="crowded")
