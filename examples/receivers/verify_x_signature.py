"""A receiver of webhooks with Flask that verifies X-Signature, and gets the order, because its body is not signed.

pip install flask requests
WEBHOOK_SECRET=whsec_… BASE_URL=https://… ACCESS_TOKEN=… flask --app verify_x_signature run --port 3000
"""

import hashlib
import hmac
import os
import time

import requests
from flask import Flask, request

TOLERANCE_SECONDS = 300
SECRET = os.environ["WEBHOOK_SECRET"]
BASE_URL = os.environ["BASE_URL"]
ACCESS_TOKEN = os.environ["ACCESS_TOKEN"]

app = Flask(__name__)


def is_signed(data_id: str, request_id: str, signature: str) -> bool:
    """Return whether `signature`, the header X-Signature, was made with the secret in the last five minutes."""
    parts = dict(part.strip().partition("=")[::2] for part in signature.split(","))
    seconds = parts.get("ts", "")
    manifest = f"id:{data_id};request-id:{request_id};ts:{seconds};"
    expected = hmac.new(SECRET.encode(), manifest.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), parts.get("v1", "").encode()):
        return False
    return abs(time.time() - int(seconds)) <= TOLERANCE_SECONDS


@app.post("/webhooks")
def receive() -> tuple[str, int]:
    """Verify the query, then get the order's state: the body may be forged."""
    data_id = request.args.get("data.id", "")  # an order's id, in lower case
    if not is_signed(data_id, request.headers.get("X-Request-Id", ""), request.headers.get("X-Signature", "")):
        return "The signature is not valid.", 401
    if request.args.get("type") != "order":
        return "Ignored.", 200
    headers = {"Authorization": f"Bearer {ACCESS_TOKEN}"}
    answer = requests.get(f"{BASE_URL}/v1/orders/{data_id.upper()}", headers=headers, timeout=10)
    answer.raise_for_status()  # An exception is answered with 500, so the notification is sent again.
    order = answer.json()
    print(f"{order['id']} is {order['status']}, version {order['version']}", flush=True)
    return "Stored.", 200
