"""What `/metrics/database` reads: the readings of all domains."""

from __future__ import annotations

from paydesk.engine.events import store as events
from paydesk.engine.orders import readings as orders
from paydesk.engine.payments import confirmations, inquiries, reversals
from paydesk.engine.payments.refunds import attempts as refunds
from paydesk.engine.terminals import presence
from paydesk.engine.webhooks import readings as webhooks

READINGS = (
    *(jobs.JOB.reading for jobs in (inquiries, reversals, refunds, confirmations)),
    confirmations.NEXT_DEADLINE,
    *webhooks.READINGS,
    *orders.READINGS,
    *events.READINGS,
    *presence.READINGS,
)
