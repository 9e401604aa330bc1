"""The TLS listener of `paydesk dev --tls`: its sockets, its certificate, and what clients need to trust it.

It listens on the addresses of `localhost`, the name in its certificate.
"""

from __future__ import annotations

import contextlib
import errno
import shlex
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paydesk.platform.http.server import server
from paydesk.platform.process import node
from paydesk.platform.process.node import StartRefused
from paydesk_dev.tls import ca_bundle
from paydesk_dev.tls.connections import Tls

IPV6_LOOPBACK = "::1"
IPV4_HOSTS, IPV6_HOSTS = ("127.0.0.1", "localhost", "0.0.0.0"), (IPV6_LOOPBACK, "::")  # noqa: S104 - set by an explicit --host
FREE_PORT_ATTEMPTS = 20
TAKEN = " Stop the program that uses it, or choose another port with --tls-port."


@dataclass(frozen=True, slots=True)
class Https:
    """The TLS listener of a service, and what clients need."""

    tls: Tls
    address: tuple[str, int]
    """Where the listener accepts connections on this machine: an IP address and a port."""
    base_url: str
    ca_file: Path
    ca_bundle_file: Path
    """The same certificate and those of public authorities, for variables that replace what a program trusts."""

    def variables(self) -> dict[str, str]:
        """Return the environment variables with which programs trust the certificate."""
        bundle = str(self.ca_bundle_file)
        return {"SSL_CERT_FILE": bundle, "REQUESTS_CA_BUNDLE": bundle, "NODE_EXTRA_CA_CERTS": str(self.ca_file)}

    def hint(self) -> str:
        """Return the line with the address and the certificate."""
        return f"https {self.base_url}, CA certificate {self.ca_file}"


def export(variables: dict[str, str]) -> str:
    """Return the line of a shell that sets the variables."""
    return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())


@contextlib.contextmanager
def listen(host: str, port: int, folder: Path) -> Iterator[Https]:
    """Listen for TLS on a port, 0 for a free one, with a new certificate in `folder`; close the sockets at the end.

    Raises `StartRefused`.
    """
    if host not in (*IPV4_HOSTS, *IPV6_HOSTS):
        raise StartRefused(
            f"--tls does not work with --host {host}: its certificate is for localhost only. Use 127.0.0.1, or 0.0.0.0"
            " to listen on other interfaces as well."
        )
    # Takes long to import, and only `--tls` needs it.
    from paydesk_dev.tls import certificates

    with contextlib.ExitStack() as closing:
        sockets = _bind(host, port)
        for one in sockets:
            closing.enter_context(one)
        authority = certificates.find_or_create(certificates.user_folder())
        context = authority.server_context(folder)
        bound: int = sockets[0].getsockname()[1]
        loopback = IPV6_LOOPBACK if host in IPV6_HOSTS else "127.0.0.1"
        bundle = ca_bundle.write(folder, authority.file)
        yield Https(Tls(sockets, context), (loopback, bound), f"https://localhost:{bound}", authority.file, bundle)


def vendor_hosts() -> frozenset[str]:
    """Return the vendor's host names, for which the certificate is valid too."""
    from paydesk_dev.tls import certificates

    return frozenset(certificates.VENDOR_HOSTS)


def _bind(host: str, port: int) -> tuple[socket.socket, ...]:
    """Return a listening socket, and for an IPv4 host one on the IPv6 loopback address with the same port.

    Clients that try only the first address of `localhost` may use either. Raises `StartRefused`.
    """
    for _ in range(FREE_PORT_ATTEMPTS):
        first = node.listen(host, port, taken=TAKEN)
        if host in IPV6_HOSTS:
            return (first,)
        bound: int = first.getsockname()[1]
        try:
            return first, server.bind(IPV6_LOOPBACK, bound)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return (first,)  # This machine has no IPv6.
            first.close()
        if port:
            break
    raise StartRefused(f"Cannot listen on [{IPV6_LOOPBACK}]:{port}: another program uses it.{TAKEN}")
