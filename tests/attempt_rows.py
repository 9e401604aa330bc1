"""Rows of attempts as the delivery worker records them, for tests that run no worker."""

from __future__ import annotations

from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.delivery.send import Message, Request, request
from paydesk.platform.storage.database import Database, Transaction

ADD = """
INSERT INTO attempts (seller_id, delivery_id, attempt, started_ms, duration_ms, answer_status, answer_body, error,
                      request)
VALUES ($1, $2, $3, $4, 31, $5, $6, $7, $8)
"""
COUNT = """
UPDATE deliveries SET status = $3, attempts = $4, ended_ms = $5 WHERE seller_id = $1 AND delivery_id = $2
"""
BODY = """
SELECT e.body, d.order_id FROM deliveries d
  JOIN order_events e ON e.seller_id = d.seller_id AND e.order_id = d.order_id AND e.version = d.version
 WHERE d.seller_id = $1 AND d.delivery_id = $2
"""
SECONDS = 1_780_000_000


async def add_attempt(
    database: Database,
    seller_id: int,
    delivery_id: str,
    secret: Secret,
    *,
    number: int = 1,
    url: str = "https://8.8.8.8/hook",
    status: str = "exhausted",
    answer: tuple[int, str] | None = None,
    error: str | None = None,
) -> tuple[Request, str]:
    """Record an attempt signed with this secret, and set the delivery's status; return its request and its body."""

    async def work(tx: Transaction) -> tuple[Request, str]:
        row = await tx.one(BODY, seller_id, delivery_id)
        assert row is not None
        body, order_id = row
        message = Message(
            delivery_id=delivery_id,
            url=url,
            topic="orders",
            seller_id=seller_id,
            source_id=order_id,
            attempt=number,
            body=str(body),
        )
        sent = request(message, [secret], SECONDS + number)
        code, text = answer or (None, "")
        at_ms = (SECONDS + number) * 1000
        await tx.run(ADD, seller_id, delivery_id, number, at_ms, code, text, error, sent.stored())
        await tx.run(COUNT, seller_id, delivery_id, status, number, None if status == "pending" else at_ms)
        return sent, str(body)

    return await database.write(work)
