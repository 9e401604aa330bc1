"""The two listeners of a `paydesk serve` process: its own, or those inherited from the supervisor."""

from __future__ import annotations

import socket
from typing import Self

import structlog

from paydesk.platform.process import node
from paydesk.platform.process.siblings import Siblings
from paydesk.platform.settings import Settings

log = structlog.get_logger("serve")


class Listeners:
    """The listeners for clients and for operators, and the `siblings` of the process."""

    def __init__(self, clients: socket.socket, operators: socket.socket, siblings: Siblings | None = None) -> None:
        self.clients, self.operators = clients, operators
        self.siblings = siblings or Siblings()
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
    def inherited(cls, text: str, processes: int) -> Self:
        """Return the listeners whose file descriptors the supervisor of `processes` passed on the command line."""
        number, channel, clients, operators = map(int, text.split(":"))
        siblings = Siblings(number, processes, socket.socket(fileno=channel))
        return cls(socket.socket(fileno=clients), socket.socket(fileno=operators), siblings)

    def ready(self) -> None:
        """Count a listener that accepts connections; once both do, log it and report it to the supervisor."""
        self._ready_count += 1
        if self._ready_count == 2:
            names = [listener.getsockname() for listener in (self.clients, self.operators)]
            clients, operators = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port, *_ in names)
            log.info("listening", clients=clients, operators=operators)
            self.siblings.ready()

    def close(self) -> None:
        """Close both listeners."""
        self.clients.close()
        self.operators.close()
