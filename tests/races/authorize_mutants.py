"""Mutants of authorizations that the service requests, and of tips."""

from __future__ import annotations

from mutant import Mutant

RACES = "tests/races/test_authorize_races.py"
TIPS = "tests/contract/test_device_tips.py"
ONCE = "The service charges once for a terminal of kind `service`"
TIP = "A tip is one that the terminal offered"

AUTHORIZE_MUTANTS = (
    Mutant(
        ONCE,
        "A repeated request does not join the call that runs on the node",
        "paydesk/engine/device/authorization/calls.py",
        "        task = self._running.get(order_id)\n",
        "        task = None\n",
        RACES,
        "join_one_call and sqlite",
    ),
    Mutant(
        ONCE,
        "The acquirer is asked under a key of each request",
        "paydesk/engine/device/authorization/handlers.py",
        "payment=replace(payment_of(order, terms), store_id=terms.store_id, pos_id=terms.pos_id),\n",
        'payment=replace(payment_of(order, terms), payment_id=f"PAY{id(request)}"),\n',
        RACES,
        "two_nodes and postgres",
    ),
    Mutant(
        ONCE,
        "An authorization needs no permit",
        "paydesk/engine/device/authorization/handlers.py",
        "    if isinstance(permitted_ms, Refusal):\n        raise permitted_ms\n",
        "    del permitted_ms\n",
        RACES,
        "cancel_exclude and sqlite",
    ),
    Mutant(
        ONCE,
        "A call ends when its client disconnects",
        "paydesk/engine/device/authorization/handlers.py",
        "    await asyncio.wait((task,))\n",
        "    while not task.done():\n"
        "        await asyncio.wait((task,), timeout=0.01)\n"
        "        if call.disconnected is not None and call.disconnected():\n"
        "            task.cancel()\n",
        RACES,
        "disconnects and sqlite",
    ),
    Mutant(
        "An approved payment is never lost: processed, or reversed",
        "An approval of a call whose order has ended otherwise is ignored",
        "paydesk/engine/device/authorization/calls.py",
        "            await outcomes.reverse_late_approval(change, order, outcome)\n",
        "            pass\n",
        RACES,
        "terminals_decline and True and sqlite",
    ),
    Mutant(
        "An approved payment is never lost: processed, or reversed",
        "A repeat that was not sent fails the order, though an earlier request may have been sent",
        "paydesk/engine/device/authorization/calls.py",
        "    if is_unsent and not (await payment_terms.find(change.tx, order)).is_repeated:",
        "    if is_unsent:",
        "tests/contract/test_device_authorize.py",
        "repeat_that_was_not_sent and sqlite",
    ),
    Mutant(
        "An approved payment is never lost: processed, or reversed",
        "A first request that was not sent fails the order, though a repeat on another node may have been sent",
        "paydesk/engine/device/authorization/handlers.py",
        "        await payment_terms.repeat(tx, order, call.now_ms)\n",
        "        pass\n",
        RACES,
        "without_a_line and sqlite",
    ),
    Mutant(
        "An approved payment is never lost: processed, or reversed",
        "No inquiry follows a terminal's decline during the service's call to the acquirer",
        "paydesk/engine/device/results.py",
        'await orders.inquire(change, order, "the terminal declined before the acquirer answered the service")',
        "pass",
        RACES,
        "though_its_node_was_killed and sqlite",
    ),
    Mutant(
        "An approved payment is never lost: processed, or reversed",
        "A delayed hello fails an order that was sent to the acquirer since",
        "paydesk/engine/device/sessions.py",
        '    if is_repeated and effect == "fail" and',
        "    if False and",
        "tests/contract/test_device_recovery.py",
        "delayed_hello and sqlite",
    ),
    Mutant(
        TIP,
        "An inquiry does not know the tip that the service requested",
        "paydesk/engine/payments/terms.py",
        "        if self.requested is not None:\n            return tip_minor if",
        "        if self.requested is not None and False:\n            return tip_minor if",
        TIPS,
        "unanswered_tip and sqlite",
    ),
    Mutant(
        TIP,
        "Any tip is accepted",
        "paydesk/engine/payments/terms.py",
        "return tip_minor if 0 <= tip_minor <= self.tip_minor_max(order.amount_minor) else None",
        "return tip_minor if 0 <= tip_minor else None",
        TIPS,
        "not_offered and sqlite",
    ),
)
