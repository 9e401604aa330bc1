"""URLs by which a subscription could make the service reach into its own network, and the name server that helps them.

The name server answers for the names below; every other name is looked up as usual.
"""

# ruff: noqa: RUF001 - the letters that only look like ASCII are the point

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

PUBLIC, PRIVATE = "93.184.216.34", "10.0.0.1"

NAMES: dict[str, tuple[str, ...]] = {
    "shop.example": (PUBLIC, "2606:4700::1111"),
    "localhost": ("127.0.0.1", "::1"),
    "localhost.": ("127.0.0.1",),
    "localhost.localdomain": ("127.0.0.1",),
    "shop.localhost": ("127.0.0.1",),
    "ip6-localhost": ("::1",),
    "intranet.example": (PRIVATE,),
    "metadata.google.internal": ("169.254.169.254",),
    "azure.example": ("168.63.129.16",),
    "mixed.example": (PUBLIC, PRIVATE),
    "mixed-six.example": (PUBLIC, "fd00::1"),
    "mapped.example": ("::ffff:127.0.0.1",),
    "nat64.example": ("64:ff9b::7f00:1",),
    "sixtofour.example": ("2002:7f00:1::1",),
    "scoped.example": ("fe80::1%eth0",),
    "zero.example": ("0.0.0.0",),  # noqa: S104 - an answer of a name server
    "xn--ocalhost-7r3e.example": ("127.0.0.1",),
    "7f000001.sslip.example": ("127.0.0.1",),
}

HOSTILE: dict[str, tuple[str, ...]] = {
    "addresses of version 4": (
        "https://0.0.0.0/",
        "https://0.1.2.3/",
        "https://10.0.0.1/",
        "https://100.64.0.1/",
        "https://100.100.100.200/latest/meta-data/",
        "https://127.0.0.1/",
        "https://127.255.255.254/",
        "https://168.63.129.16/machine?comp=goalstate",
        "https://169.254.169.254/latest/meta-data/",
        "https://172.16.0.1/",
        "https://172.31.255.255/",
        "https://192.0.0.192/opc/v2/",
        "https://192.0.2.1/",
        "https://192.88.99.1/",
        "https://192.168.1.1/",
        "https://198.18.0.1/",
        "https://198.51.100.1/",
        "https://203.0.113.1/",
        "https://224.0.0.1/",
        "https://240.0.0.1/",
        "https://255.255.255.255/",
    ),
    "addresses of version 6": (
        "https://[::]/",
        "https://[::1]/",
        "https://[0:0:0:0:0:0:0:1]/",
        "https://[100::1]/",
        "https://[2001:db8::1]/",
        "https://[3fff::1]/",
        "https://[5f00::1]/",
        "https://[fc00::1]/",
        "https://[fd00:ec2::254]/latest/meta-data/",
        "https://[fd20:ce::254]/computeMetadata/v1/",
        "https://[fe80::1]/",
        "https://[fec0::1]/",
        "https://[ff02::1]/",
    ),
    "addresses within addresses": (
        "https://[::127.0.0.1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://[::ffff:0:127.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[64:ff9b::169.254.169.254]/",
        "https://[64:ff9b:1::1]/",
        "https://[2001:0:53aa:64c::80ff:fffe]/",
        "https://[2002:7f00:1::]/",
        "https://[2002:a9fe:a9fe::1]/",
    ),
    "other forms of an address": (
        "https://2130706433/",
        "https://3232235777/",
        "https://0x7f000001/",
        "https://0X7F.1/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://017700000001/",
        "https://127.1/",
        "https://127.0.1/",
        "https://127.0.0.01/",
        "https://127.0.0.0x1/",
        "https://127.0.0.1./",
        "https://127.0.0.1../",
        "https://0/",
        "https://0x/",
        "https://1.1/",
        "https://4294967297/",
    ),
    "names": (
        "https://localhost/",
        "https://LOCALHOST/",
        "https://localhost./",
        "https://localhost.localdomain/",
        "https://shop.localhost/",
        "https://ip6-localhost/",
        "https://intranet.example/",
        "https://metadata.google.internal/computeMetadata/v1/",
        "https://azure.example/",
        "https://mixed.example/",
        "https://mixed-six.example/",
        "https://mapped.example/",
        "https://nat64.example/",
        "https://sixtofour.example/",
        "https://scoped.example/",
        "https://zero.example/",
        "https://xn--ocalhost-7r3e.example/",
        "https://7f000001.sslip.example/",
        "https://no-such-name.invalid/",
        f"https://{'a' * 64}.example/",
        "https://shop..example/",
        "https://.shop.example/",
    ),
    "letters and digits that only look like ASCII": (
        "https://ⓛocalhost/",
        "https://ｌｏｃａｌｈｏｓｔ/",
        "https://loсalhost/",
        "https://localhost。/",
        "https://１２７.0.0.1/",
        "https://127。0。0。1/",
        "https://①②⑦.0.0.1/",
        "https://local\u00adhost/",
        "https://local\u200bhost/",
        "https://%6cocalhost/",
        "https://%31%32%37.0.0.1/",
        "https://shop.example%00.localhost/",
        "https://[::１]/",
    ),
    "zones": (
        "https://[fe80::1%eth0]/",
        "https://[fe80::1%25eth0]/",
        "https://[::1%lo]/",
        "https://[2606:4700::1111%25eth0]/",
        "https://[v1.shop.example]/",
    ),
    "users, passwords and confusing parts": (
        "https://ana@shop.example/",
        "https://ana:secret@shop.example/",
        "https://@shop.example/",
        "https://127.0.0.1@shop.example/",
        "https://shop.example@127.0.0.1/",
        "https://shop.example:443@127.0.0.1/",
        "https://shop.example;@127.0.0.1/",
        "https://shop.example,127.0.0.1/",
        "https://shop.example;127.0.0.1/",
    ),
    "schemes": (
        "http://shop.example/",
        "http://127.0.0.1:8378/operator/v1/operators",
        "ftp://shop.example/",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "ws://shop.example/",
        "//127.0.0.1/",
    ),
    "ports": (
        "https://shop.example:0/",
        "https://shop.example:22/",
        "https://shop.example:80/",
        "https://shop.example:5432/",
        "https://shop.example:6379/",
        "https://shop.example:8377/",
        "https://shop.example:8444/",
    ),
}
"""By trick."""

