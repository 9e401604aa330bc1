"""A whole payment with the official Python client, unmodified and unconfigured: its address is the vendor's.

Standard input has the client's credentials, a code and a terminal as JSON; standard output gets each answer.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import mercadopago

given = json.load(sys.stdin)
secret = {name: given[name] for name in ("client_id", "client_secret", "redirect_uri")}
exchange = {**secret, "grant_type": "authorization_code", "code": given["code"], "test_token": "true"}


def body(answer: Any) -> Any:
    """Return the body of an answer. Raises the client's own error for a refusal."""
    answer.raise_for_status()
    return answer["response"]


token = body(mercadopago.SDK("none").oauth().create(exchange))
sdk = mercadopago.SDK(token["access_token"])
# The client has no class for terminals, but its transport.
listed = sdk.http_client.get(
    "https://api.mercadopago.com/terminals/v1/list", {"Authorization": f"Bearer {token['access_token']}"}
)
payment = {"payments": [{"amount": "24.90"}]}
config = {"point": {"terminal_id": given["terminal_id"]}}
order = body(sdk.order().create({"type": "point", "transactions": payment, "config": config}))
ends_at = time.monotonic() + 30
while (paid := body(sdk.order().get(order["id"])))["status"] != "processed" and time.monotonic() < ends_at:
    time.sleep(0.1)
refunded = body(sdk.order().refund(order["id"]))
json.dump({"token": token, "terminals": listed["response"], "paid": paid, "refunded": refunded}, sys.stdout)
