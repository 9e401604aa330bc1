"""Checks that a unit of work with conflict keys names the rows that it locks or changes.

On PostgreSQL such a unit may share a transaction with others, where a row lock of one is none for another. The check is
on in every test of this process, on both databases: `conftest` installs it, and fails the test in which a unit broke
the rule. Tables that only a test has are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

from paydesk.engine.orders import status
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.store import COLUMNS as ORDER_COLUMNS
from paydesk.platform.idempotency_key import Key
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Row, Transaction, Work
from paydesk.platform.storage.migrate import shipped
from paydesk.platform.storage.postgres.database import PostgresDatabase
from paydesk.platform.storage.sqlite.database import SqliteDatabase
from paydesk.platform.storage.statements import only_reads, without_comments

BY_COLUMNS: dict[str, tuple[tuple[str, ...], Callable[..., ConflictKey]]] = {
    "orders": (("order_id",), conflict_keys.order),
    "confirmations": (("order_id",), conflict_keys.order),
    "inquiries": (("order_id",), conflict_keys.order),
    "payment_references": (("order_id",), conflict_keys.order),
    "leases": (("lease_id",), lambda lease_id: conflict_keys.order(f"ORD{lease_id}")),
    "lease_authorizations": (("lease_id",), lambda lease_id: conflict_keys.order(f"ORD{lease_id}")),
    "terminals": (("terminal_id",), conflict_keys.terminal),
    "idempotency_keys": (
        ("seller_id", "application_id", "live", "operation", "object_id", "idempotency_key"),
        lambda *values: conflict_keys.idempotency(Key(*values)),
    ),
    "operator_events": (("repeat_key",), conflict_keys.operator_event),
    "subscriptions": (("subscription_id",), conflict_keys.subscription),
    "simulator_payments": (("seller_id", "payment_id"), conflict_keys.simulated_payment),
    "simulator_requests": (("seller_id", "operation", "request_key"), conflict_keys.simulated_request),
    "simulator_confirmation_requests": (("seller_id", "operation", "request_key"), conflict_keys.simulated_request),
}
"""For each table the columns by whose values a unit finds a row, and the conflict key that these make."""
BY_NOUN = {
    "refunds": "order",
    "reversals": "order",
    "codes": "code",
    "simulator_movements": "simulated_request",
    "simulator_confirmation_movements": "simulated_request",
    "print_actions": "terminal",
    "deliveries": "deliveries",
}
"""Tables whose rows' statements do not have the values of the key: the unit has to name one of this noun."""
UNNAMED = {
    "token_families": "conditional UPDATEs that name the generation; two tokens of a family may be presented at once",
    "access_tokens": "only ever set to expired or revoked, by conditional UPDATEs",
    "application_secrets": "only ever set to expired, by a conditional UPDATE",
}
"""Tables whose rows are changed without being named, each with its reason. They are never locked."""

TABLES = frozenset(re.findall(r"CREATE TABLE (\w+)", "".join(migration.script for migration in shipped())))
ADVICE = "Name it in the unit's `conflict_keys`, with a function of conflict_keys.py, or give the unit no keys."
violations: list[str] = []
"""What units have done against the rule since `conftest` looked last."""

_LOCK = re.compile(r"\bFOR\s+(?:NO\s+KEY\s+)?(?:UPDATE|(?:KEY\s+)?SHARE)\b(?:\s+OF\s+(\w+))?", re.IGNORECASE)
_FROM = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)(?:\s+(?:AS\s+)?(?!WHERE\b)(\w+))?", re.IGNORECASE)
_CHANGE = re.compile(r"\s*(?:UPDATE|DELETE\s+FROM)\s+(\w+)", re.IGNORECASE)
_IS_ORDER = re.compile(rf"\s*(?:SELECT {ORDER_COLUMNS}\s|UPDATE orders\s.*RETURNING {ORDER_COLUMNS}\s*$)", re.DOTALL)


@lru_cache(maxsize=1024)
def tables_locked(sql: str) -> frozenset[str]:
    """The tables of which the statement locks rows."""
    statement = without_comments(sql)
    tables = set()
    for lock in _LOCK.finditer(statement):
        aliases = {match[2] or match[1]: match[1] for match in _FROM.finditer(statement[: lock.start()])}
        tables |= {aliases[lock[1]]} if lock[1] else set(_FROM.findall(statement[: lock.start()])[-1][:1])
    return frozenset(tables)


