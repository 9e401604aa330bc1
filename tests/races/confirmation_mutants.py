"""Mutants of the third message."""

from __future__ import annotations

from mutant import Mutant

CONTRACT = "tests/contract/test_device_confirmations.py"
RACES = "tests/races/test_confirmation_races.py"
HELD = "A provisional approval is confirmed or reversed, as its terminal says"
ONCE = "An approval is confirmed once"
REFUNDS = "A refund waits for its payment's confirmation"

CONFIRMATION_MUTANTS = (
    Mutant(
        HELD,
        "A provisional approval processes the order",
        "paydesk/engine/device/authorization/calls.py",
        'case "end" | "conflict" as decision if isinstance(outcome, Approved) and self._is_held(outcome, situation):',
        'case "unreadable" as decision if isinstance(outcome, Approved) and self._is_held(outcome, situation):',
        CONTRACT,
        "processed_by_its and sqlite",
    ),
    Mutant(
        HELD,
        "A host's final approval counts though the terminal never heard of it",
        "paydesk/engine/payments/inquiries.py",
        "is_undecided = result.needs_confirmation or (terms.requested is not None and terms.needs_confirmation)",
        "is_undecided = result.needs_confirmation",
        CONTRACT,
        "unknown_outcome and sqlite",
    ),
    Mutant(
        HELD,
        "An approval that its terminal declines is not reversed",
        "paydesk/engine/device/results.py",
        'await reversal_store.begin(change, order, *undone, confirmed="approved", chip_data=chip_data or b"")',
        "pass",
        CONTRACT,
        "terminal_ends and sqlite",
    ),
    Mutant(
        HELD,
        "An approval without a result in time stays",
        "paydesk/engine/payments/confirmations.py",
        '        await store.inquire(change, order, "the terminal did not report on the approval in time")\n',
        "",
        CONTRACT,
        "in_time_is_undone and sqlite",
    ),
    Mutant(
        HELD,
        "A result of another amount counts as the approval",
        "paydesk/engine/device/rules/decisions.py",
        "is_same = paid == approval.amount_minor and",
        "is_same =",
        CONTRACT,
        "not_the_approval and sqlite",
    ),
    Mutant(
        ONCE,
        "Each attempt to confirm has a key of its own",
        "paydesk/engine/payments/acquirer.py",
        'return f"CNF{self.payment_id[3:]}"',
        'return f"CNF{id(object())}"',
        RACES,
        "two_nodes",
    ),
    Mutant(
        REFUNDS,
        "A refund is sent before the confirmation",
        "paydesk/engine/payments/refunds/handlers.py",
        "is_sent = confirmation is None or confirmation.status != CONFIRMING.name",
        "is_sent = True",
        CONTRACT,
        "refund_waits and sqlite",
    ),
    Mutant(
        REFUNDS,
        "A worker sends a refund before the confirmation",
        "paydesk/engine/payments/refunds/attempts.py",
        "excluded=UNCONFIRMED",
        'excluded="FALSE"',
        CONTRACT,
        "refund_waits and sqlite",
    ),
    Mutant(
        REFUNDS,
        "What was never confirmed is refunded",
        "paydesk/engine/payments/refunds/attempts.py",
        "outcome = NEVER_CONFIRMED if is_unpaid else await attempt.request()",
        "outcome = await attempt.request()",
        CONTRACT,
        "refused_payment and sqlite",
    ),
)
