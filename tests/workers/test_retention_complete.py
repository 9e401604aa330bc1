"""Every table is pruned by a rule, or is kept for ever with a reason; so are the keys of every idempotent operation."""

from __future__ import annotations

import re

from every_operation import OPERATIONS
from paydesk.engine.oauth.retention import PRUNE_FAMILY, PRUNE_TOKENS
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.migrate import shipped
from recording_database import RecordingDatabase
from retention_scene import add_seller, sweep

TABLES = set(re.findall(r"CREATE TABLE (?!\w+_new\b)(\w+)", "".join(migration.script for migration in shipped())))

_BY_HAND = "grows with what operators and commands set up"
_BY_CONSENT = "grows with sellers' consents, not with requests"
_OF_THE_ORDER = "history of an order, which stays"
KEPT = {
    "applications": _BY_HAND,
    "application_secrets": _BY_HAND,
    "sellers": _BY_HAND,
    "stores": _BY_HAND,
    "pos": _BY_HAND,
    "terminals": _BY_HAND,
    "terminal_owners": _BY_HAND,
    "subscriptions": _BY_HAND,
    "subscription_secrets": _BY_HAND,
    "operators": _BY_HAND,
    "confirmations": "the history of a payment stays with its order",
    "operator_audit": "the audit trail stays",
    "operator_events": "evidence stays; repeatable events are one row an hour",
    "authorizations": _BY_CONSENT,
    "application_events": _BY_CONSENT,
    "orders": "history stays",
    "order_events": _OF_THE_ORDER,
    "payment_references": _OF_THE_ORDER,
    "leases": _OF_THE_ORDER,
    "lease_steps": _OF_THE_ORDER,
    "lease_authorizations": _OF_THE_ORDER,
    "pairings": "at most `pairings_open_max` rows are open, and every new one deletes expired rows",
    "results": _OF_THE_ORDER,
    "inquiries": _OF_THE_ORDER,
    "reversals": _OF_THE_ORDER,
    "refunds": _OF_THE_ORDER,
    "event_counters": "one row for each feed",
    "attention_watch": "one row",
    "attention_items": "what needs a person now, and its end deletes the row",
    "database_mark": "one row",
    "clock_settings": "one row",
    "recorded_requests": "its worker keeps the last ones only",
    "demo_inbox": "in development only, and trimmed with every entry",
}
"""Tables that no rule prunes, each with its reason."""


async def test_every_table_and_key_has_a_rule(sqlite_url: str) -> None:
    """Who adds a table or an idempotent operation decides how long its rows are kept."""
    database = await open_database(sqlite_url)
    recording = RecordingDatabase(database)
    await database.write(add_seller)
    await sweep(recording)
    await database.close()
    statements = [*recording.asked, *PRUNE_TOKENS.values(), PRUNE_FAMILY]
    pruned = {table for sql in statements for table in re.findall(r"^\s*DELETE FROM (\w+)", sql)}
    assert sorted(TABLES - pruned - KEPT.keys()) == [], "add a rule to the RULES of its domain, or the reason to KEPT"
    assert sorted(KEPT.keys() & pruned) == sorted(KEPT.keys() - TABLES) == [], "a rule prunes it, or it is gone"

    keys = [sql for sql in statements if "DELETE FROM idempotency_keys" in sql]
    with_rule = sorted(name for sql in keys for name in re.findall(r"o\.operation = '(\w+)'", sql))
    idempotent = sorted(operation.name for operation in OPERATIONS if operation.idempotent)
    assert with_rule == idempotent, "there is one rule for each idempotent operation"
