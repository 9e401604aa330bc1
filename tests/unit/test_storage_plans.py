"""Every statement of the hot path finds its rows by an index, also among a million orders.

The statements are recorded from a played scene, not listed by hand. SQLite keeps no
statistics here, so that its plans are the same however much there is; PostgreSQL's depend on it, so it is really there.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any

import asyncpg
import pytest
from bench import bulk

from conftest import short_and_long
from hot_path import statements
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Row, Transaction
from paydesk.platform.storage.postgres.connections import BY_KEY
from paydesk.platform.storage.postgres.sets import Part, at_once, set_form
from paydesk.platform.storage.statements import only_reads, without_comments

AS_THE_SERVER_LIKES = {
    "plan_cache_mode": "auto",
    "enable_seqscan": "on",
    "enable_hashjoin": "on",
    "enable_mergejoin": "on",
    "cpu_tuple_cost": "0.01",
}

ORDERS = 1_000_000
SELLER = 1_000_001
NOW_MS = 1_800_000_000_000
SINCE_MS = NOW_MS - ORDERS * 1000
COST_MAX = 5000.0
"""In PostgreSQL's own unit, a page read in a row. Looking at all orders of a seller costs ten times as much."""
HEAVY = "as the server likes"
WITHOUT_INDEX = "SELECT order_id FROM orders WHERE seller_id = $1 AND reference_id = $2"
"""The plans of this one must be seen to be wrong."""

GROWING = {"orders", "order_events", "leases", "results", "payment_references", "inquiries", "refunds",
           "idempotency_keys", "deliveries", "attempts", "codes", "token_families", "refresh_tokens", "access_tokens",
           "device_tokens", "terminal_sessions", "application_events", "seller_sessions",
           "consent_requests"}  # fmt: skip
SMALL_INDEXES = {"orders_live_on_terminal", "orders_expiring", "orders_permitted", "orders_cancellation_requested",
                 "refunds_due", "refunds_open", "order_events_unnumbered", "deliveries_due", "deliveries_open",
                 "deliveries_resend", "deliveries_replay"}  # fmt: skip
"""Partial ones, of what is not at its end: they don't grow with the history."""

# Beside the orders, in the form of `bulk`: as many tokens and sessions as tills and terminals leave behind.
_TOKEN = "SELECT seller_id, CAST(mixed AS bytea), CAST(many AS bytea), 1, 1"
MORE = (
    f"""INSERT INTO token_families (seller_id, family_id, authorization_id, application_id, live, scope, generation,
                                  created_ms)
        SELECT seller_id, CAST(many AS bytea), mixed, 7, 0, 'read', 1, CAST($4 AS bigint) FROM {bulk.NUMBERS}""",
    f"""INSERT INTO refresh_tokens (seller_id, digest, family_id, generation, key_version, created_ms, expires_ms)
        {_TOKEN}, CAST($4 AS bigint), n FROM {bulk.NUMBERS}""",
    f"""INSERT INTO access_tokens (seller_id, digest, family_id, generation, key_version, scope, created_ms, expires_ms)
        {_TOKEN}, 'read', CAST($4 AS bigint), n FROM {bulk.NUMBERS}""",
    f"""INSERT INTO codes (seller_id, digest, authorization_id, application_id, redirect_uri, scope, created_ms,
                           expires_ms)
        SELECT seller_id, CAST(mixed AS bytea), many, 7, '', 'read', n, CAST($4 AS bigint) + n FROM {bulk.NUMBERS}""",
    f"""INSERT INTO authorizations (seller_id, authorization_id, application_id, scope, created_ms)
        SELECT seller_id, mixed, 7, 'read', CAST($4 AS bigint) FROM {bulk.NUMBERS}""",
    f"""INSERT INTO application_events (seller_id, application_id, version, action, body, created_ms)
        SELECT seller_id, n / 10, n, 'application.authorized', '', CAST($4 AS bigint) FROM {bulk.NUMBERS}""",
    f"""INSERT INTO seller_sessions (seller_id, digest, created_ms, expires_ms)
        SELECT seller_id, CAST(mixed AS bytea), n, CAST($4 AS bigint) + n FROM {bulk.NUMBERS}""",
    f"""INSERT INTO consent_requests (seller_id, digest, session_digest, application_id, redirect_uri, scope,
                                      created_ms, expires_ms)
        SELECT seller_id, CAST(mixed AS bytea), CAST(many AS bytea), 7, '', 'read', n, n
          FROM {bulk.NUMBERS} WHERE CAST($4 AS bigint) > 0""",
    f"""INSERT INTO terminals (seller_id, terminal_id, live, store_id, pos_id, kind, is_virtual, operating_mode,
                               session, created_ms)
        SELECT seller_id, many, 0, 1, n, 'terminal', 0, 'PDV', 1, CAST($4 AS bigint) FROM {bulk.NUMBERS}""",
    f"""INSERT INTO device_tokens (seller_id, digest, terminal_id, created_ms)
        SELECT seller_id, CAST(mixed AS bytea), many, CAST($4 AS bigint) FROM {bulk.NUMBERS}""",
    f"""INSERT INTO terminal_sessions (seller_id, terminal_id, boot_id, session, app_version, created_ms)
        SELECT seller_id, many, mixed, 1, '1', CAST($4 AS bigint) + n FROM {bulk.NUMBERS}""",
    f"""INSERT INTO attempts (seller_id, delivery_id, attempt, started_ms, duration_ms, answer_body)
        SELECT seller_id, mixed, 1, CAST($4 AS bigint), 1, '' FROM {bulk.NUMBERS}""",
    f"""INSERT INTO results (seller_id, lease_id, result_id, digest, outcome, verdict, body, answer_status, answer,
                             created_ms)
        SELECT seller_id, many, mixed, CAST(mixed AS bytea), 'approved', 'taken', '', 200, '', CAST($4 AS bigint)
          FROM {bulk.NUMBERS}""",
    f"""INSERT INTO refunds (seller_id, refund_id, order_id, application_id, live, idempotency_key, amount,
                             amount_minor, status, attempts, unsent, next_ms, claimed_until_ms, created_ms)
        SELECT seller_id, mixed, many, 7, 0, '', '1.00', 100, 'processed', 0, 0, 0, 0, CAST($4 AS bigint) + n
          FROM {bulk.NUMBERS}""",
    f"""INSERT INTO inquiries (seller_id, order_id, live, reason, attempts, next_ms, created_ms, ended_ms)
        SELECT seller_id, many, 0, '', 1, CAST($4 AS bigint), n, n FROM {bulk.NUMBERS}""",
    f"""INSERT INTO payment_references (seller_id, live, reference_id, order_id)
        SELECT seller_id, 0, mixed, many FROM {bulk.NUMBERS} WHERE CAST($4 AS bigint) > 0""",
)


