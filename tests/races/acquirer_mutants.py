"""Mutants of the simulated acquirer (charges and refunds at most once) and of how a terminal calls it."""

from __future__ import annotations

from mutant import Mutant

STORE = "paydesk/engine/payments/simulator/ledger.py"
SIMULATOR = "paydesk/engine/payments/simulator/acquirer.py"
DEVICE = "paydesk_dev/virtual/terminal/device.py"

LEDGER = "tests/workers/test_simulator.py"
NODES = "tests/races/test_acquirer_nodes.py"
TERMINAL = "tests/kit/test_virtual_terminal.py"

ACQUIRER_MUTANTS = (
    Mutant(
        "Refunds never exceed what was paid",
        "the simulated acquirer refunds any amount",
        STORE,
        "   AND CAST($3 AS bigint) > 0 AND refunded_minor + $3 <= amount_minor",
        "   AND CAST($3 AS bigint) > 0",
        LEDGER,
        "racing_refunds",
    ),
    Mutant(
        "Refunds never exceed what was paid",
        "a repeated refund is deducted again at the simulated acquirer",
        SIMULATOR,
        '            if stored is None and movement.outcome == "approved" and not',
        '            if movement.outcome == "approved" and not',
        NODES,
        "one_key",
    ),
    Mutant(
        "A payment is charged once",
        "the simulated acquirer decides by the request, not by its ledger",
        STORE,
        "    if await tx.run(ADD_PAYMENT, *astuple(payment)):\n        return payment\n",
        "    await tx.run(ADD_PAYMENT, *astuple(payment))\n    return payment\n",
        NODES,
        "one_key",
    ),
    Mutant(
        "A payment is charged once",
        "a payment reversed before it arrives is not blocked",
        SIMULATOR,
        "                await store.add_payment(tx, blocked)\n",
        "",
        LEDGER,
        "reversed_before",
    ),
    Mutant(
        "An approved payment is never lost",
        "a virtual terminal calls the acquirer before it writes its journal",
        DEVICE,
        "            charged = await self.journal.put(permitted, presented=presented)\n",
        "            charged = msgspec.structs.replace(permitted, presented=presented)\n",
        TERMINAL,
        "in_the_journal_before_it_is_made",
    ),
    Mutant(
        "An approved payment is never lost",
        "a virtual terminal that lost an answer reports that nothing was charged",
        DEVICE,
        "            if may_be_charged and answer",
        "            if answer",
        TERMINAL,
        "refused_authorization",
    ),
    Mutant(
        "A payment is charged once",
        "a virtual terminal repeats the call under another key",
        DEVICE,
        '            about = {"payment_id": entry.order["payment_id"],',
        '            about = {"payment_id": entry.order["payment_id"] + str(uuid4()),',
        TERMINAL,
        "restart_at_any_point and acquirer",
    ),
)
