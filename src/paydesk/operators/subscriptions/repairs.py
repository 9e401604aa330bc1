"""Repairs that an operator makes before notifications that were not delivered are sent again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from paydesk.platform.storage.database import Transaction

REPAIR = "Repair the receiver"


async def _none(_: Transaction) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Repairs:
    """The repairs in place of one of the receiver. The development kit has such repairs, production has none."""

    of_subscriptions: Callable[[Transaction], Awaitable[Mapping[str, str]]] = _none
    """Returns the repairs of subscriptions by their ids."""
    of_errors: Mapping[str, str] = field(default_factory=dict)
    """The repairs of deliveries by the errors of their last attempts."""
