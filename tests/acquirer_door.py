"""The door of the simulated acquirer in a node of the tests: terminals that keep its book go there with a card.

`paydesk serve` has no such door, since a real terminal goes to its own acquirer; what it does there, it does here. A
node that dies takes the answer along, as a line that breaks would.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from paydesk.engine.payments.acquirer import Acquirer, Approved, Card, Declined, Payment
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk.platform.health.clock import ClockJumped
from paydesk.platform.http.asgi import Receive, Scope, Send

PATH = "/acquirer/payments"


def asking(payment: Payment, card: str) -> dict[str, Any]:
    """The body that asks for an authorization with one of the test cards."""
    return {"payment": asdict(payment), "card": card}


def with_door(app: Any, acquirer: Acquirer) -> Any:
    """The application, beside which `POST /acquirer/payments` authorizes."""

    async def knocking(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") != PATH:
            await app(scope, receive, send)
            return
        body = await _read(receive)
        if body is None:
            return
        asked = json.loads(body)
        card = CARDS[asked["card"]]
        presented = Card(card.brand, card.type, card.first_digits, card.last_digits, "contactless")
        try:
            outcome = await acquirer.authorize(Payment(**asked["payment"]), presented)
        except ClockJumped:
            await _answer(send, 503, {})
        else:
            await _answer(send, 200, _told(outcome))

    return knocking


def _told(outcome: Any) -> dict[str, str]:
    if isinstance(outcome, Approved):
        return {
            "outcome": "approved",
            "reference_id": outcome.reference_id,
            "authorization_code": outcome.authorization_code or "",
        }
    if isinstance(outcome, Declined):
        return {"outcome": "declined", "status_detail": outcome.detail}
    return {"outcome": "unknown"}


async def _read(receive: Receive) -> bytes | None:
    """The body; None where its sender was cut off in the midst of it."""
    body, is_whole = bytearray(), False
    while not is_whole:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        is_whole = not message.get("more_body", False)
    return bytes(body)


async def _answer(send: Send, status: int, document: dict[str, str]) -> None:
    body = json.dumps(document).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
