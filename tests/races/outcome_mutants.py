"""Mutants of unknown outcomes and late approvals."""

from __future__ import annotations

from mutant import Mutant

UNKNOWN = "tests/races/test_promises_unknown.py"
INQUIRIES = "tests/workers/test_orders_inquiries.py"
REVERSALS = "tests/workers/test_orders_reversals.py"
KILLED = "tests/workers/test_orders_jobs_killed.py"
RESOLVE = "tests/contract/test_operators_resolve.py"
REVERSALS_RESOLVED = "tests/contract/test_operators_reversals.py"
LOST = "An approved payment is never lost: processed, or reversed"
RECOVERY = "tests/contract/test_device_recovery.py"
HELD = "No terminal is held longer than it must be"

OUTCOME_MUTANTS = (
    Mutant(
        LOST,
        "An approval inquired for an ended order is not reversed",
        "paydesk/engine/payments/inquiries.py",
        "        await outcomes.reverse_late_approval(change, order, approved)\n",
        "        pass\n",
        UNKNOWN,
        "decline_against",
    ),
    Mutant(
        LOST,
        "A terminal's approval processes the order while its payment is being reversed",
        "paydesk/engine/device/rules/decisions.py",
        "reversing     late_approval  late_approval",
        "reversing     end            conflict     ",
        UNKNOWN,
        "being_reversed",
    ),
    Mutant(
        LOST,
        "The intent to reverse a payment is not committed first",
        "paydesk/engine/payments/inquiry_store.py",
        "SET reversing_ms = COALESCE(reversing_ms, $3)",
        "SET reversing_ms = CASE WHEN $3 < 0 THEN $3 END",
        INQUIRIES,
        "while_reversing or is_retried",
    ),
    Mutant(
        LOST,
        "An answer is applied after a later attempt",
        "paydesk/engine/payments/inquiries.py",
        "if await inquiry_store.status_of(change.tx, order) != ASKING.name:",
        "if False:",
        INQUIRIES,
        "overtake or too_late",
    ),
    Mutant(
        LOST,
        "A payment not found fails at once, without a reversal",
        "paydesk/engine/payments/inquiries.py",
        '            return "reverse" if is_final else "retry"\n        case Unknown',
        '            return "reverse"\n        case Unknown',
        INQUIRIES,
        "not_found_two_minutes",
    ),
    Mutant(
        LOST,
        "An approval of another amount processes the order",
        "paydesk/engine/payments/inquiries.py",
        "is_undecided or terms.tip_of(order, result.amount_minor) is None",
        "is_undecided or result.amount_minor < 0",
        INQUIRIES,
        "another_amount",
    ),
    Mutant(
        LOST,
        "A reversal ends as reversed without the acquirer's answer",
        "paydesk/engine/payments/reversals.py",
        "        elif isinstance(outcome, Approved):\n",
        "        elif not isinstance(outcome, Declined):\n",
        REVERSALS,
        "until_the_acquirer_confirms",
    ),
    Mutant(
        LOST,
        "The order's own payment is reversed as a late approval",
        "paydesk/engine/payments/reversals.py",
        'return "unfounded" if reference_id in ("", paid_reference) else "reverse"',
        'return "reverse"',
        REVERSALS,
        "never_reversed",
    ),
    Mutant(
        LOST,
        "Of two approvals the acquirer's is reversed without a reference",
        "paydesk/engine/payments/reversals.py",
        'self.row.reference_id if self.order.paid_ms is not None else ""',
        '""',
        REVERSALS,
        "two_approvals",
    ),
    Mutant(
        LOST,
        "The acquirer's confirmation of an approval is not committed",
        "paydesk/engine/payments/reversals.py",
        "return await reversal_store.confirm(change.tx, self.row)",
        "return True",
        KILLED,
        "approved_late",
    ),
    Mutant(
        "One outcome",
        "An operator resolves an order too early",
        "paydesk/engine/payments/resolving.py",
        "    if change.now_ms < from_ms:\n        raise CANNOT_RESOLVE_ORDER",
        "    if change.now_ms < 0:\n        raise CANNOT_RESOLVE_ORDER",
        RESOLVE,
        "before_three_minutes",
    ),
    Mutant(
        LOST,
        "An operator resolves a reversal during an attempt",
        "paydesk/engine/payments/reversal_store.py",
        " AND claimed_until_ms <= $5",
        " AND $5 > 0",
        REVERSALS_RESOLVED,
        "while_the_acquirer_is_asked",
    ),
    Mutant(
        LOST,
        "A reversal that may be of the order's own payment is resolved as reversed",
        "paydesk/engine/payments/resolving.py",
        'if ending == "reversed" and order.paid_ms is not None and reversal.reference_id in ("", order.reference_id):',
        "if False:",
        REVERSALS_RESOLVED,
        "beside_a_payment",
    ),
    Mutant(
        "One outcome",
        "Two nodes claim the same inquiry",
        "paydesk/engine/payments/jobs.py",
        "{is_due} AND next_ms <= $2 AND claimed_until_ms <= $3",
        "{is_due} AND next_ms <= $2 AND claimed_until_ms < $3 + 900000000",
        INQUIRIES,
        "two_nodes",
    ),
    Mutant(
        LOST,
        "No inquiry follows an unknown result of an ended order",
        "paydesk/engine/device/rules/decisions.py",
        "unpaid        late_approval  late_approval  -         finished  finished  inquire ",
        "unpaid        late_approval  late_approval  -         finished  finished  finished",
        INQUIRIES,
        "ended_before",
    ),
    Mutant(
        HELD,
        "An order that never reached the acquirer waits for an inquiry",
        "paydesk/engine/device/rules/verdicts.py",
        "lapsed     hold:inquire    hold:inquire    abort:fail ",
        "lapsed     hold:inquire    hold:inquire    hold:inquire",
        RECOVERY,
        "too_late_to_resume",
    ),
    Mutant(
        HELD,
        "A payment that is not found counts from the inquiry, not from the permit",
        "paydesk/engine/payments/inquiries.py",
        "self.began_ms = row.created_ms if order.permitted_ms is None else order.permitted_ms\n",
        "self.began_ms = row.created_ms\n",
        INQUIRIES,
        "not_found_two_minutes",
    ),
    Mutant(
        LOST,
        "A terminal that says it sent nothing is believed in spite of its result",
        "paydesk/engine/device/sessions.py",
        "    if sent is False and order is not None and await store.may_be_charged(change.tx, order):\n",
        "    if False:\n",
        RECOVERY,
        "outweighs",
    ),
    Mutant(
        "A payment is charged once",
        "An order is resumed after its permit has expired",
        "paydesk/engine/device/rules/verdicts.py",
        "now_ms < until_ms and ",
        "",
        RECOVERY,
        "too_late_to_resume",
    ),
)
