"""The address of the proxy of `paydesk dev --proxy`, and the environment variables of programs that use it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from paydesk.platform.process import node
from paydesk_dev.tls.https import Https

LOOPBACK = "127.0.0.1"
"""The variables name this address, so no client needs another one, and no other machine can connect."""
OWN_HOSTS = "localhost,127.0.0.1"
"""The value of NO_PROXY for programs on this machine."""
TAKEN = " Stop the program that uses it, or choose another port with --proxy-port."


@dataclass(frozen=True, slots=True)
class ProxyAccess:
    """The listening socket of the proxy, and the variables by which programs find it."""

    listening: socket.socket
    secure: Https

    @property
    def url(self) -> str:
        """Return the URL for `HTTPS_PROXY`."""
        return f"http://{LOOPBACK}:{self.listening.getsockname()[1]}"

    def variables(self) -> dict[str, str]:
        """Return the environment variables with which an unchanged program calls this service."""
        return {
            "HTTPS_PROXY": self.url,
            "NO_PROXY": OWN_HOSTS,
            "NODE_USE_ENV_PROXY": "1",
            **self.secure.variables(),
        }

    def hint(self) -> str:
        """Return the line with the address."""
        return f"proxy {self.url}, for api.mercadopago.com and auth.mercadopago.com"


@contextlib.contextmanager
def listen(secure: Https, port: int) -> Iterator[ProxyAccess]:
    """Listen for clients of the proxy on a port, 0 for a free one. Raises `StartRefused`."""
    with node.listen(LOOPBACK, port, taken=TAKEN) as listening:
        yield ProxyAccess(listening, secure)
