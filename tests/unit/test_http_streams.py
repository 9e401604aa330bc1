"""Streamed answers: whatever ends one, its generator is closed and no task is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from paydesk.platform.http.reply import Reply, send_stream
from waiting import until


class _Parts:
    """A generator that sends one part, then waits or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.is_closed, self._error = False, error
        self.sent: list[dict[str, Any]] = []

    async def parts(self) -> AsyncGenerator[bytes, None]:
        try:
            yield b"one"
            if self._error is not None:
                raise self._error
            await asyncio.Event().wait()
        finally:
            self.is_closed = True


async def _never() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def _sending(parts: _Parts, receive: Any = _never) -> list[dict[str, Any]]:
    async def send(message: Any) -> None:
        parts.sent.append(message)

    await send_stream(receive, send, Reply(200), parts.parts(), "id")
    return parts.sent


async def test_a_canceled_stream_is_closed() -> None:
    """The server cancels what is left at the end of its time; the generator waits for its next part."""
    parts = _Parts()
    task = asyncio.create_task(_sending(parts))
    await until(lambda: len(parts.sent) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert parts.is_closed
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_failed_stream_is_closed() -> None:
    """Its error reaches the server, which cuts the connection: the client cannot take it for complete."""
    parts = _Parts(ValueError("no part"))
    with pytest.raises(ValueError, match="no part"):
        await _sending(parts)
    assert parts.is_closed
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_disconnected_stream_is_closed() -> None:
    """The body of its request is dropped meanwhile."""
    parts = _Parts()
    messages = iter([{"type": "http.request", "body": b"x" * 1000}] * 3)

    async def receive() -> dict[str, Any]:
        await until(lambda: len(parts.sent) == 2)
        return next(messages, {"type": "http.disconnect"})

    sent = await _sending(parts, receive)
    assert [message.get("body") for message in sent] == [None, b"one"]
    assert parts.is_closed
    assert asyncio.all_tasks() == {asyncio.current_task()}
