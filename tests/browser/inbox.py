"""Fills the demo inbox with signed notifications, and some whose signature is not valid."""

from __future__ import annotations

import json
import time
import uuid

from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.signatures.signature import standard_headers, x_signature
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from service import KEYS, Service

MOVES = (
    ("order.created", "created", "created"),
    ("order.at_terminal", "at_terminal", "at_terminal"),
    ("order.processed", "processed", "accredited"),
    ("order.failed", "failed", "insufficient_amount"),
)
ORDER_ID = "ORD01KAQ5Z3M8VJ2E4T7QXW9D{number:04d}"


async def subscribe(service: Service, url: str = "") -> Secret:
    """Subscribe the application to its demo inbox; return the secret."""
    _, secret = await service.database.write(
        lambda tx: subscriptions.create(
            tx,
            KEYS,
            application_id=service.scene.application.application_id,
            live=False,
            url=url or f"{service.base_url}/demo/inbox",
            actions=[],
            now_ms=0,
        )
    )
    return secret


async def fill(service: Service, secret: Secret, count: int) -> None:
    """Send `count` notifications, four for each order."""
    for number in range(count):
        order, version = divmod(number, len(MOVES))
        action, status, detail = MOVES[version]
        await send(service, secret, order, version + 1, (action, status, detail), retries=number % 7 // 6)


async def send(
    service: Service, secret: Secret, order: int, version: int, move: tuple[str, str, str], retries: int = 0
) -> None:
    """Send a notification about an order. That of a failure is not signed correctly for two orders of three."""
    action, status, detail = move
    order_id = ORDER_ID.format(number=order)
    document = {
        "id": f"01KAQ5Z3M8VJ2E4T7Q{order:04d}{version}",
        "action": action,
        "api_version": "v1",
        "type": "order",
        "live_mode": False,
        "date_created": "2026-01-31T14:26:42.109Z",
        "data": {
            "id": order_id,
            "type": "point",
            "external_reference": "sale-0042",
            "status": status,
            "status_detail": detail,
            "version": version,
            "total_paid_amount": "24.90",
        },
    }
    body, seconds = json.dumps(document, separators=(",", ":")), int(time.time())
    request_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{order_id}/{version}"))
    is_wrong = status == "failed" and order % 3 < 2
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Paydesk/0.1",
        "X-Request-Id": request_id,
        "X-Retry": str(retries),
        "X-Signature": x_signature(
            secret, data_id="another" if is_wrong else order_id.lower(), request_id=request_id, seconds=seconds
        ),
        **standard_headers([secret], message_id=str(document["id"]), seconds=seconds, body=body),
    }
    address, query = f"{service.base_url}/demo/inbox", {"data.id": order_id.lower(), "type": "order"}
    async with service.session.post(address, params=query, data=body.encode(), headers=headers) as reply:
        assert reply.status == 200, await reply.text()
