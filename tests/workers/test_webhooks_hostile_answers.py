"""Answers of hostile receivers: each attempt has an outcome that can be stored, and that reveals nothing of the URL."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator

import pytest
from yarl import URL

from paydesk.engine.webhooks.addresses import CheckedResolver
from paydesk.engine.webhooks.delivery.sending import Outcome, Sender

HEAD = b"HTTP/1.1 200 OK\r\n"
MALFORMED = (
    b"\xff\xfe\x1b[31mgarbage\r\n\r\n",
    b"HTTP/1.1 1000 OK\r\n\r\n",
    b"HTTP/9.9 200 OK\r\n\r\n",
    HEAD + b"X\xff: \x1b\r\n\r\n",
    HEAD + b"Content-Length: \xff\r\n\r\n",
    HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n\xff\x1b[2Jzz\r\n",
    HEAD + b"X: " + b"a" * 9_000 + b"\r\n\r\n",
    HEAD + b"Content-Length: 10\r\n\r\nabc",
    b"",
)


class Receiver:
    """Answers each request with the bytes of `answer`, and ends the connection."""

    def __init__(self) -> None:
        self.answer = b""
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        await reader.readuntil(b"body")
        writer.write(self.answer)
        writer.close()

    async def outcome(self, sender: Sender, answer: bytes) -> Outcome:
        """Return the outcome of a request that gets this answer."""
        self.answer = answer
        url = URL(f"http://127.0.0.1:{self.port}/hooks/secret-path?key=sesame&data.id=ord1", encoded=True)
        return await sender.send(url, {}, b"body")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Yield a receiver on loopback."""
    made = Receiver()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    """Yield a sender that may send to this machine."""
    async with Sender(CheckedResolver(loopback_allowed=True), timeout_seconds=60) as made:
        yield made


async def test_error_of_a_malformed_answer_has_nothing_of_the_url(receiver: Receiver, sender: Sender) -> None:
    """The error is logged and shown to operators; the query may have the receiver's credentials."""
    for answer in MALFORMED:
        outcome = await receiver.outcome(sender, answer)
        assert outcome.error, (answer, outcome)
        words = set(outcome.error.replace("/", " ").replace("=", " ").split())
        assert not {"sesame", "secret-path", "data.id"} & words, answer
        assert "sesame" not in outcome.error, answer
        assert "secret-path" not in outcome.error, answer


async def test_any_answer_has_an_outcome_that_can_be_stored(receiver: Receiver, sender: Sender) -> None:
    """On one line, without control characters, as UTF-8."""
    for answer in disturbed():
        outcome = await receiver.outcome(sender, answer)
        assert (outcome.error is None) == (outcome.status is not None), answer
        assert (outcome.error or "").isprintable(), answer
        (outcome.error or outcome.body).encode()
        assert "\0" not in outcome.body


def disturbed() -> Iterator[bytes]:
    """Yield an answer with a few bytes replaced, repeatably."""
    dice = random.Random(7)
    for _ in range(200):
        answer = bytearray(HEAD + b"Server: any\r\nContent-Length: 4\r\n\r\nbody")
        for _ in range(dice.randint(1, 3)):
            answer[dice.randrange(len(answer))] = dice.choice(b"\xff\x1b\0\n\r\x80\x9b")
        yield bytes(answer)
