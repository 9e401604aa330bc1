"""The two listeners of a `paydesk serve` process: its own, or those inherited from the supervisor."""

from __future__ import annotations

import asyncio
import socket
from typing import Self

import structlog

from paydesk.platform.process import node
from paydesk.platform.settings import Settings

log = structlog.get_logger("serve")


class Listeners:
    """The listeners for clients and for operators. Each of several processes has a number from 1 and a channel.

    The process sends `ready` on the channel once both listeners accept connections. The supervisor closes the channel,
    also by dying, to end the process.
    """

    def __init__(
        self, clients: socket.socket, operators: socket.socket, number: int = 0, channel: socket.socket | None = None
    ) -> None:
        self.clients, self.operators, self.number = clients, operators, number
        self._channel = channel
        self._ready_count = 0

    @classmethod
    def bind(cls, settings: Settings, *, beside: bool) -> Self:
        """Bind new listeners; `beside`: another `serve` may share the ports. Raises `StartRefused`."""
        clients = node.listen_at(settings.listen, beside=beside)
        try:
            return cls(clients, node.listen_at(settings.operator_listen, beside=beside))
        except BaseException:
            clients.close()
            raise

    @classmethod
    def inherited(cls, text: str) -> Self:
        """Return the listeners whose file descriptors the supervisor passed on the command line."""
        number, channel, clients, operators = map(int, text.split(":"))
        return cls(
            socket.socket(fileno=clients), socket.socket(fileno=operators), number, socket.socket(fileno=channel)
        )

    def stop_with_supervisor(self, stop: asyncio.Event) -> None:
        """Set `stop` when the supervisor closes the channel or dies."""
        if self._channel is not None:
            self._channel.setblocking(False)
            asyncio.get_running_loop().add_reader(self._channel, self._channel_closed, self._channel, stop)

    def _channel_closed(self, channel: socket.socket, stop: asyncio.Event) -> None:
        asyncio.get_running_loop().remove_reader(channel)
        stop.set()

    def ready(self) -> None:
        """Count a listener that accepts connections; once both do, log it and send `ready` to the supervisor."""
        self._ready_count += 1
        if self._ready_count == 2:
            names = [listener.getsockname() for listener in (self.clients, self.operators)]
            clients, operators = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port, *_ in names)
            log.info("listening", clients=clients, operators=operators)
            if self._channel is not None:
                self._channel.send(b"ready")

    def close(self) -> None:
        """Close both listeners."""
        self.clients.close()
        self.operators.close()
