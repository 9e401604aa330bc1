"""Hints to open pages: joined, numbered, resumed, bounded, and ended with the node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest

from moved_time import advance
from paydesk.core.signals import EVERYTHING, Signals
from paydesk.platform.web.event_streams import COMMENT
from paydesk.platform.web.hints import EXPECTED_SECONDS, IDS_MAX, PER_READER_MAX, REMEMBERED_MAX, Hints


async def _permitted() -> bool:
    return True


def _open(hints: Hints, last_event_id: str = "", reader: str = "ada") -> AsyncGenerator[bytes, None]:
    stream = hints.answer(reader, last_event_id, _permitted).stream
    assert stream is not None
    return stream


async def _next(stream: AsyncGenerator[bytes, None]) -> bytes:
    return await anext(stream)


async def _next_hints(stream: AsyncGenerator[bytes, None]) -> bytes:
    while (message := await _next(stream)) == COMMENT:
        pass
    return message


async def _waiting(stream: AsyncGenerator[bytes, None]) -> asyncio.Task[bytes]:
    """Begin to read the stream's next message; return once the stream waits."""
    reading = asyncio.create_task(_next(stream))
    for _ in range(5):
        await asyncio.sleep(0)
    return reading


def _parsed(message: bytes) -> tuple[str, dict[str, list[str]]]:
    fields = dict(line.split(": ", 1) for line in message.decode().strip().splitlines())
    return fields["id"], json.loads(fields["data"])


async def test_hints_of_a_quarter_second_are_one_message() -> None:
    """Each id is named once."""
    signals = Signals()
    hints = Hints(signals)
    stream = _open(hints)
    assert await _next(stream) == COMMENT
    for topic in ("terminal:B", "terminal:A", "terminal:A", "hint:delivery:ORD1", "hint:requests:"):
        signals.notify((topic,))
    _, found = _parsed(await _next(stream))
    assert found == {"terminal": ["A", "B"], "delivery": ["ORD1"], "requests": [""]}


async def test_messages_come_at_most_once_an_interval() -> None:
    """However often something changes: hints of one interval are one message, those after it another."""
    signals = Signals()
    hints = Hints(signals, spacing_seconds=60)
    stream = _open(hints)
    await _next(stream)
    for batch in ("first", "second"):
        message = asyncio.create_task(_next_hints(stream))
        for number in range(100):
            signals.notify((f"terminal:{batch} {number % 3}",))
            await asyncio.sleep(0)
        assert not message.done()
        advance(60)
        assert _parsed(await message)[1] == {"terminal": [f"{batch} {number}" for number in range(3)]}


async def test_a_browser_that_comes_back_gets_what_it_missed() -> None:
    """By the id of the last message that it got."""
    signals = Signals()
    hints = Hints(signals)
    stream = _open(hints)
    await _next(stream)
    signals.notify(("terminal:A",))
    seen, _ = _parsed(await _next(stream))
    await stream.aclose()
    keeping = _open(hints)
    await _next(keeping)
    signals.notify(("terminal:B",))
    await _next(keeping)
    again = _open(hints, seen)
    assert await _next(again) == COMMENT
    assert _parsed(await _next(again))[1] == {"terminal": ["B"]}


@pytest.mark.parametrize("last_event_id", ["00000000-1", "x", "-", "-1", "{epoch}-99999", "{epoch}-", "{epoch}-٣"])
async def test_an_id_of_another_node_gets_reset(last_event_id: str) -> None:
    """Or one that no message had."""
    signals = Signals()
    hints = Hints(signals)
    stream = _open(hints)
    await _next(stream)
    signals.notify(("terminal:A",))
    seen, _ = _parsed(await _next(stream))
    epoch = seen.partition("-")[0]
    message = await _next_hints(_open(hints, last_event_id.replace("{epoch}", epoch)))
    assert message == f"event: reset\nid: {seen}\ndata: {{}}\n\n".encode()


