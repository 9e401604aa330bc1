"""The parameters of a new adapter of an acquirer, and the state that it may show to operators.

An adapter is a callable `create(name, options, context)` that returns an `Acquirer`: that of HTTP, or an entry point in
the group `paydesk.acquirers`. `options` are its table in the acquirers file, without `adapter`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from paydesk.core import runtime
from paydesk.engine.payments.acquirer import Acquirer

BreakerState = Literal["untested", "closed", "open"]


class AdapterRefused(ValueError):
    """The options of an adapter are invalid; the message says what to change."""


async def _unreported(is_reachable: bool, reason: str) -> None:  # noqa: FBT001
    del is_reachable, reason


@dataclass(frozen=True, slots=True)
class AdapterContext:
    """The machine's time, and where an adapter reports that its acquirer became unreachable or reachable."""

    report: Callable[[bool, str], Awaitable[None]] = _unreported
    """Called after an outage and each echo in it: whether the acquirer is reachable now, and the reason."""
    now_ns: Callable[[], int] = runtime.wall_ns
    """The machine's clock: another system compares it with its own, so it is never that of `paydesk dev`."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


Create = Callable[[str, Mapping[str, object], AdapterContext], Acquirer]


@dataclass(frozen=True, slots=True)
class AcquirerState:
    """The state of a connection as operators see it. It has no secrets."""

    address: str | None = None
    key_id: str | None = None
    breaker: BreakerState | None = None
    reason: str | None = None
    """The reason why the breaker is open."""
    next_echo_ms: int | None = None


@runtime_checkable
class HasState(Protocol):
    """An acquirer that shows operators its connection."""

    @property
    def state(self) -> AcquirerState:
        """Return the state of the connection on this node."""
