"""Deliberate defects that the short run of the model must detect without a test of their own."""

from __future__ import annotations

from mutant import Mutant

MODEL, SQLITE = "tests/model/test_model.py", "sqlite"

_DEFECTS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "An acknowledged change is never lost",
        "an accepted result is not recorded",
        "paydesk/engine/device/results.py",
        "    await store.insert_result(",
        "    if error is None:\n        return reply\n    await store.insert_result(",
    ),
    (
        "One key, one effect, one answer",
        "a refund that the acquirer declined releases its key",
        "paydesk/platform/http/three_phase.py",
        "            completed = await complete(tx, key, reply.status, reply.body)\n",
        "            if reply.refusal is not None:\n"
        "                await idempotency.release(tx, key)\n"
        "                return reply\n"
        "            completed = await complete(tx, key, reply.status, reply.body)\n",
    ),
    (
        "One key, one effect, one answer",
        "every attempt of a refund has another key at the acquirer: the amount is refunded twice",
        "paydesk/engine/payments/refunds/attempts.py",
        "key=refund.refund_id,",
        'key=f"{refund.refund_id}.{refund.attempts}",',
    ),
    (
        "A history is a path in the table of moves",
        "a partial refund leaves the order processed",
        "paydesk/engine/orders/status.py",
        '"a part is refunded", _PAID, (PARTIALLY_REFUNDED,)',
        '"a part is refunded", _PAID, (PROCESSED,)',
    ),
    (
        "One live order per terminal",
        "an order with an unknown outcome does not block a new one",
        "paydesk/engine/orders/slot.py",
        "    if current.status in status.LIVE:\n",
        "    if current.state == status.CHECK_ON_TERMINAL:\n"
        "        failed = status.FAILED['processing_error']\n"
        "        await store.move(change, status.DECLINE, current, to=failed)\n"
        "    elif current.status in status.LIVE:\n",
    ),
    (
        "Cancel and the authorization permit exclude each other",
        "authorization is permitted after a cancel request",
        "paydesk/engine/orders/store.py",
        "AND {in_states(status.AT_TERMINAL)}\n   AND permitted_ms IS NULL",
        "AND {in_states(*status.BEFORE_CHECK)}\n   AND permitted_ms IS NULL",
    ),
    (
        "Cancel and the authorization permit exclude each other",
        "a cancel is requested after authorization was permitted",
        "paydesk/engine/orders/status.py",
        '    (CANCELLATION_REQUESTED,),\n    "order.at_terminal",\n    before_authorization=True,\n',
        '    (CANCELLATION_REQUESTED,),\n    "order.at_terminal",\n    before_authorization=False,\n',
    ),
    (
        "An approved payment is never lost",
        "a late approval is recorded and not reversed",
        "paydesk/engine/device/results.py",
        '    refusal = await _answer(change, order, result, "late_approval", error)\n',
        '    refusal = await _answer(change, order, result, "finished", error)\n    return refusal\n',
    ),
    (
        "An approved payment is never lost",
        "a reversal counts as confirmed before the acquirer was asked",
        "paydesk/engine/payments/reversals.py",
        "        return acquirer.reverse(",
        '        from asyncio import sleep\n\n        return sleep(0, Approved("1", 1))\n'
        "        return acquirer.reverse(",
    ),
    (
        "An approved payment is never lost",
        "a payment unknown to the acquirer is reversed at once",
        "paydesk/engine/payments/inquiries.py",
        '            return "reverse" if is_final else "retry"\n        case',
        '            return "reverse"\n        case',
    ),
    (
        "An approved payment is never lost",
        "there is no inquiry for an order without an outcome",
        "paydesk/engine/orders/expiry.py",
        '        await store.inquire(change, moved, "no outcome in time")\n',
        "        pass\n",
    ),
    (
        "A payment is charged once",
        "a terminal with an unknown outcome may charge again",
        "paydesk/engine/device/leases.py",
        "    if permitted_ms is None or order.state != status.AT_TERMINAL:\n",
        "    if permitted_ms is None:\n",
    ),
    (
        "Refunds never exceed what was paid",
        "a refund in progress reserves nothing",
        "paydesk/engine/payments/refunds/store.py",
        "<= paid_minor - refunded_minor - refunding_minor",
        "<= paid_minor - refunded_minor",
    ),
    (
        "Refunds never exceed what was paid",
        "a declined refund keeps its reservation",
        "paydesk/engine/payments/refunds/store.py",
        "SET refunding_minor = refunding_minor - $3, refunds = $4",
        "SET refunding_minor = refunding_minor - 0 * $3, refunds = $4",
    ),
    (
        "Every event is delivered at least once",
        "a failed order is not announced",
        "paydesk/engine/webhooks/outbox.py",
        "    if trace is None:\n",
        '    if event.action == "order.failed":\n        return\n    if trace is None:\n',
    ),
    (
        "In order per order and subscription",
        "a delivery is claimed while an earlier one is pending",
        "paydesk/engine/webhooks/delivery/store.py",
        """f"NOT EXISTS (SELECT 1 {_earlier('due')})\"""",
        '"1 = 1"',
    ),
    (
        "A refresh token has one successor",
        "a replay within the grace period is refused",
        "paydesk/engine/oauth/grants.py",
        "            return await self._retry(token)\n",
        '            raise INVALID_GRANT.with_reason("used")\n',
    ),
    (
        "Live and test never meet",
        "an order is created for a terminal of the other live mode",
        "paydesk/engine/orders/handlers.py",
        "    if terminal is None or terminal.live != order.live:\n",
        "    if terminal is None:\n",
    ),
    (
        "Live and test never meet",
        "an order is shown to a token of the other live mode",
        "paydesk/engine/orders/handlers.py",
        "    if order is None or bool(order.live) != call.caller.live:\n",
        "    if order is None:\n",
    ),
    (
        "Live and test never meet",
        "inquiries for live orders go to the simulated acquirer",
        "paydesk/engine/payments/acquirers.py",
        '        acquirer = self.live.get(self.name_of(order) or "") if order.live else self.test\n',
        '        acquirer = self.live.get(self.name_of(order) or "", self.test) if order.live else self.test\n',
    ),
    (
        "Live and test never meet",
        "subscriptions get live and test events",
        "paydesk/engine/webhooks/outbox.py",
        "AND live = $7 AND deleted_ms",
        "AND live + $7 < 3 AND deleted_ms",
    ),
)

MODEL_MUTANTS = tuple(Mutant(*defect, MODEL, SQLITE) for defect in _DEFECTS)
