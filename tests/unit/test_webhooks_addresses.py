"""Allowed addresses and URLs of webhooks, as tables."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from paydesk.engine.webhooks.addresses import AddressRefused, CheckedResolver, allowed
from paydesk.engine.webhooks.urls import address_fault, faults, with_parameters
from tables import each

PORTS = (443, 8443)


@each(
    "address",
    ["0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255",  # noqa: S104 - refused, not bound
     "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1",
     "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1",
     "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
     "255.255.255.255", "::", "::1", "::7f00:1", "::ffff:10.0.0.1", "::ffff:93.184.216.34", "::ffff:0:127.0.0.1",
     "64:ff9b::a00:1", "64:ff9b::5db8:d822", "64:ff9b:1::1", "100::1", "2001::1", "2001:2::1", "2001:10::1",
     "2001:20::1", "2001:db8::1", "2002:a00:1::1", "2002:5db8:d822::1", "3fff::1", "5f00::1", "fc00::1",
     "fd12:3456::1", "fe80::1", "fec0::1", "ff02::1"],
)  # fmt: skip
def test_a_non_public_address_is_not_allowed(address: str) -> None:
    """Private and special addresses, and those that embed another address."""
    assert not allowed(ip_address(address), loopback_allowed=False)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "1.1.1.1", "100.63.255.255", "100.128.0.1", "172.32.0.1", "2606:4700::1111"]
)
def test_a_public_address_is_allowed(address: str) -> None:
    """Public addresses, up to the edges of the non-public networks."""
    assert allowed(ip_address(address), loopback_allowed=False)


@pytest.mark.parametrize(
    ("address", "expected"), [("127.0.0.1", True), ("::1", True), ("10.0.0.1", False), ("169.254.169.254", False)]
)
def test_development_also_allows_loopback_only(address: str, expected: bool) -> None:  # noqa: FBT001 - a row of a table
    """Private addresses stay refused when loopback is allowed."""
    assert allowed(ip_address(address), loopback_allowed=True) is expected


@each(
    "address, expected",
    [
        *(("10.20.0.1", True), ("10.20.255.254", True), ("10.21.0.1", False), ("192.168.7.1", True)),
        *(("fd12:3456::1", True), ("fd12:3457::1", False), ("93.184.216.34", True)),
        # Listed, and refused all the same.
        *(("127.0.0.1", False), ("::1", False), ("0.0.0.1", False), ("255.255.255.255", False)),
        *(("169.254.169.254", False), ("fe80::1", False), ("224.0.0.1", False), ("168.63.129.16", False)),
        *(("100.100.100.200", False), ("192.0.0.192", False), ("fd00:ec2::254", False), ("fd20:ce::254", False)),
        *(("::ffff:10.20.0.1", False), ("64:ff9b::a14:1", False), ("2002:a14:1::1", False)),
    ],
)
def test_private_networks_that_are_named_are_allowed(address: str, expected: bool) -> None:  # noqa: FBT001 - a row of a table
    """And nothing but private addresses, whatever is named: neither this machine, its link, nor a cloud's metadata."""
    named = ("10.20.0.0/16", "192.168.0.0/16", "fd12:3456::/32", "127.0.0.0/8", "169.254.0.0/16", "0.0.0.0/8",
             "224.0.0.0/3", "168.63.129.16/32", "100.64.0.0/10", "192.0.0.0/24", "::/3", "2002::/16", "fd00::/24",
             "fd20::/16", "fe80::/10")  # fmt: skip
    networks = [ip_network(text) for text in named]
    assert allowed(ip_address(address), loopback_allowed=False, private_networks=networks) is expected


def _lookup(*addresses: str) -> Any:
    def lookup(_host: str, port: int) -> Sequence[Any]:
        # As socket.getaddrinfo: a row for each kind of socket, and an IPv6 address with two more fields.
        return [
            (
                socket.AF_INET6 if ":" in one else socket.AF_INET,
                kind,
                0,
                "",
                (one, port, *((0, 0) if ":" in one else ())),
            )
            for one in addresses
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)
        ]

    return lookup


