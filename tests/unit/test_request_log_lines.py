"""Lines of requests: written once a turn of the event loop, in order with others, and all at the end; masked."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from kept_logging import kept_logging
from paydesk.core.errors import INTERNAL_ERROR, NOT_FOUND, Refusal
from paydesk.platform import logs
from paydesk.platform.http import request_log
from tables import each

HEX40 = "0123456789" * 4
UUID = "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"
ORDER = "/v1/orders/ORD04111111111111111AAAAAAAAA"


class Stream(io.StringIO):
    """Counts its writes."""

    writes = 0

    def write(self, text: str) -> int:
        """Write."""
        self.writes += 1
        return super().write(text)

    @property
    def names(self) -> list[str]:
        """The path or the event of each line."""
        lines = [json.loads(line) for line in self.getvalue().splitlines()]
        return [line.get("path", line["event"]) for line in lines]


@pytest.fixture
def stream() -> Iterator[Stream]:
    """The log, as JSON; the logging configuration is restored afterwards."""
    with kept_logging():
        written = Stream()
        logs.configure("json", written)
        yield written


def line(path: str, refusal: Refusal | None = None, identity: str = UUID, known: tuple[str, ...] = ()) -> None:
    """Log a request."""
    status = 200 if refusal is None else refusal.kind.status
    request_log.write("GET", path, status, identity, 0.0, refusal, "203.0.113.9", known=known)


async def test_the_lines_of_a_turn_are_written_together(stream: Stream) -> None:
    """At its end, and those of the next turn after it."""
    line("/1")
    line("/2", NOT_FOUND.with_reason("unknown"))
    assert not stream.names
    await asyncio.sleep(0)
    assert (stream.names, stream.writes) == (["/1", "/2"], 1)
    line("/3")
    await asyncio.sleep(0)
    assert (stream.names, stream.writes) == (["/1", "/2", "/3"], 2)


async def test_errors_are_written_at_once(stream: Stream) -> None:
    """Behind the lines that wait."""
    line("/1")
    line("/2", INTERNAL_ERROR.with_reason("unhandled exception"))
    assert stream.names == ["/1", "/2"]


async def test_other_lines_are_written_behind_those_that_wait(stream: Stream) -> None:
    """Of this program and of libraries, with every level."""
    line("/1")
    structlog.get_logger("database").critical("fsync_failed")
    line("/2")
    structlog.get_logger("server").info("listening")
    assert stream.names == ["/1", "fsync_failed", "/2", "listening"]


def test_lines_of_a_loop_that_ended_are_written(stream: Stream) -> None:
    """With the next line, or when the process ends: its turn was not completed."""
    for path in ("/1", "/2"):
        loop = asyncio.new_event_loop()
        loop.call_soon(loop.stop)
        loop.call_soon(line, path)
        loop.run_forever()
        loop.close()
    assert stream.names == []
    line("/3")
    assert stream.names == ["/1", "/2", "/3"]


PROGRAM = """
import asyncio, sys
from paydesk.platform import logs
from paydesk.platform.http import request_log

logs.configure("json")

async def main():
    for path in ("/1", "/2"):
        request_log.write("GET", path, 200, "id", 0.0, None, "203.0.113.9")
    {end}

asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["return", "sys.exit(3)", "raise ValueError('a bug')"])
def test_nothing_is_lost_when_the_process_ends(end: str) -> None:
    """In the last turn too, however it ends."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(end=end)], capture_output=True, text=True, check=False, timeout=60
    )
    lines = [json.loads(one)["path"] for one in ended.stderr.splitlines() if one.startswith("{")]
    assert lines == ["/1", "/2"]


@each(
    "path, identity, known",
    [
        (ORDER, UUID, ()),
        (ORDER, UUID, (UUID,)),
        (f"/v1/orders/{HEX40}", UUID, (UUID, ORDER)),
        ("/v1/orders", HEX40, ("/v1/orders",)),
        ("/v1/orders/%34111111111111111", UUID, (UUID,)),
        (f"/{HEX40}", HEX40, (UUID,)),
    ],
)
def test_a_text_from_outside_is_searched(path: str, identity: str, known: tuple[str, ...]) -> None:
    """Whatever else of the line is known to have no secret."""
    with kept_logging():
        stream = Stream()
        logs.configure("json", stream)
        line(path, NOT_FOUND.with_reason("unknown"), identity, known)
        assert "1111111111111" not in stream.getvalue()
        assert HEX40 not in stream.getvalue()
        line("/v1/orders", NOT_FOUND.with_reason(f"{HEX40} is unknown"), UUID, (UUID, "/v1/orders"))
        assert HEX40 not in stream.getvalue()


def test_a_text_of_our_own_is_written_as_it_is(stream: Stream) -> None:
    """The id of an order that exists, whatever its digits look like."""
    line(ORDER, known=(ORDER, UUID))
    assert stream.names == [ORDER]
