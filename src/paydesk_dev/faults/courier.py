"""The courier of the development kit, which disturbs the notifications of subscriptions with a fault."""

from __future__ import annotations

from paydesk.engine.webhooks.delivery.courier import Courier
from paydesk_dev.faults import kinds as faults
from paydesk_dev.faults import store as fault_store
from paydesk_dev.faults.store import Disturbed

COURIER = Courier(
    claim=fault_store.claim,
    signing=lambda claimed, secrets, seconds: faults.signing(
        claimed.fault if isinstance(claimed, Disturbed) else None, secrets, seconds
    ),
    delivered=fault_store.delivered,
)
