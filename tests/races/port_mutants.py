"""Mutants of what the engine does with an acquirer's declaration, and of how it believes its answers."""

from __future__ import annotations

from mutant import Mutant

UNANSWERED = "tests/contract/test_device_authorize_unanswered.py"
LIMITS = "tests/workers/test_orders_acquirers_limits.py"
CALLS = "tests/workers/test_orders_refund_calls.py"
JOBS = "tests/workers/test_orders_acquirer_jobs.py"
CHECKED = "tests/unit/test_checked_acquirer.py"
ROUTED = "tests/contract/test_orders_acquirers.py"

AUTHORIZING = "paydesk/engine/device/authorization/calls.py"
INQUIRIES = "paydesk/engine/payments/inquiries.py"
REVERSALS = "paydesk/engine/payments/reversals.py"
ATTEMPTS = "paydesk/engine/payments/refunds/attempts.py"
ACQUIRERS = "paydesk/engine/payments/acquirers.py"

ONCE = "An acquirer that would charge or refund again is asked once"
LOST = "An approved payment is never lost: processed, or reversed"
REFUNDED_ONCE = "A payment that can no longer be reversed is refunded once"
BELIEVED = "An answer that is not of its request is not believed"
APART = "One acquirer does not hold up another"

PORT_MUTANTS = (
    Mutant(
        ONCE,
        "A node repeats an unanswered call",
        AUTHORIZING,
        'UNANSWERED_PAUSES_SECONDS if "authorize" in self.acquirer.capabilities.idempotent else ()',
        "UNANSWERED_PAUSES_SECONDS",
        UNANSWERED,
        "is_made_once and sqlite",
    ),
    Mutant(
        ONCE,
        "A terminal's repeat makes the call again that a crash cut off",
        "paydesk/engine/device/authorization/handlers.py",
        '"authorize" not in acquirer.capabilities.idempotent and not is_running',
        "False",
        UNANSWERED,
        "crash_cut_off and sqlite",
    ),
    Mutant(
        ONCE,
        "A worker makes the refund again that a crash cut off",
        ATTEMPTS,
        "        if not (self._is_idempotent() or refund.was_never_sent):\n",
        "        if False:\n",
        CALLS,
        "not_made_twice and sqlite",
    ),
    Mutant(
        ONCE,
        "An unanswered refund is tried again",
        ATTEMPTS,
        "is_last = isinstance(outcome, Unknown) and not self._is_idempotent()",
        "is_last = False",
        CALLS,
        "left_to_a_person and sqlite",
    ),
    Mutant(
        LOST,
        "A call that was not sent hides an earlier one that may have been",
        AUTHORIZING,
        "            return sent or outcome if isinstance(outcome, NotSent) else outcome\n",
        "            return outcome\n",
        UNANSWERED,
        "never_failed and sqlite",
    ),
    Mutant(
        LOST,
        "An unanswered call is repeated after the permit",
        AUTHORIZING,
        "send_until = min(end, loop.time() + self.send_seconds_max)",
        "send_until = end",
        UNANSWERED,
        "after_its_permit and sqlite",
    ),
    Mutant(
        LOST,
        "An ended order's payment is not reversed at an acquirer that cannot be asked",
        INQUIRIES,
        "        return self._has_second_look() and order.status not in status.LIVE and",
        "        return order.status not in status.LIVE or",
        LIMITS,
        "of_an_ended_order and sqlite",
    ),
    Mutant(
        LOST,
        "A payment is reversed unasked while its call may be under way",
        "paydesk/engine/payments/attempts.py",
        "NotFound(is_final=self.capabilities.reversal_blocks)",
        "NotFound(is_final=True)",
        LIMITS,
        "nothing_blocks_is_reversed and sqlite",
    ),
    Mutant(
        LOST,
        "A payment that nothing blocks is not looked for again",
        INQUIRIES,
        "            if is_absent and self._has_second_look():\n",
        "            if False:\n",
        LIMITS,
        "once_more and approved and sqlite",
    ),
    Mutant(
        REFUNDED_ONCE,
        "A provisional approval is refunded",
        REVERSALS,
        "        if isinstance(result, Approved) and not result.needs_confirmation:\n",
        "        if isinstance(result, Approved):\n",
        LIMITS,
        "waits_for_a_final and provisional and sqlite",
    ),
    Mutant(
        REFUNDED_ONCE,
        "Each of two reversals becomes a refund",
        "paydesk/engine/payments/reversal_store.py",
        "                      AND other.refunding_ms IS NOT NULL)",
        "                      AND other.refunding_ms IS NOT NULL AND 1 = 0)",
        LIMITS,
        "become_one_refund and sqlite",
    ),
    Mutant(
        REFUNDED_ONCE,
        "The order's own payment is refunded in place of another approval",
        REVERSALS,
        "can_refund and order.paid_ms is None and await",
        "can_refund and await",
        LIMITS,
        "beside_the_orders_payment and sqlite",
    ),
    Mutant(
        REFUNDED_ONCE,
        "A refund that would be made twice is made in place of a reversal",
        REVERSALS,
        '            if "refund" not in self.capabilities.idempotent:\n',
        "            if False:\n",
        LIMITS,
        "waits_for_a_person and sqlite",
    ),
    Mutant(
        BELIEVED,
        "An approval in another currency or under another key counts",
        ACQUIRERS,
        'getattr(answer, name) not in ("", value)',
        'name == "amount_minor" and getattr(answer, name) != value',
        CHECKED,
        "differs_from",
    ),
    Mutant(
        BELIEVED,
        "A provisional approval of an adapter without confirmations counts",
        ACQUIRERS,
        "        if answer.needs_confirmation and not self.capabilities.needs_confirmation:\n",
        "        if False:\n",
        CHECKED,
        "provisional",
    ),
    Mutant(
        "An acknowledged change is never lost",
        "The answer to a refund after its response is dropped",
        ATTEMPTS,
        "                await apply_late(await request)\n",
        "                await request\n",
        CALLS,
        "after_the_response and sqlite",
    ),
    Mutant(
        "One key, one effect, one answer",
        "A late answer to a refund leaves its request without a response",
        "paydesk/engine/payments/refunds/handlers.py",
        "            await complete_request(tx, refund)\n",
        "            pass\n",
        CALLS,
        "without_a_response and sqlite",
    ),
    Mutant(
        APART,
        "A silent acquirer takes all attempts of a node",
        "paydesk/engine/payments/jobs.py",
        "min(CONCURRENT_JOBS_MAX - len(running), CONCURRENT_AT_ONE_ACQUIRER_MAX - at_acquirer)",
        "CONCURRENT_JOBS_MAX - len(running) + 0 * at_acquirer",
        JOBS,
        "silent_acquirer and sqlite",
    ),
    Mutant(
        APART,
        "A silent acquirer's due jobs hide those of another",
        "paydesk/engine/payments/jobs.py",
        "DUE_ROWS_MAX = 2_000",
        "DUE_ROWS_MAX = 200",
        JOBS,
        "silent_acquirer and sqlite",
    ),
    Mutant(
        "An order keeps its acquirer",
        "An order follows the rule of the day",
        ACQUIRERS,
        "return order.acquirer or self.routing",
        "return self.routing",
        ROUTED,
        "keeps_its_acquirer and sqlite",
    ),
    Mutant(
        "Two nodes never have one job",
        "A node that starts on PostgreSQL releases the claims of another",
        "paydesk/engine/payments/jobs.py",
        '    if database.name != "sqlite":\n        return\n',
        "",
        JOBS,
        "releases_all_claims and postgres",
    ),
)