@lru_cache(maxsize=1024)
def table_changed(sql: str) -> str | None:
    """The table of which the statement changes rows; None for a query and for an INSERT, which locks nothing."""
    match = _CHANGE.match(without_comments(sql))
    return match[1] if match else None


def named(sql: str, table: str, args: tuple[Any, ...], keys: Collection[ConflictKey]) -> bool:
    """Whether the keys name the row that the statement finds by its arguments."""
    if table in BY_NOUN:
        return any(key[0] == BY_NOUN[table] for key in keys)
    if table not in BY_COLUMNS:
        return False
    columns, key = BY_COLUMNS[table]
    places = [re.search(rf"\b{column}\s*=\s*\$(\d+)", without_comments(sql)) for column in columns]
    return all(places) and key(*(args[int(place[1]) - 1] for place in places if place)) in keys


class GuardedTransaction:
    """The transaction behind it, of a unit with these conflict keys."""

    def __init__(self, tx: Transaction, keys: Collection[ConflictKey]) -> None:
        self._tx, self._keys = tx, frozenset(keys)
        self._seen: set[ConflictKey] = set()
        self._without_terminal = ""

    @property
    def writes(self) -> int:
        """As the transaction says."""
        return self._tx.writes

    async def one(self, sql: str, *args: Any) -> Row | None:
        """The first row, or None."""
        row = await self._tx.one(sql, *args)
        self._check(sql, args, row)
        return row

    async def all(self, sql: str, *args: Any) -> list[Row]:
        """All rows."""
        self._check(sql, args, None)
        return await self._tx.all(sql, *args)

    async def run(self, sql: str, *args: Any) -> int:
        """How many rows it touched."""
        self._check(sql, args, None)
        return await self._tx.run(sql, *args)

    def defer(self, sql: str, *args: Any, notify: str = "", required: bool = False) -> None:
        """At the end."""
        self._check(sql, args, None)
        self._tx.defer(sql, *args, notify=notify, required=required)

    def notify(self, topic: str) -> None:
        """After the commit."""
        self._tx.notify(topic)

    def _check(self, sql: str, args: tuple[Any, ...], row: Row | None) -> None:
        order = Order(*row) if row is not None and _IS_ORDER.match(sql) else None
        for table in tables_locked(sql) & TABLES:
            if not named(sql, table, args, self._keys):
                self._report(f"locks {table}", sql, args)
            elif order is not None and order.status in status.LIVE and not self._names_terminal(order):
                self._without_terminal = order.terminal_id
        if order is not None and self._names_terminal(order):
            self._seen.add(conflict_keys.order(order.order_id))
        if self._without_terminal and not only_reads(sql):
            self._report(f"locked a live order of {self._without_terminal} without that terminal", sql, args)
        changed = table_changed(sql)
        if changed is None or changed not in TABLES or changed in UNNAMED:
            return
        if not named(sql, changed, args, self._keys | self._seen):
            self._report(f"changes {changed}", sql, args)

    def _names_terminal(self, order: Order) -> bool:
        return conflict_keys.terminal(order.terminal_id) in self._keys

    def _report(self, what: str, sql: str, args: tuple[Any, ...]) -> None:
        keys = ", ".join(map(str, self._keys))
        short = " ".join(without_comments(sql).split())[:200]
        violations.append(f"A unit with the conflict keys {keys} {what}: {short} {args[:3]}. {ADVICE}")


def guarded(write: Any) -> Any:
    """The method `write` of a database, which hands a guarded transaction to units with conflict keys."""

    async def checked(self: Any, work: Work[Any], *, conflict_keys: Collection[ConflictKey] = ()) -> Any:
        if not conflict_keys:
            return await write(self, work)
        violations.extend(
            f"The conflict key {key!r} was not made by a function of platform/storage/conflict_keys.py."
            for key in conflict_keys
            if not isinstance(key, tuple)
        )

        async def in_guarded(tx: Transaction) -> Any:
            return await work(GuardedTransaction(tx, conflict_keys))

        return await write(self, in_guarded, conflict_keys=conflict_keys)

    return checked


def install() -> None:
    """Check every unit of this process from now on."""
    for database in (PostgresDatabase, SqliteDatabase):
        database.write = guarded(database.write)  # type: ignore[method-assign]
