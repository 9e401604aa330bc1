"""The defects that belong to the acquirer: what is charged and given back once, and how a terminal asks."""

from __future__ import annotations

from mutant import Mutant

STORE = "sandbox/simulator/store.py"
SIMULATOR = "sandbox/simulator/acquirer.py"
PAYMENT = "sandbox/terminals/payment.py"

BOOK = "tests/workers/test_acquiring_simulator.py"
NODES = "tests/races/test_acquirer_nodes.py"
TERMINAL = "tests/workers/test_virtual_terminal.py"

ACQUIRER_MUTANTS = (
    Mutant(
        "Refunds never exceed what was paid",
        "the simulated acquirer gives back whatever it is asked for",
        STORE,
        "   AND CAST($3 AS bigint) > 0 AND refunded_minor + $3 <= amount_minor",
        "   AND CAST($3 AS bigint) > 0",
        BOOK,
        "racing_refunds",
    ),
    Mutant(
        "Refunds never exceed what was paid",
        "a refund that the simulated acquirer knows takes its amount again",
        SIMULATOR,
        '            if known is None and movement.outcome == "approved" and not',
        '            if movement.outcome == "approved" and not',
        NODES,
        "one_key",
    ),
    Mutant(
        "A payment is charged once",
        "the simulated acquirer decides by the request, not by its book",
        STORE,
        "    if await tx.run(ENTER, *_values(entry)):\n        return entry\n",
        "    await tx.run(ENTER, *_values(entry))\n    return entry\n",
        NODES,
        "one_key",
    ),
    Mutant(
        "A payment is charged once",
        "what is reversed before it came is not forbidden",
        SIMULATOR,
        "            await store.enter(tx, self._entry(payment, Plan(detail=REFUSED), now_ms, reversed_ms=now_ms))\n",
        "",
        BOOK,
        "reversed_before",
    ),
    Mutant(
        "An approved payment is never lost",
        "a virtual terminal asks its acquirer before it writes that down",
        PAYMENT,
        "        await device.journal.put(entry)\n        await _keep(device, entry, await _ask(device, entry))\n",
        "        await _keep(device, entry, await _ask(device, entry))\n",
        TERMINAL,
        "restart_at_any_point and acquirer",
    ),
    Mutant(
        "An approved payment is never lost",
        "a virtual terminal that lost an answer says that nothing was charged",
        PAYMENT,
        "        if may_be_charged and answer",
        "        if answer",
        TERMINAL,
        "does_not_take_it",
    ),
    Mutant(
        "A payment is charged once",
        "a virtual terminal asks again under another key",
        PAYMENT,
        '    request = {"payment_id": entry.order["payment_id"],',
        '    request = {"payment_id": entry.order["payment_id"] + str(uuid4()),',
        TERMINAL,
        "restart_at_any_point and acquirer",
    ),
)
