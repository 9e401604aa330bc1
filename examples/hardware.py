"""The network, the card reader and the acquirer of `terminal.py`: replace them by those of your terminal.

Here a simulated buyer presents a test card, and the acquirer is the simulated one of `paydesk dev`.
"""

import base64
import http.client
import json
import os
import time
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]

BUYER_SECONDS = float(os.environ.get("BUYER_SECONDS", "1"))
LAST_DIGITS = os.environ.get("LAST_DIGITS", "5682")
"""The last digits of the test card: 5682 is approved, 9002 is declined. docs/simulator.md lists all."""
CARD_ACCEPTS = os.environ.get("CARD_ACCEPTS", "1") == "1"
"""Whether the chip agrees to a payment that the issuer has approved."""

requests: dict[str, float] = {}
"""By order: when its card was requested."""


def send(method: str, url: str, body: Json | None = None, token: str = "", seconds: float = 10) -> tuple[int, Json]:
    """Return the status and the JSON object of the answer. Raises `ConnectionError`: repeat the call later."""
    address = urlsplit(url)
    connect = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = connect(address.netloc, timeout=seconds)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        connection.request(method, f"{address.path}?{address.query}", json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        status, content = answer.status, json.loads(answer.read() or b"{}")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ConnectionError(f"{method} {address.path}: {error!r}") from None
    finally:
        connection.close()
    refusal = f"{method} {address.path}: {status} {content.get('message', '')}"
    if status in (408, 429) or status >= 500:
        raise ConnectionError(refusal)
    if status >= 400 and content.get("error") != "authorization_pending":
        print(refusal, flush=True)
    return status, content


def read_card(order: Json) -> Json | None:
    """Return the payment method and the masked card; None until the buyer presents a card."""
    requested_at = requests.setdefault(order["id"], time.monotonic())
    if time.monotonic() < requested_at + BUYER_SECONDS:
        return None
    card = {"first_digits": "423564", "last_digits": LAST_DIGITS, "entry_mode": "contactless"}
    return {"payment_method": {"id": "visa", "type": "credit_card", "installments": 1}, "card": card}


def encrypt(order: Json) -> str:
    """Return the card data, encrypted for the acquirer alone, in base64. The same for a repeated request."""
    return base64.b64encode(f"card {LAST_DIGITS} for {order['payment_id']}".encode()).decode()


def finish_card(issuer_data: str) -> tuple[bool, Json]:
    """Give the issuer's data to the card. Return whether it accepts the payment, and what it says to the issuer.

    Here the chip data is the simulated card's application cryptogram (tag 9F26).
    """
    del issuer_data
    return CARD_ACCEPTS, {"chip_data": base64.b64encode(bytes.fromhex("9f2608a1b2c3d4e5f60718")).decode()}


def charge(order: Json, card: Json, base_url: str, token: str) -> Json:
    """Charge the card, with `payment_id` as the acquirer's reference. Return the result to report.

    Without an answer from the acquirer the outcome is `unknown`: the card may be charged.
    """
    payment = {"payment_id": order["payment_id"], "amount": order["amount"], **card}
    try:
        answer = send("POST", f"{base_url}/virtual/v1/acquirer/payments", payment, token, 20)[1]
    except ConnectionError:
        return {"outcome": "unknown"}
    match answer.get("outcome"):
        case "approved":
            evidence = {name: answer[name] for name in ("authorization_code", "reference_id")}
            return (
                {"outcome": "approved", "status_detail": "accredited", "paid_amount": order["amount"]} | card | evidence
            )
        case "declined":
            return {"outcome": "declined", "status_detail": answer["status_detail"], **card}
        case "not_sent":
            return {"outcome": "declined", "status_detail": "processing_error"}
    return {"outcome": "unknown"}
