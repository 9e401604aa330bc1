"""Actions that a case puts on requests of the terminal: to lose, refuse, hold or change them or their answers.

An action gets the exchange and `forward`, which sends the request to the service. It returns the answer for the
terminal, or None to drop the connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from paydesk.core.errors import ErrorKind
from paydesk.platform.http.error_body import listed
from paydesk_dev.conformance.terminals.exchanges import Exchange
from paydesk_dev.http_client import Reply

Forward = Callable[[], Awaitable[Reply]]
Action = Callable[[Exchange, Forward], Awaitable[Reply | None]]


async def lose(_exchange: Exchange, forward: Forward) -> None:
    """Let the service handle the request, and lose its answer."""
    await forward()


async def drop(_exchange: Exchange, _forward: Forward) -> None:
    """Lose the request."""


def refuse(*statuses: int, code: str = "refused_by_the_kit") -> Action:
    """Return an action that answers with these statuses one after the other, the last one from then on."""
    left = deque(statuses)

    async def act(_exchange: Exchange, _forward: Forward) -> Reply | None:
        status = left.popleft() if len(left) > 1 else left[0]
        return Reply(status) if status == 204 else error(status, code)

    return act


def rewrite(change: Callable[[dict[str, Any]], Mapping[str, Any]], status: int = 0) -> Action:
    """Return an action that changes the service's answer, and its status if one is given."""

    async def act(_exchange: Exchange, forward: Forward) -> Reply:
        answer = await forward()
        if answer.status == 204:
            return answer
        return replace(answer, status=status or answer.status, raw=msgspec.json.encode(change(answer.body)))

    return act


def error(status: int, code: str, message: str = "The conformance kit refuses this request on purpose.") -> Reply:
    """Return an error in the shape of the contract."""
    refusal = ErrorKind(code, status, message).with_reason("on purpose")
    return Reply(status, msgspec.json.encode(listed(refusal)))


class Gate:
    """An action that holds requests until it is opened or drops them.

    With `served` it holds the answers to them, with `message` only answers with this type of message.
    """

    def __init__(self, *, served: bool = False, message: str = "") -> None:
        self._served, self._message = served or bool(message), message
        self._ended, self._drops = asyncio.Event(), False

    def open(self) -> None:
        """Let all pass, those that are held and later ones."""
        self._ended.set()

    def drop(self) -> None:
        """Drop those that are held."""
        self._drops = not self._ended.is_set()
        self._ended.set()

    async def __call__(self, _exchange: Exchange, forward: Forward) -> Reply | None:
        """Hold the request."""
        answer = await forward() if self._served else None
        if answer is not None and self._message and answer.body.get("type") != self._message:
            return answer
        await self._ended.wait()
        return None if self._drops else answer or await forward()
