"""A client with generated types: creates, gets and refunds an order, and lists terminals."""

from __future__ import annotations

import json
import os
import sys
import uuid

from paydesk_client import AuthenticatedClient
from paydesk_client.api.application import create_order, get_order, list_terminals, refund_order
from paydesk_client.models import (
    ConfigRequest,
    Order,
    OrderRequest,
    PaymentRequest,
    PointRequest,
    RefundedOrder,
    RefundPartRequest,
    RefundRequest,
    Terminal,
    TerminalList,
    TransactionsRequest,
)


def main() -> None:
    """Print what was made, as JSON."""
    client = AuthenticatedClient(os.environ["BASE_URL"], os.environ["ACCESS_TOKEN"])
    request = OrderRequest(
        type_="point",
        transactions=TransactionsRequest([PaymentRequest("24.90")]),
        config=ConfigRequest(PointRequest(os.environ["TERMINAL_ID"])),
    )
    created = create_order.sync(client=client, body=request, x_idempotency_key=str(uuid.uuid4()))
    assert isinstance(created, Order)
    order = get_order.sync(created.id, client=client)
    assert isinstance(order, Order)
    paid, key = os.environ["PAID_ID"], str(uuid.uuid4())
    part = RefundPartRequest(f"PAY{paid[3:]}", "1.00")
    refunded = refund_order.sync(paid, client=client, body=RefundRequest([part]), x_idempotency_key=key)
    assert isinstance(refunded, RefundedOrder)
    listed = list_terminals.sync(client=client)
    assert isinstance(listed, TerminalList)
    terminals: list[Terminal] = listed.data.terminals
    terminal: str = order.config.point.terminal_id
    shown = {
        "order": order.status.value,
        "terminal": terminal,
        "refund": refunded.transactions.refunds[0].status.value,
        "terminals": len(terminals),
    }
    sys.stdout.write(json.dumps(shown) + "\n")


main()
