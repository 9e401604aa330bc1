"""Create an order from a payment intent (docs/migrate.md).

pip install requests
"""

import json
import uuid
from pathlib import Path

import requests

credentials = json.loads(Path(".paydesk/credentials.json").read_text())


def order_of(device_id, intent):
    """Return the order for a payment intent."""
    info, payment = intent.get("additional_info", {}), intent.get("payment", {})
    point = {"terminal_id": device_id}
    if "print_on_terminal" in info:
        point["print_on_terminal"] = "seller_ticket" if info["print_on_terminal"] else "no_ticket"
    if "ticket_number" in info:
        point["ticket_number"] = info["ticket_number"]
    method = {}
    if payment.get("type") in ("credit_card", "debit_card", "qr"):
        method["default_type"] = payment["type"]
    if payment.get("type") == "credit_card" and "installments" in payment:
        method["default_installments"] = payment["installments"]
    if "installments_cost" in payment:
        method["installments_cost"] = payment["installments_cost"]
    order = {
        "type": "point",
        # From cents. For a currency without decimals, such as CLP: str(intent["amount"]).
        "transactions": {"payments": [{"amount": f"{intent['amount'] // 100}.{intent['amount'] % 100:02}"}]},
        "config": {"point": point, **({"payment_method": method} if method else {})},
    }
    if "description" in intent:
        order["description"] = intent["description"]
    if "external_reference" in info:
        order["external_reference"] = info["external_reference"]
    return order


intent = {
    "amount": 1500,
    "description": "Two coffees",
    "payment": {"type": "credit_card", "installments": 1, "installments_cost": "seller"},
    "additional_info": {"external_reference": "sale-0042", "print_on_terminal": True, "ticket_number": "S0392JED"},
}
answer = requests.post(
    f"{credentials['base_url']}/v1/orders",
    json=order_of(credentials["terminals"][0]["id"], intent),
    headers={
        "Authorization": f"Bearer {credentials['test']['access_token']}",
        "X-Idempotency-Key": str(uuid.uuid4()),
    },
    timeout=15,
)
answer.raise_for_status()
print(answer.json()["id"], answer.json()["total_amount"])
