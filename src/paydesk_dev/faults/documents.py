"""What the operator interface says of faults: the field of a subscription, and how notifications are repaired."""

from __future__ import annotations

from collections.abc import Mapping

from paydesk.operators.subscriptions.handlers import SubscriptionDocument
from paydesk.operators.subscriptions.repairs import Repairs
from paydesk.platform.storage.database import Transaction
from paydesk_dev.extras import Extra
from paydesk_dev.faults import store as fault_store
from paydesk_dev.faults.kinds import DROPPED, Fault


async def _repairs(tx: Transaction) -> Mapping[str, str]:
    return dict.fromkeys(await fault_store.all_faults(tx), "Clear the fault that is set for the subscription")


FAULT = Extra(SubscriptionDocument, "fault", Fault | None, lambda _, tx, __: fault_store.all_faults(tx))
REPAIRS = Repairs(_repairs, {DROPPED: "Clear the fault of its subscription"})
