"""The rows of the interface that exist in development alone."""

from __future__ import annotations

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.core.ids import ORDER_ID_PATTERN
from paydesk.operation import Operation, Query
from paydesk.orders.errors import (
    ORDER_NOT_FOUND,
)
from paydesk.sandbox import callback, handlers, inbox, simulated_payments, terminal_acquirer
from paydesk.sandbox.schemas import ACQUIRER_ANSWER, CLOCK, INBOX, AcquirerRequest, ClockMove, SimulatedRequest

SIMULATION: tuple[Operation, ...] = (
    Operation(
        method="POST",
        path="/v1/orders/{order_id}/events",
        name="simulate_order",
        summary="Bring a test order to a status",
        description=(
            "Without its terminal, by way of `at_terminal`; only an order that is processed becomes refunded. Every"
            " move on the way is committed, and notified, before the answer. A terminal that has the order is told"
            " `cancel`. After the terminal was granted to authorize it is too late, until the outcome is unknown."
            " After `action_required` the acquirer is not asked: a further request ends the order."
        ),
        surface="application",
        refuses_test_header=True,
        scope="write",
        handler=simulated_payments.bring,
        transaction="none",
        status=204,
        body=SimulatedRequest,
        path_pattern=ORDER_ID_PATTERN,
        errors=(ORDER_NOT_FOUND,),
    ),
)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="POST",
        path=inbox.PATH,
        name="demo_inbox_receive",
        summary="Receive a notification",
        surface="public",
        handler=handlers.receive,
        answer={"type": "object"},
        example={},
        transaction="none",
        raw_body=True,
        query=(Query("data.id", {"type": "string"}, "What the notification is about, in lower case."),),
        development=True,
        description="The receiver of `paydesk dev`: it checks both signatures and keeps the last 1,000 notifications.",
    ),
    Operation(
        method="GET",
        path=inbox.PATH,
        name="demo_inbox_show",
        summary="Show the received notifications",
        surface="public",
        handler=handlers.show_inbox,
        answer=INBOX,
        transaction="read",
        development=True,
    ),
    Operation(
        method="DELETE",
        path=inbox.PATH,
        name="demo_inbox_empty",
        summary="Forget the received notifications",
        surface="public",
        handler=handlers.empty_inbox,
        status=204,
        development=True,
    ),
    Operation(
        method="GET",
        path="/demo/callback",
        name="demo_callback",
        summary="Show the code that the authorization page gave",
        surface="public",
        handler=handlers.show_callback,
        transaction="none",
        query=tuple(Query(name, {"type": "string"}, f"Shown as `{name}`.") for name in callback.SHOWN),
        development=True,
        is_constant=True,
        media_type="text/html",
    ),
    Operation(
        method="POST",
        path="/virtual/v1/acquirer/payments",
        name="acquirer_authorize",
        summary="Ask the simulated acquirer for an authorization",
        surface="device",
        handler=terminal_acquirer.authorize,
        answer=ACQUIRER_ANSWER,
        example={
            "outcome": "approved",
            "amount": "24.90",
            "authorization_code": "831000",
            "reference_id": "41150199898610",
        },
        transaction="none",
        body=AcquirerRequest,
        errors=(PROPERTY_VALUE,),
        development=True,
        description=(
            "Where virtual terminals go once they are granted, as a real one goes to its own acquirer. `payment_id` is"
            " the key: asked again, it answers the same and charges nothing. `docs/simulator.md` has its cards."
        ),
    ),
    Operation(
        method="GET",
        path="/dev/clock",
        name="clock_show",
        summary="Read the clock",
        surface="operator",
        handler=handlers.show_clock,
        answer=CLOCK,
        example={"now": "2026-01-31T14:26:42.109Z", "frozen": False, "offset_seconds": 61.0},
        transaction="none",
        development=True,
    ),
    Operation(
        method="POST",
        path="/dev/clock",
        name="clock_move",
        summary="Freeze the clock, advance it or let it run again",
        surface="operator",
        handler=handlers.move_clock,
        answer=CLOCK,
        example={"now": "2026-01-31T14:26:42.109Z", "frozen": True, "offset_seconds": 61.0},
        transaction="none",
        body=ClockMove,
        errors=(PROPERTY_VALUE,),
        development=True,
        description=(
            "What is stored (expiry, lifetimes, retries) follows this clock; it never goes back, and keeps its place "
            "over a restart. Sockets, presence, rates and the time in signatures keep the machine's."
        ),
    ),
)
