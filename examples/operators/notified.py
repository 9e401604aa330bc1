"""A receiver of operators' notifications with Flask.

pip install flask standardwebhooks
WEBHOOK_SECRET=whsec_… flask --app notified run --port 3000
"""

import os

from flask import Flask, request
from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
app = Flask(__name__)


@app.post("/operators")
def receive() -> tuple[str, int]:
    """Verify the notification, then print what it says."""
    try:
        notification = webhook.verify(request.get_data(), dict(request.headers))
    except (WebhookVerificationError, ValueError):  # ValueError: a header or the body is malformed
        return "The signature is not valid.", 401
    data = notification["data"]
    print(notification["action"], data.get("state", ""), data["message"], data["url"], flush=True)
    return "Printed.", 200
