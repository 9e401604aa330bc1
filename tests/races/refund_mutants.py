"""Mutants of refunds: of reservations, of idempotency keys, and of requests to the acquirer."""

from __future__ import annotations

from mutant import Mutant

RACES = "tests/races/test_promises_refunds.py"
STEPS = "tests/workers/test_orders_refunds.py"
ALERTS = "tests/workers/test_orders_refund_alerts.py"
REFUND = "tests/contract/test_orders_refund.py"
NEVER_MORE = "Refunds never exceed what was paid"
STAYS = "Operators are alerted once about a refund without an outcome"
ONE_ANSWER = "One idempotency key, one effect, one answer"

REFUND_MUTANTS = (
    Mutant(
        NEVER_MORE,
        "the remaining amount is summed first, and then reserved",
        "paydesk/engine/payments/refunds/store.py",
        "    row = await change.tx.one(RESERVE, ",
        "    sql = (\n"
        '        "SELECT COALESCE(SUM(amount_minor), 0) FROM refunds"\n'
        "        \" WHERE seller_id = $1 AND order_id = $2 AND status <> 'failed'\"\n"
        "    )\n"
        "    summed = await change.tx.one(sql, order.seller_id, order.order_id)\n"
        "    assert order.paid_minor is not None\n"
        "    if summed[0] + (amount_minor or order.paid_minor - summed[0]) > order.paid_minor:\n"
        "        return None\n"
        '    unguarded = RESERVE.replace("paid_minor - refunded_minor - refunding_minor\\n", "paid_minor\\n")\n'
        "    row = await change.tx.one(unguarded, ",
        RACES,
        "eight_parts",
    ),
    Mutant(
        NEVER_MORE,
        "a reservation stays when its refund fails",
        "paydesk/engine/payments/refunds/store.py",
        "status.REFUND_FAILED, order, refund,",
        "status.REFUND_FAILED, order, msgspec.structs.replace(refund, amount_minor=0),",
        STEPS,
        "late_decline",
    ),
    Mutant(
        NEVER_MORE,
        "a refund is confirmed more than once",
        "paydesk/engine/payments/refunds/store.py",
        ' WHERE seller_id = $1 AND refund_id = $2 AND {REFUNDS.open}"""\n\n# The reservation',
        ' WHERE seller_id = $1 AND refund_id = $2"""\n\n# The reservation',
        STEPS,
        "response_is_stored_once",
    ),
    Mutant(
        ONE_ANSWER,
        "a worker overwrites a stored response",
        "paydesk/platform/idempotency.py",
        " AND answer IS NULL",
        "",
        RACES,
        "request_against_the_worker",
    ),
    Mutant(
        ONE_ANSWER,
        "a declined refund releases its key",
        "paydesk/platform/http/three_phase.py",
        "            completed = await complete(tx, key, reply.status, reply.body)\n",
        "            if reply.refusal is not None:\n"
        "                await idempotency.release(tx, key)\n"
        "                return reply\n"
        "            completed = await complete(tx, key, reply.status, reply.body)\n",
        REFUND,
        "decline_is_stored",
    ),
    Mutant(
        ONE_ANSWER,
        "a repeat does not wait for the response",
        "paydesk/platform/http/three_phase.py",
        "refusal.kind is not RESOURCE_LOCKED or left <= 0",
        "left <= REPEAT_WAITS_SECONDS_MAX",
        STEPS,
        "repeat_waits",
    ),
    Mutant(
        ONE_ANSWER,
        "every attempt of a refund has a key of its own at the acquirer",
        "paydesk/engine/payments/refunds/attempts.py",
        "key=refund.refund_id,",
        'key=f"{refund.refund_id}.{refund.attempts}",',
        STEPS,
        "lost_response",
    ),
    Mutant(
        "An acknowledged change is never lost",
        "an acquirer that does not answer in time has declined",
        "paydesk/engine/payments/refunds/attempts.py",
        "                await apply_late(await request)\n",
        '                await apply_late(Declined("processing_error"))\n',
        STEPS,
        "slow_acquirer",
    ),
    Mutant(
        "An acknowledged change is never lost",
        "a refund that may have been sent fails after a day",
        "paydesk/engine/payments/refund.py",
        "        return self.attempts == self.unsent + 1\n",
        "        return self.attempts > self.unsent\n",
        STEPS,
        "never_sent",
    ),
    Mutant(
        STAYS,
        "operators are alerted at each attempt of a refund",
        "paydesk/engine/payments/jobs.py",
        "{is_open} AND alerted_ms IS NULL",
        "{is_open}",
        ALERTS,
        "alerted_once",
    ),
    Mutant(
        STAYS,
        "operators are alerted only if no acquirer is configured",
        "paydesk/engine/payments/refunds/attempts.py",
        "is_silent = self.acquirer is None or waited_ms >= self.settings.acquirer_silent_seconds * 1000",
        "is_silent = self.acquirer is None",
        ALERTS,
        "alerted_once",
    ),
    Mutant(
        STAYS,
        "operators are alerted about a refund that has ended",
        "paydesk/engine/payments/jobs.py",
        " AND {is_open} AND alerted_ms IS NULL",
        " AND alerted_ms IS NULL",
        ALERTS,
        "gets_no_alert",
    ),
)
