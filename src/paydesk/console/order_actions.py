"""What an operator does to an order's notifications on its page: send one again."""

from __future__ import annotations

from paydesk.console import deliveries
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import screen
from paydesk.operation import Answer

SECTION = "orders"


@screen
async def resend(request: ConsoleRequest) -> Answer:
    """Send a notification of an order again."""
    order_id, delivery_id = request.call.paths
    return await deliveries.send_again(request, delivery_id, f"{PATH}/orders/{order_id}", SECTION)
