"""The test bench: the service, the wire in front of it, and the kit that a terminal is connected to."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from paydesk.core.secrets import Secret
from paydesk.engine.terminals.schemas import Kind
from paydesk_dev import http_client
from paydesk_dev.conformance import service
from paydesk_dev.conformance.shop import Shop
from paydesk_dev.conformance.terminals.exchanges import Log
from paydesk_dev.conformance.terminals.kit import Kit, Patience, Say
from paydesk_dev.conformance.terminals.pairing import approving
from paydesk_dev.conformance.terminals.wire import Wire
from paydesk_dev.http_client import Client


@dataclass(frozen=True, slots=True)
class Bench:
    """A bench that waits for its terminal."""

    kit: Kit
    base_url: str
    device_token: Secret
    folder: Path
    """Deleted with the bench."""


@asynccontextmanager
async def opened(
    listener: socket.socket, patience: Patience, say: Say, kind: Kind = "terminal"
) -> AsyncIterator[Bench]:
    """Run a bench whose terminal connects to the listening socket."""
    with tempfile.TemporaryDirectory(prefix="paydesk-conformance-") as name:
        folder, log = Path(name), Log()
        async with service.running(folder, kind) as running, http_client.session() as http:
            wire = Wire(log, Client(http, running.base_url))
            application = Client(http, running.base_url, running.access_token)
            operator = Client(http, running.base_url, running.operator_token)
            shop = Shop(application, operator, running.seller_id, service.TERMINAL_ID, kind)
            async with wire.listening(listener):
                host, port = listener.getsockname()[:2]
                kit = Kit(log, wire, shop, patience, say)
                base_url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
                with approving(kit):
                    yield Bench(kit, base_url, running.device_token, folder)