async def test_every_statement_has_its_index_on_sqlite(sqlite_url: str) -> None:
    """No step of a plan goes through a table that grows, or through all that a seller has in it."""
    database = await open_database(sqlite_url)
    wrong = {}
    asked = {**await statements(database), WITHOUT_INDEX: (SELLER, "1")}
    for sql, args in asked.items():
        steps = await database.read(partial(_explained, sql=sql, args=args))
        aliases = _aliases(sql)
        if found := [step[3] for step in steps if _goes_through(step[3], aliases)]:
            wrong[_short(sql)] = found
    await database.close()
    assert wrong.pop(WITHOUT_INDEX)
    assert not wrong, json.dumps(wrong, indent=1)
    assert len(asked) > 60


async def _explained(tx: Transaction, sql: str, args: tuple[Any, ...]) -> list[Row]:
    return await tx.all(f"EXPLAIN QUERY PLAN {sql}", *args)


def _goes_through(step: str, aliases: dict[str, str]) -> bool:
    match = re.match(r"(SCAN|SEARCH) (\w+)(?: EXISTS)?(?: USING (?:COVERING )?INDEX (\w+)(?: \((.*)\))?)?", step)
    if match is None or aliases.get(match[2], match[2]) not in GROWING or match[3] in SMALL_INDEXES:
        return False
    return match[1] == "SCAN" or match[4] in (None, "seller_id=?")


