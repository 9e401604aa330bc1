"""The present state of a listener: tests wait for it, metrics can report it."""

from __future__ import annotations

from collections.abc import Iterable

from uvicorn.server import ServerState

from paydesk.platform.http.server.connection import BoundedProtocol


class Gauges:
    """The counts of one listener; all are 0 until it serves."""

    def __init__(self) -> None:
        self._state = ServerState()

    def read(self, state: ServerState) -> None:
        """Count what this server has from now on."""
        self._state = state

    @property
    def connections_open(self) -> int:
        """Return the number of open connections."""
        return len(self._state.connections)

    @property
    def requests_running(self) -> int:
        """Return the number of requests whose head has arrived and that are not answered yet."""
        return len(self._state.tasks)

    @property
    def requests_arriving(self) -> int:
        """Return the number of requests of which only a part has arrived."""
        return sum(one.is_arriving for one in self._connections)

    @property
    def connections_stalled(self) -> int:
        """Return the number of connections whose client does not read its answers."""
        return sum(one.is_stalled for one in self._connections)

    @property
    def _connections(self) -> Iterable[BoundedProtocol]:
        return self._state.connections  # type: ignore[return-value]