async def test_resolver_returns_the_checked_addresses() -> None:
    """Each address once and as a literal, so that no second lookup happens."""
    resolver = CheckedResolver(loopback_allowed=False, lookup=_lookup("93.184.216.34", "2606:4700::1111"))
    found = await resolver.resolve("shop.example", 443)
    await resolver.close()
    assert [(one["host"], one["port"], one["hostname"]) for one in found] == [
        ("93.184.216.34", 443, "shop.example"),
        ("2606:4700::1111", 443, "shop.example"),
    ]


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["93.184.216.34", "fe80::1%eth0"]])
async def test_resolver_refuses_the_whole_answer_for_one_address(addresses: list[str]) -> None:
    """One non-public address is enough to refuse the name."""
    resolver = CheckedResolver(loopback_allowed=False, lookup=_lookup(*addresses))
    with pytest.raises(AddressRefused, match=r"shop\.example is at .*, which is not a public address"):
        await resolver.resolve("shop.example", 443)
    await resolver.close()


def test_socket_is_refused_for_an_address_in_the_url() -> None:
    """An IP literal bypasses the resolver and is checked when its socket is opened."""
    resolver = CheckedResolver(loopback_allowed=False)
    with pytest.raises(AddressRefused):
        resolver.open_socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443)))


@each(
    "url, fault",
    [
        ("http://shop.example/", "must be https"),
        ("ftp://shop.example/", "must be https"),
        ("shop.example", "must be https"),
        ("https://", "must have a host"),
        ("https:///hooks", "must have a host"),
        ("https://shop example/", "must be at most 500 visible ASCII characters"),
        ("https://café.example/", "must be at most 500 visible ASCII characters"),
        ("https://shop.example\\@10.0.0.1/", "must be at most 500 visible ASCII characters"),
        ("https://shop.example/" + "x" * 500, "must be at most 500 visible ASCII characters"),
        ("https://sh%6fp.example/", "must have a host"),
        ("https://[::1/", "must be a URL"),
        ("https://shop.example:99999/", "must be a URL"),
        ("https://me:pw@shop.example/", "must not contain a user or a password"),
        ("https://@shop.example/", "must not contain a user or a password"),
        ("https://shop.example/#top", "must not have a fragment"),
        ("https://shop.example/#", "must not have a fragment"),
        ("https://shop.example:8080/", "must have one of the ports 443, 8443"),
        ("https://shop.example/?data.id=1", "must not have a parameter data.id of its own"),
        ("https://shop.example/?data%2Eid=1", "must not have a parameter data.id of its own"),
        ("https://shop.example/?a=1&type", "must not have a parameter type of its own"),
    ],
)
def test_an_invalid_url_has_its_fault(url: str, fault: str) -> None:
    """Each rule for production has a fault of its own."""
    (found,) = faults(url, ports=PORTS, loopback_allowed=False)
    assert found.startswith(fault)


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example",
        "https://shop.example:8443/hooks?a=%C3%A9&types=x",
        "https://xn--caf-dma.example/",
        "https://93.184.216.34/",
        "https://[2606:4700::1111]/",
    ],
)
def test_a_valid_url_has_no_fault(url: str) -> None:
    """URLs at the limits of the rules are valid."""
    assert faults(url, ports=PORTS, loopback_allowed=False) == []


def test_development_allows_http_and_any_port() -> None:
    """A receiver on a developer's machine is a plain server on any port."""
    assert faults("http://localhost:3000/hooks", ports=PORTS, loopback_allowed=True) == []


async def test_address_fault_checks_names_and_literals() -> None:
    """Names are resolved; IP literals get the same check."""
    resolver = CheckedResolver(loopback_allowed=False, lookup=_lookup("93.184.216.34"))
    assert await address_fault("https://shop.example/", resolver) is None
    for url in ("https://10.0.0.1/", "https://[::1]/"):
        with pytest.raises(AddressRefused):
            await address_fault(url, resolver)
    await resolver.close()


async def test_a_name_that_cannot_be_resolved_is_a_fault() -> None:
    """The lookup fails."""

    def lookup(_host: str, _port: int) -> Sequence[Any]:
        raise socket.gaierror("unknown")

    resolver = CheckedResolver(loopback_allowed=False, lookup=lookup)
    assert await address_fault("https://shop.example/", resolver) == "must have a host that can be resolved"
    await resolver.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://shop.example", "/?data.id=ordx&type=order"),
        ("https://shop.example/a?", "/a?data.id=ordx&type=order"),
        ("https://shop.example/a?b=%2f+c&", "/a?b=%2f+c&data.id=ordx&type=order"),
        ("https://shop.example/a?b", "/a?b&data.id=ordx&type=order"),
    ],
)
def test_own_parameters_stay_unchanged(url: str, expected: str) -> None:
    """Our two parameters are appended to the URL's own, byte for byte."""
    assert with_parameters(url, "ordx").raw_path_qs == expected
