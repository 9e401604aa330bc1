"""Ids, serials and addresses that tests count instead of drawing them.

One random text in a thousand looks like a card number, and a request with it is refused. Counted texts are new within a
process: two processes that share a database must not both take theirs from here.
"""

from __future__ import annotations

from itertools import count

_numbers = count(1)


def number() -> int:
    """Return the next number."""
    return next(_numbers)


def serial() -> str:
    """Return a new serial number of a terminal: 16 characters."""
    return f"N950NCB8{number():08}"


def terminal_id(model: str = "NEWLAND_N950") -> str:
    """Return the id of a new terminal."""
    return f"{model}__{serial()}"


def virtual_id() -> str:
    """Return the id of a new virtual terminal."""
    return f"PAYDESK_VIRTUAL__{number():012}"


def pos_id() -> str:
    """Return the external id of a new point of sale."""
    return f"POS{number():06}"


def email() -> str:
    """Return a new address."""
    return f"shop-{number()}@shop.example"
