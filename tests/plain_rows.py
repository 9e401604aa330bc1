"""Statements that insert rows directly: fewer columns matter to a list than to a service."""

from __future__ import annotations

from typing import Any

from paydesk.platform.storage.database import Database

SUBSCRIPTION = "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"
SUBSCRIBE = """
INSERT INTO subscriptions (subscription_id, application_id, live, topic, url, actions, secret_generation, created_ms)
VALUES ($1, 7, 0, 'orders', 'https://8.8.8.8/hooks?token=s3cretvalue', '[]', 1, 1)"""
SELLER = """
INSERT INTO sellers (seller_id, email, name, country, currency, password, created_ms)
VALUES ($1, $2, $3, 'BRA', 'BRL', '', 1) ON CONFLICT DO NOTHING"""
STORE = "INSERT INTO stores (seller_id, store_id, name, created_ms) VALUES ($1, $2, $3, 1)"
TERMINAL = """
INSERT INTO terminals (seller_id, terminal_id, live, store_id, pos_id, kind, is_virtual, operating_mode, session,
                       last_seen_ms, created_ms)
VALUES ($1, $2, 1, $3, 1, 'terminal', 0, 'PDV', 0, $4, 1)"""
EVENT = """
INSERT INTO order_events (seller_id, order_id, version, application_id, live, event_id, action, move, status,
                          status_detail, payment_status_detail, body, created_ms)
VALUES ($1, $2, $3, 7, 0, $4, $5, 'create', 'created', '', '', '{}', $6)"""
DELIVERY = """
INSERT INTO deliveries (seller_id, delivery_id, subscription_id, order_id, version, status, attempts, next_ms,
                        claimed_until_ms, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, 0, 0, 0, $7)"""
REFUND = """
INSERT INTO refunds (seller_id, refund_id, order_id, application_id, live, idempotency_key, amount, amount_minor,
                     status, attempts, unsent, next_ms, claimed_until_ms, created_ms)
VALUES ($1, $2, 'ORD01J67CQQH5904WDBVZEM4JMEP3', 7, 0, '', '1.00', 100, 'processed', 0, 0, 0, 0, 1)"""
INQUIRY = """
INSERT INTO inquiries (seller_id, order_id, live, reason, attempts, next_ms, created_ms, ended_ms, outcome)
VALUES ($1, $2, 0, '', 1, 1, 1, 1, 'approved')"""
REVERSAL = """
INSERT INTO reversals (seller_id, reversal_id, order_id, lease_id, result_id, live, amount_minor, reference_id, status,
                       attempts, next_ms, created_ms)
VALUES ($1, $2, 'ORD01J67CQQH5904WDBVZEM4JMEP3', $3, '1', 0, 100, '1', 'reversed', 1, 1, 1)"""
CONFIRMATION = """
INSERT INTO confirmations (seller_id, order_id, live, status, amount_minor, currency, reference_id, approved_ms,
                           decide_by_ms, attempts, next_ms, created_ms, ended_ms)
VALUES ($1, $2, 0, 'confirmed', 100, 'BRL', '1', 1, 1, 1, 1, 1, 1)"""


async def run(database: Database, sql: str, *args: Any) -> None:
    """Run a statement."""
    await database.write(lambda tx: tx.run(sql, *args))
