"""A virtual terminal of its own for each test, with pytest (docs/test-without-hardware.md).

pip install pytest requests
"""

import json
import uuid
from pathlib import Path

import pytest
import requests

CREDENTIALS = json.loads(Path(".paydesk/credentials.json").read_text())
TERMINALS = "/virtual/v1/terminals"


def api(method, path, body=None, **headers):
    headers["Authorization"] = f"Bearer {CREDENTIALS['test']['access_token']}"
    response = requests.request(method, CREDENTIALS["base_url"] + path, json=body, headers=headers, timeout=60)
    response.raise_for_status()
    return response.json() if response.content else None


def order_for(terminal, amount):
    order = {
        "type": "point",
        "transactions": {"payments": [{"amount": amount}]},
        "config": {"point": {"terminal_id": terminal}},
    }
    return api("POST", "/v1/orders", order, **{"X-Idempotency-Key": str(uuid.uuid4())})["id"]


@pytest.fixture
def terminal():
    terminal = api("POST", TERMINALS, {})["id"]
    yield terminal
    api("DELETE", f"{TERMINALS}/{terminal}?cancel=true")


def test_a_wrong_pin_is_declined_after_the_third_try(terminal):
    order = order_for(terminal, "24.90")
    api("GET", f"{TERMINALS}/{terminal}/screen?wait=10&until=present_card")
    api("POST", f"{TERMINALS}/{terminal}/actions", {"action": "insert", "card": "wrong_pin"})
    for _ in range(3):
        screen = api("POST", f"{TERMINALS}/{terminal}/actions", {"action": "pin", "digits": "1234"})
    assert (screen["screen"], screen["status_detail"]) == ("remove_card", "max_attempts_exceeded")
    api("POST", f"{TERMINALS}/{terminal}/actions", {"action": "remove_card"})
    api("GET", f"{TERMINALS}/{terminal}/screen?wait=10&until=idle")
    assert api("GET", f"/v1/orders/{order}")["status"] == "failed"
