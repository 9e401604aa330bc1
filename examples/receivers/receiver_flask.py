"""A receiver of webhooks with Flask.

pip install flask standardwebhooks
WEBHOOK_SECRET=whsec_… flask --app receiver_flask run --port 3000
"""

import os
import sqlite3
from contextlib import closing
from typing import Any

from flask import Flask, request
from standardwebhooks import Webhook, WebhookVerificationError

TABLES = """
CREATE TABLE IF NOT EXISTS notifications (id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, version INTEGER NOT NULL, status TEXT NOT NULL);
"""
NEW_NOTIFICATION = "INSERT INTO notifications (id) VALUES (?) ON CONFLICT DO NOTHING"
NEWER_ORDER = """
INSERT INTO orders (id, version, status) VALUES (:id, :version, :status)
    ON CONFLICT (id) DO UPDATE SET version = excluded.version, status = excluded.status
    WHERE excluded.version > orders.version
"""

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
app = Flask(__name__)
app.config["MAX_CONTENT_LENGTH"] = 1_000_000


@app.post("/webhooks")
def receive() -> tuple[str, int]:
    """Verify the notification, store it, and only then answer 200."""
    try:
        notification = webhook.verify(request.get_data(), dict(request.headers))
    except (WebhookVerificationError, ValueError):  # ValueError: a header or the body is malformed
        return "The signature is not valid.", 401
    store(notification)
    return "Stored.", 200


def store(notification: dict[str, Any]) -> None:
    """Store the notification and what it changes in one transaction, so that a duplicate changes nothing."""
    with closing(sqlite3.connect("webhooks.db")) as database, database:
        if not database.execute(NEW_NOTIFICATION, [str(notification["id"])]).rowcount:
            return
        if notification["type"] == "order":
            order = notification["data"]
            if database.execute(NEWER_ORDER, order).rowcount:
                # Change your own tables here, in this transaction. Leave slow work to a job that reads them.
                print(f"{order['id']} is {order['status']}, version {order['version']}", flush=True)


with closing(sqlite3.connect("webhooks.db")) as new_database:
    new_database.executescript(TABLES)
