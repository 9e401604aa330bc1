"""What a result, or the acquirer's answer, means for its order: one table, no database."""

from __future__ import annotations

from typing import Any, Literal

from paydesk.core.errors import ErrorKind
from paydesk.core.money import CURRENCIES, minor_units
from paydesk.engine.device.errors import ORDER_FINISHED, RESULT_CONFLICT
from paydesk.engine.device.rules.reports import Report
from paydesk.engine.orders import status
from paydesk.engine.orders.order import Order
from paydesk.engine.payments.acquirer import Approved, Declined, Outcome
from paydesk.engine.payments.confirmation_store import Confirmation
from paydesk.engine.payments.terms import NO_TERMS, Terms

Situation = Literal[
    "open",  # at its terminal, and authorization may still be permitted
    "canceling",  # a cancel is requested
    "permitted",  # authorization is permitted
    "provisional",  # the acquirer has approved, and waits for this result
    "unknown",  # authorization was permitted, and the outcome is being inquired
    "unpermitted",  # the outcome is being inquired though authorization was never permitted
    "reversing",  # the inquiry did not find the payment and is reversing it
    "contradicted",  # another result was reported under the same id
    "detached",  # taken from its terminal
    "unpaid",  # ended without a payment
    "paid",  # ended with a payment
]
Reported = Literal[
    "approved",  # a payment as ordered
    "other_payment",  # a payment of another amount, or with another order's reference
    "payment",  # the payment that the order has
    "declined",
    "canceled",
    "unknown",
    "unreadable",
]
Decision = Literal[
    "end",  # end the order with the outcome
    "confirm",  # process the order with the acquirer's approval, and confirm it
    "undo",  # fail the order, and reverse the acquirer's approval
    "check",  # accept the result, and inquire at the acquirer
    "conflict",  # refuse and record the result, and inquire
    "finished",  # refuse and record it
    "inquire",  # refuse and record it, and inquire about a charge that the order does not know of
    "late_approval",  # refuse and record it, and reverse the payment
    "unreadable",  # refuse and record what can be read of it, inquire, and alert operators
]

_TABLE = """
              approved       other_payment  payment   declined  canceled  unknown   unreadable
open          end            conflict       -         end       end       check     unreadable
canceling     conflict       conflict       -         end       end       check     unreadable
permitted     end            conflict       -         end       conflict  check     unreadable
provisional   confirm        conflict       -         undo      undo      check     unreadable
unknown       end            conflict       -         end       conflict  check     unreadable
unpermitted   conflict       conflict       -         end       conflict  check     unreadable
reversing     late_approval  late_approval  -         end       conflict  check     unreadable
contradicted  conflict       conflict       -         conflict  conflict  conflict  unreadable
detached      late_approval  late_approval  -         finished  finished  finished  unreadable
unpaid        late_approval  late_approval  -         finished  finished  inquire   unreadable
paid          late_approval  late_approval  finished  finished  finished  finished  unreadable
"""


def _parsed(table: str) -> dict[Any, Any]:
    head, *rows = (line.split() for line in table.strip().splitlines())
    return {(name, row[0]): cell for row in rows for name, cell in zip(head, row[1:], strict=True) if cell != "-"}


TABLE: dict[tuple[Reported, Situation], Decision] = _parsed(_TABLE)
"""The decision by what is reported and the order's situation. `-` in the text: only a paid order has a payment."""

CLAIMING: tuple[Situation, ...] = ("open", "canceling", "permitted", "unknown", "unpermitted")
"""Where an approval as ordered claims its reference for the order: no other order may be paid with it."""


def situation_of(
    order: Order, *, is_being_reversed: bool, contradicts: bool, is_provisional: bool = False
) -> Situation:
    """Return the order's situation. The order is neither created nor overdue."""
    if order.status not in status.LIVE:
        return "unpaid" if order.paid_ms is None else "paid"
    if contradicts or order.detached_ms is not None:
        return "contradicted" if contradicts else "detached"
    if is_provisional:
        return "provisional"
    if order.state == status.CHECK_ON_TERMINAL:
        is_permitted = order.permitted_ms is not None
        return "reversing" if is_being_reversed else "unknown" if is_permitted else "unpermitted"
    if order.permitted_ms is not None:
        return "permitted"
    return "canceling" if order.state == status.CANCELLATION_REQUESTED else "open"


def reported_of(
    order: Order,
    report: Report | None,
    *,
    is_by_operator: bool,
    terms: Terms = NO_TERMS,
    approval: Confirmation | None = None,
) -> Reported:
    """Return what the result reports of the order, before its reference is claimed.

    `is_by_operator`: an operator resolved the order as approved without a reference; the first approval supplies it.
    `approval`: the acquirer's, which waits for this result.
    """
    if report is None:
        return "unreadable"
    if report.outcome != "approved":
        return report.outcome
    if approval is not None:
        paid = minor_units(report.paid_amount or "", CURRENCIES[order.currency].decimals)
        is_same = paid == approval.amount_minor and report.reference_id in (None, approval.reference_id)
        return "approved" if is_same else "other_payment"
    if not is_as_ordered(order, report, terms):
        return "other_payment"
    if order.paid_ms is not None and (is_by_operator or report.reference_id == order.reference_id):
        return "payment"
    return "approved"


def reported_by_acquirer(order: Order, outcome: Outcome, requested_minor: int) -> Reported:
    """Return what the acquirer's answer to the service's own request reports of the order."""
    if isinstance(outcome, Declined):
        return "declined"
    if not isinstance(outcome, Approved):
        return "unknown"
    if outcome.amount_minor != requested_minor:
        return "other_payment"
    is_payment = order.paid_ms is not None and order.reference_id in (None, outcome.reference_id)
    return "payment" if is_payment else "approved"


def tip_of(order: Order, report: Report) -> int | None:
    """Return the tip that the result reports, in minor units; None for an invalid amount."""
    return minor_units(report.tip_amount or "0", CURRENCIES[order.currency].decimals)


def is_as_ordered(order: Order, report: Report, terms: Terms) -> bool:
    """Return whether an approval has the order's amount, a tip that is allowed and, if paid by card, the card.

    Where the service asks the acquirer for the terminal, only the acquirer's answer approves an unpaid order.
    """
    paid = minor_units(report.paid_amount or "", CURRENCIES[order.currency].decimals)
    tip = tip_of(order, report)
    if paid is None or tip is None or paid != order.amount_minor + tip:
        return False
    if order.paid_minor is not None:
        is_allowed = paid == order.paid_minor
    else:
        is_by_service = terms.kind == "service" or terms.requested is not None
        is_allowed = not is_by_service and terms.tip_of(order, paid) is not None
    with_card = report.payment_method is not None and report.payment_method.type.endswith("_card")
    return is_allowed and (report.card is not None or not with_card)


def error_of(reported: Reported, situation: Situation, *, contradicts: bool) -> ErrorKind:
    """Return the error of a refused result."""
    has_ended = situation in ("unpaid", "paid") and reported != "unreadable" and not contradicts
    return ORDER_FINISHED if has_ended else RESULT_CONFLICT
