"""Ports on which programs will listen that a test has not started yet."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

FIRST, LAST = 20_000, 31_999
"""Below the ports that systems give out by themselves: none of these is taken meanwhile by a connection of a client."""

_tried = count(random.SystemRandom().randrange(LAST - FIRST))


def free_port() -> int:
    """Return a port on loopback on which nothing listens. It is new each time, and not one of another process's tests.

    `pytest-xdist` numbers its processes: gw0, gw1, and so on; each takes every eighth port.
    """
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
    while True:
        port = FIRST + (next(_tried) * 8 + number) % (LAST - FIRST + 1)
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                held.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


@contextmanager
def refusing_port() -> Iterator[int]:
    """Yield a port on loopback that refuses connections until a server of the test listens on it.

    It is held meanwhile: no other program gets it, but a server that may reuse an address.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
