"""The states in which a connection can be evicted for a new connection."""

from __future__ import annotations

from typing import Protocol


class Evictable(Protocol):
    """A connection that tracks its state."""

    client: tuple[str, int] | None

    def enter(self, state: State | None, now: float = 0.0) -> None:
        """Move to a state, since `now`; to None while a request runs."""

    def check_stalled(self, now: float) -> None:
        """Abort the connection if its client has read too little by the write deadline."""

    def close(self) -> None:
        """Close, once what is in the buffer is sent."""

    def abort(self) -> None:
        """Close at once."""


State = dict[Evictable, float]
"""The connections in one state, each with the loop's time at which it entered, the longest-waiting first."""
