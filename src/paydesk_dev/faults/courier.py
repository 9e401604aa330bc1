"""The courier of the development kit, which disturbs the notifications of subscriptions with a fault."""

from __future__ import annotations

from collections.abc import Sequence

from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.delivery.courier import Courier
from paydesk.engine.webhooks.delivery.store import Claimed
from paydesk_dev.faults import kinds as faults
from paydesk_dev.faults import store as fault_store
from paydesk_dev.faults.store import Disturbed


def _signing(claimed: Claimed, secrets: Sequence[Secret], seconds: int) -> tuple[Sequence[Secret], int]:
    return faults.signing(claimed.fault if isinstance(claimed, Disturbed) else None, secrets, seconds)


COURIER = Courier(fault_store.claim, _signing, fault_store.delivered)
