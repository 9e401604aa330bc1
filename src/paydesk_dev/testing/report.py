"""The section *paydesk* of a failed test's report: what happened to its orders, terminals and notifications."""

from __future__ import annotations

from collections.abc import Iterator

from paydesk_dev.testing.errors import Refused
from paydesk_dev.testing.paydesk import Paydesk
from paydesk_dev.testing.terminal import describe as describe_screen


def describe(paydesk: Paydesk) -> str:
    """Return it; if the service does not answer as expected, as far as it was read."""
    lines: list[str] = []
    try:
        lines += _lines(paydesk)
    except Exception as error:  # noqa: BLE001 - a failure here must not hide that of the test
        lines.append(repr(error))
    return "\n".join(lines)


def _lines(paydesk: Paydesk) -> Iterator[str]:
    yield from paydesk.failures()
    for order in paydesk.orders():
        reference = f" {order.reference}" if order.reference else ""
        yield f"{order.id}{reference} {order.total_amount} {order.currency}: {order.status} ({order.detail})"
        events = paydesk.service.ask("GET", f"/operator/v1/orders/{order.id}")["events"]
        yield "  steps: " + ", ".join(f"{event['status']} ({event['status_detail']})" for event in events)
        sent = paydesk.webhooks.received(order=order)
        yield "  notifications: " + (", ".join(f"{one.action} {one.answer or one.error}" for one in sent) or "none")
        if not paydesk.service.is_own:
            yield f"  {paydesk.base_url}/console/orders/{order.id}"
    for charge in paydesk.charges():
        yield f"charged {charge.charged_amount} {charge.currency} for {charge.order_id}"
    for fault in paydesk.faults.added:
        yield str(fault)
    for terminal in paydesk.terminals:
        try:
            yield f"{terminal.id}: {describe_screen(terminal.screen())}"
        except Refused as refused:
            # After the test it is deleted.
            yield f"{terminal.id}: {refused.message}"
    if (log := paydesk.service.log) is not None:
        yield f"log of the service: {log}"
