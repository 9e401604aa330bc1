"""Where a notification may be sent: to public addresses alone, checked at registration and at every connection.

The list of what is not public is our own: that of the standard library lets some of it through.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

from paydesk.operator_events import OperatorEvent

if TYPE_CHECKING:
    from aiohttp.abc import ResolveResult

Address = IPv4Address | IPv6Address
LookUp = Callable[[str, int], Sequence[Any]]
"""Blocking, as `socket.getaddrinfo`: a host and a port give rows whose last item is the socket's address."""

NOT_PUBLIC = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by a carrier's customers
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, the metadata of clouds too
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
        "2002::/16",  # 6to4, which carries any IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
        "4000::/2",  # not assigned, segment routing (5f00::/16)
        "8000::/1",  # not assigned, unique local, link-local, site-local, multicast
    )
)


class AddressRefused(OSError):
    """A host is, or resolves to, an address that nothing is sent to."""

    def __init__(self, host: str, address: Address) -> None:
        super().__init__(f"{host} is at {address}, which is not a public address")
        self.host, self.address = host, address

    def event(self, subject: str, application_id: int, **facts: Any) -> OperatorEvent:
        """Return the operator event of this refusal; of the URL it has the host alone."""
        return OperatorEvent(
            "webhook_address_refused",
            subject,
            "The host of a webhook URL has an address that is not public. Nothing was sent there.",
            body={"application_id": application_id, "host": self.host, "host_address": str(self.address), **facts},
        )


def allowed(address: Address, *, loopback_allowed: bool) -> bool:
    """Whether something may be sent to `address`."""
    if loopback_allowed and address.is_loopback:
        return True
    return not any(address in network for network in NOT_PUBLIC)


def literal(host: str) -> Address | None:
    """The address that `host` is, or None when it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


class CheckedResolver:
    """Resolves a name, refuses it when *any* address of the answer is not allowed, and hands on what it checked.

    aiohttp connects to these very addresses, so that a second answer of the name server can't change anything. The
    look-ups have threads of their own: a name server that hangs holds nobody else up.
    """

    def __init__(self, *, loopback_allowed: bool, look_ups_max: int = 8, look_up: LookUp = socket.getaddrinfo) -> None:
        self._loopback_allowed = loopback_allowed
        self._look_up = look_up
        self._threads = ThreadPoolExecutor(look_ups_max, "webhook-look-up")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host`, all of them allowed. Raises `OSError`, of which `AddressRefused` is one."""
        loop = asyncio.get_running_loop()
        rows = await loop.run_in_executor(self._threads, self._look_up, host, port)
        found = dict.fromkeys(ip_address(str(row[4][0]).partition("%")[0]) for row in rows)
        self.check(host, list(found))
        return [_result(host, port, address) for address in found if family in {socket.AF_UNSPEC, _family(address)}]

    def check(self, host: str, addresses: Sequence[Address]) -> None:
        """Raise `AddressRefused` unless every one of the addresses is allowed."""
        for address in addresses:
            if not allowed(address, loopback_allowed=self._loopback_allowed):
                raise AddressRefused(host, address)

    def open_socket(self, info: Any) -> socket.socket:
        """The socket of a connection, for aiohttp's `socket_factory`.

        The last check: an address that stands in the URL itself never meets the resolver.
        """
        family, kind, protocol, _, destination = info
        self.check(destination[0], [ip_address(str(destination[0]).partition("%")[0])])
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        return opened

    async def close(self) -> None:
        """End the threads, without waiting for look-ups that hang."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


def _result(host: str, port: int, address: Address) -> ResolveResult:
    return {
        "hostname": host,
        "host": str(address),
        "port": port,
        "family": _family(address),
        "proto": 0,
        "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    }
