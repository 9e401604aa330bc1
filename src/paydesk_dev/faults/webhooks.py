"""Faults of webhooks: what goes wrong with the first attempt of a delivery. Retries and resends are never disturbed.

What is held, dropped or forged takes no slot of its receiver: its claim lasts until it is over, and is then released,
so that it is claimed again and sent. A restart releases it too.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from paydesk.core import ids
from paydesk.core.faults import ANY_REQUEST, HELD_SECONDS_MAX, Fault, FaultRefused
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.delivery import outcome_store, recording, send, store
from paydesk.engine.webhooks.delivery.courier import Courier
from paydesk.engine.webhooks.delivery.sending import Outcome, Sender
from paydesk.engine.webhooks.delivery.store import Claimed, Target
from paydesk.engine.webhooks.schedule import PENDING
from paydesk.engine.webhooks.schemas import ACTIONS_OF, TOPIC
from paydesk.engine.webhooks.signatures.signature import PREFIX
from paydesk.platform.jobs import Claim
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Database, Transaction
from paydesk_dev.faults.active import BODY_CHARACTERS_MAX, Active, Faults, Firing, RequestFacts

OLD_SECONDS = 600
"""How old the time of an `old_timestamp` is: twice what receivers accept."""
FIRED_MAX = 10_000
HELD_MAX = 500
"""The deliveries that are held back at once: each is a task, and keeps its claim. Further ones are sent."""
PAID = ("order.processed", "order.refunded", "order.refund_failed")
DROPPED = "Not sent: dropped by a fault"
"""The error of the attempt that records a dropped notification."""
FOLLOWED = ("order.created", "order.at_terminal", "order.action_required")
"""The actions after which a newer version usually follows, which can overtake it."""
ACTIONS = tuple(action for actions in ACTIONS_OF.values() for action in actions)
_ANY_SECRET = Secret(PREFIX + b64encode(bytes(32)).decode())
_SIGNATURES = ("X-Signature", "webhook-signature")

HOLD = f"""
UPDATE deliveries SET claimed_until_ms = claimed_until_ms + $4
 WHERE seller_id = $1 AND delivery_id = $2 AND attempts = $3 AND {PENDING}
"""

# Due again at once; the schedule does not count the attempt that succeeded.
REPEAT = f"""
UPDATE deliveries SET next_ms = $4, claimed_until_ms = 0, uncounted = uncounted + 1
 WHERE seller_id = $1 AND delivery_id = $2 AND attempts = $3 AND {PENDING}
