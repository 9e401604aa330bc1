"""The two listeners of a process of `paydesk serve`, its own or those that its parent holds open for it."""

from __future__ import annotations

import asyncio
import socket
from typing import Self

import structlog

from paydesk import node
from paydesk.settings import Settings

log = structlog.get_logger("serve")


class Listeners:
    """One for clients and one for operators. Of several processes each has a number from 1 and a channel to its parent.

    The channel says upwards when both doors are open; it closes when the process is to end, or when the parent died.
    """

    def __init__(
        self, clients: socket.socket, operators: socket.socket, number: int = 0, channel: socket.socket | None = None
    ) -> None:
        self.clients, self.operators, self.number = clients, operators, number
        self._channel = channel
        self._open = 0

    @classmethod
    def made(cls, settings: Settings, *, beside: bool) -> Self:
        """New ones; `beside` those of another `serve` or without. Raises `StartRefused`."""
        clients = node.listen_at(settings.listen, beside=beside)
        try:
            return cls(clients, node.listen_at(settings.operator_listen, beside=beside))
        except BaseException:
            clients.close()
            raise

    @classmethod
    def inherited(cls, text: str) -> Self:
        """Those that the parent named on the command line, by their descriptors."""
        number, channel, clients, operators = map(int, text.split(":"))
        return cls(
            socket.socket(fileno=clients), socket.socket(fileno=operators), number, socket.socket(fileno=channel)
        )

    def end_with_the_parent(self, stop: asyncio.Event) -> None:
        """Set `stop` when the channel closes: the parent wants it so, or nobody is left to supervise this process."""
        if self._channel is not None:
            self._channel.setblocking(False)
            asyncio.get_running_loop().add_reader(self._channel, self._channel_closed, self._channel, stop)

    def _channel_closed(self, channel: socket.socket, stop: asyncio.Event) -> None:
        asyncio.get_running_loop().remove_reader(channel)
        stop.set()

    def opened(self) -> None:
        """One of the two lets connections in."""
        self._open += 1
        if self._open == 2:
            names = [listener.getsockname() for listener in (self.clients, self.operators)]
            clients, operators = (f"{host}:{port}" for host, port, *_ in names)
            log.info("listening", clients=clients, operators=operators)
            if self._channel is not None:
                self._channel.send(b"ready")

    def close(self) -> None:
        """Close both."""
        self.clients.close()
        self.operators.close()