async def test_more_than_a_thousand_hints_ago_gets_reset() -> None:
    """The node remembers no more."""
    signals = Signals()
    hints = Hints(signals)
    stream = _open(hints)
    await _next(stream)
    signals.notify(("terminal:A",))
    seen, _ = _parsed(await _next(stream))
    for _ in range(3):
        for number in range(REMEMBERED_MAX // 2):
            signals.notify((f"terminal:{number}",))
        message = await _next(stream)
    assert _parsed(message)[1] == {"terminal": []}, "too many ids name only the noun"
    assert (await _next_hints(_open(hints, seen))).startswith(b"event: reset\n")
    assert REMEMBERED_MAX // 2 > IDS_MAX


async def test_lost_notifications_of_other_nodes_reset_every_page() -> None:
    """PostgreSQL sends no notification twice."""
    signals = Signals()
    hints = Hints(signals)
    stream = _open(hints)
    await _next(stream)
    signals.notify_local((EVERYTHING,))
    assert (await _next(stream)).startswith(b"event: reset\n")


async def test_streams_are_bounded_for_each_reader_and_in_all() -> None:
    """One too many ends with a sentence for the page. A stream that ends makes room."""
    hints = Hints(Signals(), streams_max=PER_READER_MAX + 1)
    streams = [_open(hints) for _ in range(PER_READER_MAX)]
    said = [message async for message in _open(hints)]
    assert said == [b"event: crowded\ndata: Not live: 8 other windows of yours are open. Updated every 10 s.\n\n"]
    streams.append(_open(hints, reader="grace"))
    (refused,) = [message async for message in _open(hints, reader="hedy")]
    assert refused.startswith(b"event: crowded\ndata: Not live: too many windows")
    del streams[0]
    assert len(hints) == PER_READER_MAX
    assert await anext(_open(hints)) == COMMENT


async def test_streams_end_when_the_node_stops() -> None:
    """At once."""
    signals = Signals()
    hints = Hints(signals)
    stream = _open(hints)
    await _next(stream)
    waiting = await _waiting(stream)
    signals.stop()
    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_a_stream_ends_with_its_session() -> None:
    """It is checked every 15 s, also while messages are sent."""
    now, is_valid = 0.0, True

    async def is_permitted() -> bool:
        return is_valid

    signals = Signals()
    stream = Hints(signals, monotonic=lambda: now).answer("ada", "", is_permitted).stream
    assert stream is not None
    await _next(stream)
    waiting = await _waiting(stream)
    is_valid, now = False, 20.0
    signals.notify(("terminal:A",))
    assert _parsed(await waiting)[1] == {"terminal": ["A"]}
    with pytest.raises(StopAsyncIteration):
        await _next(stream)


async def test_a_slow_stream_ends_with_its_session_too() -> None:
    """Also if there is always a message that the reader has not taken yet."""
    now, is_valid = 0.0, True

    async def is_permitted() -> bool:
        return is_valid

    signals = Signals()
    hints = Hints(signals, monotonic=lambda: now)
    stream = hints.answer("ada", "", is_permitted).stream
    assert stream is not None
    await _next(stream)
    signals.notify(("terminal:A",))
    await _next(stream)
    is_valid, now = False, 20.0

    async def read_on() -> None:
        for _ in range(10):
            signals.notify(("terminal:A",))
            hints.flush()
            await _next(stream)

    with pytest.raises(StopAsyncIteration):
        await read_on()


async def test_nothing_is_published_while_no_page_is_open() -> None:
    """On any node."""
    published: list[str] = []
    signals = Signals()
    signals.publish_remote = published.extend
    hints = Hints(signals)
    signals.hint("delivery", "ORD1")
    assert published == []
    stream = _open(hints)
    await _next(stream)
    assert published == ["watching"]
    signals.hint("delivery", "ORD1")
    assert published == ["watching", "hint:delivery:ORD1"]


async def test_hints_are_published_for_another_node_that_announced_itself() -> None:
    """Until its announcement expires."""
    now = 0.0
    published: list[str] = []
    signals = Signals()
    signals.publish_remote = published.extend
    hints = Hints(signals, monotonic=lambda: now)
    signals.notify_local(("watching",))
    signals.hint("delivery", "ORD1")
    assert published == ["hint:delivery:ORD1"]
    now = 100.0
    signals.hint("delivery", "ORD2")
    signals.hint("delivery", "ORD3")
    assert published == ["hint:delivery:ORD1", "hint:delivery:ORD2"], "the announcement has expired"
    assert len(hints) == 0


async def test_a_page_misses_nothing_before_its_stream() -> None:
    """From the time at which it was made, also if it is the only page."""
    signals = Signals()
    hints = Hints(signals)
    position = hints.position()
    signals.hint("requests")
    hints.flush()
    stream = _open(hints, position)
    assert await _next(stream) == COMMENT
    assert _parsed(await _next(stream))[1] == {"requests": [""]}


async def test_what_happens_while_no_page_is_open_resets_a_page_that_comes_back() -> None:
    """Nothing is collected meanwhile, so that the page has to fetch what it shows."""
    signals, now = Signals(), [0.0]
    hints = Hints(signals, monotonic=lambda: now[0])
    position = hints.position()
    stream = _open(hints, position)
    assert await _next(stream) == COMMENT
    await stream.aclose()
    del stream
    now[0] = EXPECTED_SECONDS + 1
    signals.notify(("terminal:A",))
    assert b"event: reset" in await _next_hints(_open(hints, position))
