"""Pay, refund, search and cancel with the official client for Python (docs/clients.md).

pip install mercadopago
CODE=$(paydesk code) python payments.py   # in the folder in which `paydesk dev` runs
"""

import json
import os
import time
import uuid
from pathlib import Path

import requests
from mercadopago import SDK
from mercadopago.config import RequestOptions
from mercadopago.errors import MercadoPagoError
from mercadopago.http import HttpClient
from mercadopago.webhook import WebhookSignatureValidator

credentials = json.loads(Path(".paydesk/credentials.json").read_text())
base_url = credentials["base_url"]  # over https: credentials["tls_base_url"]


class Paydesk(HttpClient):
    def request(self, method, url, **options):
        return super().request(method, url.replace("https://api.mercadopago.com", base_url), **options)


sdk = SDK(credentials["test"]["access_token"], http_client=Paydesk())


def headers(**named):
    return RequestOptions(custom_headers={name.replace("_", "-"): value for name, value in named.items()})


def create(terminal_id, amount):
    body = {
        "type": "point",
        "external_reference": "python-1",
        "transactions": {"payments": [{"amount": amount}]},
        "config": {"point": {"terminal_id": terminal_id}},
    }
    answer = sdk.order().create(body, headers(X_Idempotency_Key=str(uuid.uuid4())))
    answer.raise_for_status()
    return answer["response"]


def ended(order_id):
    for _ in range(60):
        order = sdk.order().get(order_id)["response"]
        if order["status"] not in ("created", "at_terminal"):
            return order
        time.sleep(0.5)
    raise TimeoutError(order_id)


order = ended(create(credentials["terminals"][0]["id"], "24.90")["id"])
print("create:", order["status"])

payment = order["transactions"]["payments"][0]
part = {"transactions": [{"id": payment["id"], "amount": "4.90"}]}
print("refund a part:", sdk.order().refund(order["id"], part)["response"]["status_detail"])
print("refund the rest:", sdk.order().refund(order["id"])["response"]["status"])
found = sdk.order().search({"external_reference": "python-1", "limit": 10})["response"]
print("search:", found["data"][0]["id"] == order["id"])

order_id = create(credentials["terminals"][-1]["id"], "10.00")["id"]
sdk.order().cancel(order_id, headers(X_Allow_Cancelable_Status="at_terminal")).raise_for_status()
print("cancel:", ended(order_id)["status"])

try:
    sdk.order().create({"type": "point"}).raise_for_status()
except MercadoPagoError as error:
    print("error:", error.status_code, error.error, [fault["details"] for fault in error.response["errors"]])

application = {"client_id": credentials["client_id"], "client_secret": credentials["client_secret"]}
first = sdk.oauth().create(
    {
        **application,
        "grant_type": "authorization_code",
        "code": os.environ["CODE"],
        "redirect_uri": credentials["redirect_uri"],
        "test_token": True,
    }
)["response"]
refresh = {**application, "grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
next_one = sdk.oauth().refresh(refresh)["response"]
print("tokens:", first["live_mode"], next_one["access_token"][:5])

bearer = {"Authorization": f"Bearer {credentials['test']['access_token']}"}
terminals = requests.get(f"{base_url}/terminals/v1/list", headers=bearer, timeout=10).json()["data"]["terminals"]
print("terminals:", credentials["terminals"][0]["id"] in [terminal["id"] for terminal in terminals])

order_id = create(credentials["terminals"][-1]["id"], "12.00")["id"]
simulated = requests.post(
    f"{base_url}/v1/orders/{order_id}/events", json={"status": "processed"}, headers=bearer, timeout=10
)
print("simulate:", simulated.status_code, ended(order_id)["status"])

delivery = requests.get(f"{base_url}/demo/inbox", timeout=10).json()["data"][-1]
WebhookSignatureValidator.validate(
    delivery["headers"]["x-signature"],
    delivery["headers"]["x-request-id"],
    delivery["order_id"].lower(),
    credentials["webhook"]["secret"],
    tolerance_seconds=300,
)
print("webhook: valid")
