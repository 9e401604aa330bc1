"""Points of a delivery's life: when it is claimed, before it is sent, when it is signed, and after its success."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.delivery import outcome_store, store
from paydesk.engine.webhooks.delivery.sending import Sender
from paydesk.engine.webhooks.delivery.store import Claimed, Target
from paydesk.platform.jobs import Claim
from paydesk.platform.storage.database import Database, Transaction


def _signing(_: Claimed, secrets: Sequence[Secret], seconds: int) -> tuple[Sequence[Secret], int]:
    return secrets, seconds


@dataclass(frozen=True, slots=True)
class Courier:
    """The worker's actions at these points. The development kit has a courier that disturbs deliveries."""

    claim: Callable[[Transaction, int, str, Target, Claim], Awaitable[list[Claimed]]] = store.claim
    """Claims due deliveries of a seller and a subscription. `signing` and `delivered` get the rows it returned."""
    instead: Callable[[Database, Sender, Claimed], Coroutine[Any, Any, bool] | None] = lambda *_: None
    """Returns what is done before a delivery is sent, or in its place; its result is whether it is to be sent."""
    signing: Callable[[Claimed, Sequence[Secret], int], tuple[Sequence[Secret], int]] = _signing
    """Returns the secrets and the time, in seconds, that sign the attempt."""
    delivered: Callable[[Transaction, Claimed, int], Awaitable[None]] = outcome_store.delivered
    """Records the success of an attempt of the schedule, at a time of the service's clock."""
