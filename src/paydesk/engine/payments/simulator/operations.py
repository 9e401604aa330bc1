"""The operation of simulated orders, which `paydesk serve` has too: test orders use the simulated acquirer anywhere."""

from __future__ import annotations

from paydesk.engine.orders.operations import ORDER
from paydesk.engine.payments.simulator import order_payments
from paydesk.engine.payments.simulator.schemas import SimulatedRequest
from paydesk.platform.operation import Operation

OPERATIONS: tuple[Operation, ...] = (
    ORDER.post(
        "/events",
        "simulate_order",
        order_payments.simulate,
        description=(
            "Acts in place of the terminal: the order passes through `at_terminal`, and only a processed order can be"
            " refunded. Every status change is committed, with its notification, before the response. A terminal that"
            " has the order receives `cancel`. While the terminal is permitted to authorize, the order cannot be moved"
            " until its outcome is unknown. After `action_required` there is no inquiry at the acquirer: end the order"
            " with another request."
        ),
        transaction="none",
        status=204,
        body=SimulatedRequest,
    ),
)
