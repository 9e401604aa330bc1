"""The objects that prevent the deletion of an application, a seller or an operator; and those deleted with a seller."""

from __future__ import annotations

from paydesk.engine.terminals.stores import NAMED_MAX
from paydesk.engine.webhooks.schedule import PENDING
from paydesk.platform.storage.database import Transaction

# An application has orders only with sellers that have authorized it. An order's first event shows its application, in
# one of the two indexes of feeds.
APPLICATION_ORDERS = """
WITH own AS (SELECT DISTINCT seller_id, application_id FROM authorizations WHERE application_id = $1)
SELECT order_id FROM (
  SELECT e.order_id FROM own
    JOIN order_events e ON e.seller_id = own.seller_id AND e.application_id = own.application_id
   WHERE e.version = 1 AND e.number IS NOT NULL
   UNION ALL
  SELECT e.order_id FROM own
    JOIN order_events e ON e.seller_id = own.seller_id AND e.application_id = own.application_id
   WHERE e.version = 1 AND e.number IS NULL
) AS found LIMIT $2"""

APPLICATION_AUTHORIZATIONS = """
SELECT authorization_id || '-' || CAST(seller_id AS text) FROM authorizations
 WHERE application_id = $1 AND withdrawn_ms IS NULL ORDER BY seller_id, authorization_id LIMIT $2"""

APPLICATION_SUBSCRIPTIONS = """
SELECT subscription_id FROM subscriptions
 WHERE application_id = $1 AND deleted_ms IS NULL ORDER BY subscription_id LIMIT $2"""

SELLER_STORES = "SELECT store_id FROM stores WHERE seller_id = $1 ORDER BY store_id LIMIT $2"

SELLER_TERMINALS = "SELECT terminal_id FROM terminals WHERE seller_id = $1 ORDER BY terminal_id LIMIT $2"

SELLER_ORDERS = "SELECT order_id FROM orders WHERE seller_id = $1 ORDER BY order_id LIMIT $2"

SELLER_AUTHORIZATIONS = """
SELECT authorization_id || '-' || CAST(seller_id AS text) FROM authorizations
 WHERE seller_id = $1 AND withdrawn_ms IS NULL ORDER BY authorization_id LIMIT $2"""

SELLER_DELIVERIES = f"SELECT delivery_id FROM deliveries WHERE seller_id = $1 AND {PENDING} LIMIT $2"

OPERATOR_CHANGES = "SELECT entry_id FROM operator_audit WHERE operator_id = $1 LIMIT $2"

SELLER_SESSIONS = "DELETE FROM seller_sessions WHERE seller_id = $1"

# Of a seller without orders and terminals: ended authorizations with their tokens, and what retention has not deleted.
OF_SELLER = tuple(
    f"DELETE FROM {table} WHERE seller_id = $1"
    for table in (
        "codes",
        "access_tokens",
        "refresh_tokens",
        "token_families",
        "authorizations",
        "consent_requests",
        "application_events",
        "attempts",
        "deliveries",
        "device_tokens",
        "terminal_sessions",
        "event_counters",
        "idempotency_keys",
        "print_actions",
    )
)


async def ids(tx: Transaction, sql: str, subject: int | str) -> list[str]:
    """Return the ids that one of these queries finds, at most `NAMED_MAX`."""
    return [str(row[0]) for row in await tx.all(sql, subject, NAMED_MAX)]


async def end_sessions(tx: Transaction, seller_id: int) -> None:
    """Delete the seller's sessions. A consent in progress is committed before, so that its authorization is seen."""
    await tx.run(SELLER_SESSIONS, seller_id)


async def delete_belongings(tx: Transaction, seller_id: int) -> None:
    """Delete the rows of a seller that has no orders, stores and terminals."""
    for statement in OF_SELLER:
        await tx.run(statement, seller_id)