UNPARSED: tuple[str, ...] = ("https:127.0.0.1/", "https:///127.0.0.1/", "file:///etc/passwd",
                             "unix:///run/docker.sock", "data:text/plain,x", "shop.example", "", "https://",
                             "https:////127.0.0.1/", "https://[::1/", "https://[127.0.0.1]/",
                             "https://shop.example:65536/", "https://shop.example:-1/", "https://shop.example:4a3/",
                             "https://shop.example\\@127.0.0.1/", "https://127.0.0.1\t/",
                             "https://shop.example\r\nX-Injected: 1/", " https://127.0.0.1/",
                             "https://shop.example/#@127.0.0.1/", "https://shop.example/?data.id=ORD1",
                             f"https://shop.example/{'x' * 500}")  # fmt: skip
"""Refused at registration and at changes alone: they have no host, are no URLs, or lead to the host that they name."""


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, ...]]:
    """Answer for the names above; return them, so that a test can change the answers."""
    answers, ask = dict(NAMES), socket.getaddrinfo

    def lookup(host: Any, port: Any, *args: Any, **kwargs: Any) -> Sequence[Any]:
        name = host.lower() if isinstance(host, str) else host
        return rows_of(answers[name], port) if name in answers else ask(host, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return answers


def rows_of(addresses: Sequence[str], port: Any) -> Sequence[Any]:
    """Return the addresses as `socket.getaddrinfo` does."""
    return [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (one, port or 0, 0, 0))
        if ":" in one
        else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port or 0))
        for one in addresses
    ]


_watching: list[Callable[[Any], None]] = []


@contextmanager
def connections() -> Iterator[list[Any]]:
    """Yield a list that gets the IP address and port of each connection that this process begins."""
    made: list[Any] = []
    if not _watching:
        sys.addaudithook(_hear)
        _watching.append(lambda _: None)
    _watching.append(made.append)
    try:
        yield made
    finally:
        _watching.remove(made.append)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        for watcher in _watching:
            watcher(arguments[1])
