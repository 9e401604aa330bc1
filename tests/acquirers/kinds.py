"""The kinds of hosts that the harness runs against, by name."""

from __future__ import annotations

from paydesk.engine.payments.capabilities import Capabilities

ANSWER_SECONDS = 1
KINDS = {
    "final": Capabilities(answer_seconds=ANSWER_SECONDS, reversal_blocks=True),
    "blocks_nothing": Capabilities(answer_seconds=ANSWER_SECONDS),
    "cannot_inquire": Capabilities(answer_seconds=ANSWER_SECONDS, can_inquire=False, reversal_blocks=True),
    "not_reversible_for_long": Capabilities(
        answer_seconds=ANSWER_SECONDS, reverse_until=20, after_reverse_until="refund"
    ),
    "confirms": Capabilities(
        answer_seconds=ANSWER_SECONDS, needs_confirmation=True, confirm_before=120, at_deadline="confirms"
    ),
    "confirms_for_good": Capabilities(
        answer_seconds=ANSWER_SECONDS,
        needs_confirmation=True,
        confirm_before=120,
        at_deadline="confirms",
        reverse_until=110,
        after_reverse_until="refund",
        reversal_blocks=True,
    ),
    "undoes": Capabilities(
        answer_seconds=ANSWER_SECONDS, needs_confirmation=True, confirm_before=300, at_deadline="undoes"
    ),
    "holds": Capabilities(answer_seconds=ANSWER_SECONDS, needs_confirmation=True, confirm_before=120),
    "confirms_unasked": Capabilities(
        answer_seconds=ANSWER_SECONDS,
        needs_confirmation=True,
        confirm_before=120,
        at_deadline="confirms",
        can_inquire=False,
        reversal_blocks=True,
    ),
    "holds_unasked": Capabilities(
        answer_seconds=ANSWER_SECONDS, needs_confirmation=True, can_inquire=False, reversal_blocks=True
    ),
    "charges_again": Capabilities(
        answer_seconds=ANSWER_SECONDS, idempotent=frozenset({"confirm", "reverse", "refund"}), reversal_blocks=True
    ),
    "holds_for_ever": Capabilities(answer_seconds=ANSWER_SECONDS, needs_confirmation=True, reversal_blocks=True),
}
"""What each of the 12 hosts can do. One has no deadline, one no inquiries, one charges again what is asked again."""
