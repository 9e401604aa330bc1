"""A receiver of webhooks with Starlette.

pip install starlette uvicorn standardwebhooks
WEBHOOK_SECRET=whsec_… uvicorn receiver_starlette:app --port 3000
"""

import os
import sqlite3
from contextlib import closing
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

BODY_BYTES_MAX = 1_000_000
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


async def receive(request: Request) -> Response:
    """Verify the notification, store it, and only then answer 200."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            return Response("The body is too large.", 413)
    try:
        notification = webhook.verify(body, dict(request.headers))
    except (WebhookVerificationError, ValueError):  # ValueError: a header or the body is malformed
        return Response("The signature is not valid.", 401)
    await run_in_threadpool(store, notification)
    return Response("Stored.")


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

app = Starlette(routes=[Route("/webhooks", receive, methods=["POST"])])