"""

# Of the order $7: the first version after the delivery $8, which is held.
CLAIM_NEWER = store.claims_due(f"""due.order_id = $7 AND NOT EXISTS (
              SELECT 1 FROM deliveries AS earlier
               WHERE earlier.seller_id = $1 AND earlier.order_id = due.order_id AND earlier.subscription_id = $2
                 AND earlier.version < due.version AND earlier.{PENDING} AND earlier.delivery_id <> $8)""")[TOPIC]


class _Notified(msgspec.Struct):
    action: str
    date_created: str
    live_mode: bool = False


def checked(fault: Fault) -> Fault:
    """Return the fault, if notifications have its request and its kinds can disturb them. Raises `FaultRefused`."""
    names = [kind.name for kind in fault.kinds]
    if fault.request not in (ANY_REQUEST, *ACTIONS):
        raise FaultRefused("request", f"must be * or one of {', '.join(ACTIONS)} at the edge webhook")
    if "before_answer" in names and (len(names) > 1 or fault.request not in (ANY_REQUEST, "order.created")):
        raise FaultRefused("kind", "must be before_answer alone, and the request order.created or *")
    if "forged" in names and fault.request in PAID:
        raise FaultRefused("request", "must not be of an order that is paid, with forged: use order.created")
    return fault


class Webhooks:
    """The deliveries that faults of the process have disturbed, or hold now."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._fired: dict[str, Firing] = {}
        """By delivery: one fires once."""
        self._holding = 0
        self._held: dict[tuple[str, str], str] = {}
        """The deliveries that wait for a newer version, by subscription and order."""
        self.courier = Courier(
            claim=self._claim, instead=self._instead, signing=self._signing, delivered=self._delivered
        )

    def _instead(self, database: Database, sender: Sender, claimed: Claimed) -> Coroutine[Any, Any, bool] | None:
        """Return what a fault does with a delivery before it is sent, or in its place; None if it is sent at once."""
        if not self._faults.on_webhooks or claimed.attempt > 1 or claimed.delivery_id in self._fired:
            return None
        taken = self._take(claimed)
        if taken is None:
            return None
        while len(self._fired) >= FIRED_MAX:
            del self._fired[next(iter(self._fired))]
        active, firing = taken
        self._fired[claimed.delivery_id] = firing
        if firing.kind.name == "forged":
            return self._forge(sender, claimed, *taken)
        self._faults.note(active, firing)
        match firing.kind.name:
            case "late" | "out_of_order":
                return self._hold(database, claimed, *taken)
            case "reset":
                return self._drop(database, claimed)
            case _:
                return None

    def _take(self, claimed: Claimed) -> tuple[Active, Firing] | None:
        """Return the fault of a delivery with its firing."""
        notified = msgspec.json.decode(claimed.body, type=_Notified)
        is_overtaking = (claimed.subscription_id, claimed.order_id) in self._held

        def may_fire(fault: Fault) -> bool:
            names, is_any = {kind.name for kind in fault.kinds}, fault.request == ANY_REQUEST
            if "out_of_order" in names and (is_overtaking or (is_any and notified.action not in FOLLOWED)):
                return False
            if claimed.target.topic != TOPIC and names & {"out_of_order", "forged"}:
                return False
            if self._holding >= HELD_MAX and names & {"out_of_order", "late"}:
                return False
            return "before_answer" not in names and not ("forged" in names and notified.action in PAID)

        request = facts_of(
            claimed.delivery_id,
            notified.action,
            application=str(claimed.target.application_id),
            seller=str(claimed.seller_id),
            mode="live" if notified.live_mode else "test",
            subscription=claimed.subscription_id,
            order=claimed.order_id if claimed.target.topic == TOPIC else "",
        )
        return self._faults.take(request, notified.action, claimed.claimed_ms, may_fire)

    async def _hold(self, database: Database, claimed: Claimed, active: Active, firing: Firing) -> bool:
        """Hold a delivery back, for the delay or until a newer version of its order was delivered; then send it."""
        delay, waits = active.fault.delay_of(firing.kind), firing.kind.name == "out_of_order"
        seconds, order = HELD_SECONDS_MAX if delay is None else delay, (claimed.subscription_id, claimed.order_id)
        row = claimed.seller_id, claimed.delivery_id, claimed.attempt, round(seconds * 1000)
        if waits:
            self._held[order] = claimed.delivery_id
        self._holding += 1
        try:
            keys = (conflict_keys.deliveries(*order),)
            await database.write(lambda tx: tx.run(HOLD, *row), conflict_keys=keys)
            database.signals.notify_local(["deliveries"])
            await self._faults.pause(active, firing, seconds, lambda: waits and order not in self._held)
        finally:
            self._holding -= 1
            if waits:
                self._held.pop(order, None)
        return True

    async def _drop(self, database: Database, claimed: Claimed) -> bool:
        """Record that a delivery is not sent. It can be resent."""

        async def work(tx: Transaction) -> None:
            await outcome_store.add_attempt(tx, claimed, Outcome(None, error=DROPPED), 0, request="")
            await outcome_store.exhausted(tx, claimed, claimed.claimed_ms)

        keys = (conflict_keys.deliveries(claimed.subscription_id, claimed.order_id),)
        await database.write(work, conflict_keys=keys)
        recording.hint(database, claimed)
        return False

    async def _forge(self, sender: Sender, claimed: Claimed, active: Active, firing: Firing) -> bool:
        """Send a notification, without signatures, that the order was paid; then the real one."""
        message = replace(claimed.message, delivery_id=ids.uuid(), body=paid(claimed.body))
        request = send.request(message, [_ANY_SECRET], claimed.claimed_ms // 1000)
        headers = {name: value for name, value in request.headers.items() if name not in _SIGNATURES}
        outcome = await sender.send(request.url, headers, message.body.encode())
        firing.answer = outcome.status or 0, outcome.body[:BODY_CHARACTERS_MAX]
        self._faults.note(active, firing)
        return True

    async def _claim(
        self, tx: Transaction, seller_id: int, subscription_id: str, target: Target, claim: Claim
    ) -> list[Claimed]:
        """Claim due deliveries, as `store.claim` does, and the newer versions of those that wait for one."""
        rows = await store.claim(tx, seller_id, subscription_id, target, claim)
        if self._faults.on_webhooks:
            # Faults count them in the order of their events.
            rows.sort(key=lambda row: msgspec.json.decode(row.body, type=_Notified).date_created)
        limits = claim.now_ms, claim.wall_ms, claim.until_ms, 1
        for (own, order_id), delivery_id in tuple(self._held.items()):
            if own == subscription_id and len(rows) < claim.limit:
                newer = await tx.all(CLAIM_NEWER, seller_id, subscription_id, *limits, order_id, delivery_id)
                rows += [Claimed(target, claim.now_ms, *row) for row in newer]
        return rows

    def _signing(self, claimed: Claimed, secrets: Sequence[Secret], seconds: int) -> tuple[Sequence[Secret], int]:
        """Return the secrets and the time that sign an attempt."""
        match self._kind_of(claimed):
            case "bad_signature":
                # As with another secret for each.
                digests = [hashlib.sha256(b"bad_signature" + secret.reveal().encode()).digest() for secret in secrets]
                return [Secret(PREFIX + b64encode(digest).decode()) for digest in digests], seconds
            case "old_timestamp":
                return secrets, seconds - OLD_SECONDS
            case _:
                return secrets, seconds

    async def _delivered(self, tx: Transaction, claimed: Claimed, now_ms: int) -> None:
        """Record a success, or make the delivery due once more; let go an older version that waits for this one."""
        if self._kind_of(claimed) == "twice":
            await tx.run(REPEAT, claimed.seller_id, claimed.delivery_id, claimed.attempt, now_ms)
            tx.notify("deliveries")
            return
        await outcome_store.delivered(tx, claimed, now_ms)
        order = claimed.subscription_id, claimed.order_id
        if self._held.get(order, claimed.delivery_id) != claimed.delivery_id:
            del self._held[order]
            self._faults.notify()

    def _kind_of(self, claimed: Claimed) -> str:
        """Return the kind of the fault that disturbs this attempt; empty if none does."""
        firing = self._fired.get(claimed.delivery_id)
        return firing.kind.name if firing is not None and claimed.attempt == 1 else ""


def facts_of(delivery_id: str, action: str, **facts: str) -> RequestFacts:
    """Return a delivery as faults match it."""
    return RequestFacts("webhook", (action,), facts, send.request_id_of(delivery_id))


def paid(body: str) -> str:
    """Return the notification as if its order was paid."""
    document = json.loads(body)
    document |= {"id": ids.uuid(), "action": "order.processed"}
    status, data = {"status": "processed", "status_detail": "accredited"}, document["data"]
    payments = [payment | status for payment in data.get("transactions", {}).get("payments", ())]
    if payments:
        data |= {"transactions": {**data["transactions"], "payments": payments}}
        data["total_paid_amount"] = payments[0]["amount"]
    return json.dumps({**document, "data": data | status}, ensure_ascii=False, separators=(",", ":"))