@pytest.mark.parametrize("orders", short_and_long(ORDERS // 100, ORDERS))
async def test_every_statement_has_its_index_on_postgres(postgres_url: str, orders: int) -> None:
    """Alone and as a set, and where the server plans as it likes: no plan goes through a table that grows."""
    database = await open_database(postgres_url)
    asked = {**await statements(database), WITHOUT_INDEX: (SELLER, "1")}
    raw = await asyncpg.connect(postgres_url)
    try:
        indexes = await _unprepared(raw)
        fill = partial(bulk.fill, database, SELLER, since_ms=SINCE_MS, versions=1, body_bytes=50)
        await fill(orders=orders, tables=("orders", "order_events"))
        await fill(orders=orders // 10, tables=("deliveries", "idempotency_keys", "leases"))
        for sql in MORE:
            await raw.execute(sql, 0, orders // 10, SELLER, SINCE_MS)
        await raw.execute("; ".join([*indexes, "ANALYZE"]))
        wrong = {}
        for sql, args in asked.items():
            reasons = [reason async for reason in _reasons(raw, sql, args)]
            # Few rows are not what the server would plan for in production.
            if found := [reason for reason in reasons if orders == ORDERS or not reason.startswith(HEAVY)]:
                wrong[_short(sql)] = found
    finally:
        await raw.close()
        await database.close()
    assert wrong.pop(WITHOUT_INDEX)
    assert not wrong, json.dumps(wrong, indent=1)
    assert len(asked) > 60


async def _unprepared(raw: asyncpg.Connection) -> list[str]:
    """Take from the tables what slows their filling, and changes no plan: their log, and their indexes meanwhile.

    The statements that make the indexes anew.
    """
    keys = await raw.fetch(
        """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
            WHERE contype IN ('p', 'u') AND conrelid = ANY($1::regclass[])""",
        list(GROWING),
    )
    others = await raw.fetch(
        """SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
            WHERE indrelid = ANY($1::regclass[])
              AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)""",
        list(GROWING),
    )
    for table in GROWING:
        await raw.execute(f"ALTER TABLE {table} SET UNLOGGED")
    for table, name, _ in keys:
        await raw.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    for name, _ in others:
        await raw.execute(f"DROP INDEX {name}")
    made_anew = [f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}" for table, name, definition in keys]
    return ["SET maintenance_work_mem = '256MB'", *made_anew, *(definition for _, definition in others)]


async def _reasons(raw: asyncpg.Connection, sql: str, args: tuple[Any, ...]) -> AsyncIterator[str]:
    for form, plan in await _plans(raw, sql, args):
        for node in _nodes(plan):
            if reason := _walks(node):
                yield f"{form}: {reason}"
        if form == HEAVY and plan["Total Cost"] > COST_MAX:
            yield f"{form}: costs {plan['Total Cost']:.0f}"


def _walks(node: dict[str, Any]) -> str | None:
    """How a step of a plan goes through a table that grows, or through all that a seller has in it; or None."""
    if node["Node Type"] == "Seq Scan" and node["Relation Name"] in GROWING:
        return f"goes through {node['Relation Name']}"
    index = node.get("Index Name", "")
    if index in SMALL_INDEXES or not any(index.startswith(table) for table in GROWING):
        return None
    compared = set(re.findall(r"\b(\w+)(?:\)::\w+)? (?:=|[<>]=?) ", node.get("Index Cond", "")))
    return None if compared - {"seller_id"} else f"goes through {index}"


async def _plans(raw: asyncpg.Connection, sql: str, args: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """The plan of a request alone, that of a set of them, and that of who looks at many rows."""
    types = [parameter.name for parameter in (await raw.prepare(sql)).get_parameters()]
    await _set(raw, BY_KEY)
    plans = [("alone", await _generic(raw, sql, len(types)))]
    form = set_form(sql, tuple(types)) if types else None
    if form is not None:
        plans.append(("as a set", await _generic(raw, form.sql, len(types))))
    together = (
        None
        if only_reads(sql) or not types
        else at_once((Part(sql, tuple(types), required=True, counted=True),), several=True)
    )
    if together is not None:
        plans.append(("at once", await _generic(raw, together, len(types))))
    await _set(raw, AS_THE_SERVER_LIKES)
    # Here the seller is one who has half of all.
    sellers = {int(number) for number in re.findall(r"\bseller_id = \$([0-9]+)", sql)}
    these = [SELLER if number in sellers else one for number, one in enumerate(args, 1)]
    plans.append((HEAVY, json.loads(await raw.fetchval(f"EXPLAIN (FORMAT JSON) {sql}", *these))[0]["Plan"]))
    return plans


async def _set(raw: asyncpg.Connection, settings: Mapping[str, str]) -> None:
    await raw.execute("; ".join(f"SET {name} = {value}" for name, value in settings.items()))


async def _generic(raw: asyncpg.Connection, sql: str, parameters: int) -> Any:
    await raw.execute(f"PREPARE asked AS {without_comments(sql)}")
    values = f"({', '.join(['NULL'] * parameters)})" if parameters else ""
    plan = json.loads(await raw.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked{values}"))[0]["Plan"]
    await raw.execute("DEALLOCATE asked")
    return plan


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


def _aliases(sql: str) -> dict[str, str]:
    """The table behind each other name that the statement gives one."""
    named = re.findall(r"\b(?:FROM|JOIN)\s+(\w+)\s+(?:AS\s+)?(\w+)", without_comments(sql), re.IGNORECASE)
    return {alias: table for table, alias in named}


def _short(sql: str) -> str:
    return " ".join(without_comments(sql).split())[:160]
