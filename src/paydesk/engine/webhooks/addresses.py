"""The check that webhooks go to public addresses only, or to allowed private ones: at registration and connection.

The list of non-public networks is our own, because `ipaddress.is_global` accepts some of them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any

from paydesk.platform.operator_events import OperatorEvent

if TYPE_CHECKING:
    from aiohttp.abc import ResolveResult

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Lookup = Callable[[str, int], Sequence[Any]]
"""Like `socket.getaddrinfo`: blocks, and returns rows whose last item is the socket address."""

NOT_PUBLIC = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # metadata and health probes of Azure, in a public range
        "169.254.0.0/16",  # link-local, including cloud metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # automatic multicast tunnelling
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
        "::/3",  # unspecified, loopback, IPv4-mapped and -compatible, NAT64 (64:ff9b::/96, 64:ff9b:1::/48), discard
        "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which embeds any IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
        "4000::/2",  # not assigned, segment routing (5f00::/16)
        "8000::/1",  # not assigned, unique local, link-local, site-local, multicast
    )
)


PRIVATE = tuple(
    ip_network(text) for text in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)
"""Networks of which the setting `webhook_private_networks` may allow a part: never loopback or link-local ones."""

METADATA = tuple(
    ip_network(text)
    for text in (
        "100.100.100.200/32",  # Alibaba Cloud
        "fd00:ec2::/32",  # Amazon
        "fd20:ce::/32",  # Google Cloud
        "fd00:42::/32",  # Scaleway
        "fd00:c1::/32",  # Oracle
    )
)
"""Private addresses at which clouds give credentials to machines; the others are link-local. Never allowed."""


class AddressRefused(OSError):
    """A host is, or resolves to, an address that is not public."""

    def __init__(self, host: str, address: Address) -> None:
        super().__init__(f"{host} is at {address}, which is not a public address")
        self.host, self.address = host, address

    def event(self, subject: str, application_id: int, **facts: Any) -> OperatorEvent:
        """Return the operator event of this refusal. It contains the URL's host only."""
        return OperatorEvent(
            "webhook_address_refused",
            subject,
            "The host of a webhook URL has an address that is not public. Nothing was sent there.",
            body={"application_id": application_id, "host": self.host, "host_address": str(self.address), **facts},
        )


def allowed(address: Address, *, loopback_allowed: bool, private_networks: Collection[Network] = ()) -> bool:
    """Return whether webhooks may be sent to `address`. `private_networks`: the private ones that are allowed."""
    if loopback_allowed and address.is_loopback:
        return True
    if not _is_in(address, NOT_PUBLIC):
        return True
    return _is_in(address, private_networks) and _is_in(address, PRIVATE) and not _is_in(address, METADATA)


def _is_in(address: Address, networks: Collection[Network]) -> bool:
    return any(address in network for network in networks)


def literal(host: str) -> Address | None:
    """Return the address if `host` is an IP literal without a zone, or None if it is a name or invalid."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return None if isinstance(address, IPv6Address) and address.scope_id is not None else address


class CheckedResolver:
    """Resolves a name and refuses it if *any* of its addresses is not allowed.

    aiohttp connects to the addresses that it returns, so DNS rebinding has no effect. Lookups run in threads of their
    own, so a name server that does not respond delays nothing else.
    """

    def __init__(
        self,
        *,
        loopback_allowed: bool,
        private_networks: Collection[str] = (),
        lookups_max: int = 8,
        lookup: Lookup | None = None,
    ) -> None:
        self.loopback_allowed = loopback_allowed
        self._private_networks = tuple(ip_network(text) for text in private_networks)
        self._lookup = lookup or socket.getaddrinfo
        self._threads = ThreadPoolExecutor(lookups_max, "webhook-lookup")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of `host`. Raises `AddressRefused` unless all are allowed, `OSError` if it has none."""
        loop = asyncio.get_running_loop()
        rows = await loop.run_in_executor(self._threads, self._lookup, host, port)
        found = dict.fromkeys(ip_address(str(row[4][0]).partition("%")[0]) for row in rows)
        self.check(host, list(found))
        return [
            {
                "hostname": host,
                "host": str(address),
                "port": port,
                "family": _family(address),
                "proto": 0,
                "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            }
            for address in found
            if family in {socket.AF_UNSPEC, _family(address)}
        ]

    def check(self, host: str, addresses: Sequence[Address]) -> None:
        """Raise `AddressRefused` unless all addresses are allowed."""
        for address in addresses:
            if not allowed(address, loopback_allowed=self.loopback_allowed, private_networks=self._private_networks):
                raise AddressRefused(host, address)

    def open_socket(self, info: Any) -> socket.socket:
        """Return a socket for a connection (aiohttp's `socket_factory`). Raises `AddressRefused`.

        This covers IP literals in the URL, which aiohttp does not pass to the resolver.
        """
        family, kind, protocol, _, destination = info
        self.check(destination[0], [ip_address(str(destination[0]).partition("%")[0])])
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        return opened

    async def close(self) -> None:
        """End the threads without waiting for running lookups."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6
