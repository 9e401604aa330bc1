"""Checks a database against the invariants: histories, payments, confirmations, refunds, events, keys and tokens.

It only reads, a page at a time, each page on one snapshot. `paydesk doctor --invariants` prints the findings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from typing import Any

from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import confirmations, events, money, orders, simulator_ledger, tokens
from paydesk.engine.invariants.rule import Rule
from paydesk.engine.orders.status import CREATE, State, legal
from paydesk.platform.storage import mark
from paydesk.platform.storage.database import Database, Row, Transaction

ORDER_RULES = (*orders.PAGE_RULES, *money.PAGE_RULES, *confirmations.PAGE_RULES, *events.PAGE_RULES)
WHOLE_RULES = (
    *orders.WHOLE_RULES,
    *money.WHOLE_RULES,
    *events.WHOLE_RULES,
    *tokens.WHOLE_RULES,
    *simulator_ledger.WHOLE_RULES,
)
"""Rules over a whole table: each reads it once, or reads a small partial index."""

# The databases' own checks have no shared form.
INTEGRITY_RULES = {
    "sqlite": (
        Rule(
            "file_integrity",
            "{0}",
            "SELECT NULL, 'the file', integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
        ),
    ),
    "postgres": (
        Rule(
            "index_integrity",
            "is invalid: run REINDEX",
            "SELECT NULL, CAST(CAST(indexrelid AS regclass) AS text) FROM pg_index WHERE NOT indisvalid",
        ),
        Rule(
            "file_integrity",
            "{0} pages had a wrong checksum",
            """
            SELECT NULL, datname, checksum_failures FROM pg_stat_database
             WHERE datname = current_database() AND checksum_failures > 0""",
        ),
    ),
}

PAGE_ROWS = 1000
FINDINGS_MAX = 1000

_SELLER_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation: the rule's name, the row it is about, and what is wrong with it."""

    rule: str
    subject: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}: {self.message}"


async def integrity(database: Database) -> list[Finding]:
    """Return what the database's own checks find in its files and indexes."""
    return await database.read(lambda tx: _findings(tx, INTEGRITY_RULES[database.name], (), 0), heavy=True)


async def check(database: Database, now_ms: int | None = None) -> list[Finding]:
    """Return at most `FINDINGS_MAX` violations. Without `now_ms`, the clock is the database's own."""
    now = MovableClock(*await database.read(mark.moved_clock)).now_ms() if now_ms is None else now_ms
    found = await _sweep(database, orders.NEXT_ORDERS, "", ORDER_RULES, now)
    found += await _sweep(database, tokens.NEXT_FAMILIES, b"", tokens.PAGE_RULES, now)
    found += await database.read(lambda tx: _findings(tx, WHOLE_RULES, (), now), heavy=True)
    return found[:FINDINGS_MAX]


async def _sweep(
    database: Database, next_keys: str, least_key: str | bytes, rules: tuple[Rule, ...], now_ms: int
) -> list[Finding]:
    """Check the rules page by page, from the smallest key on."""
    found: list[Finding] = []
    after: tuple[Any, Any] | None = (-1, least_key)
    while after is not None and len(found) < FINDINGS_MAX:
        page = partial(_page, next_keys=next_keys, after=after, rules=rules, now_ms=now_ms)
        findings, after = await database.read(page, heavy=True)
        found += findings
    return found


async def _page(
    tx: Transaction, next_keys: str, after: tuple[Any, Any], rules: tuple[Rule, ...], now_ms: int
) -> tuple[list[Finding], tuple[Any, Any] | None]:
    """Return the findings of one page and the last key of it, or None for the last page, which has no upper bound."""
    keys = await tx.all(next_keys, *after, PAGE_ROWS)
    last = tuple(keys[-1]) if len(keys) == PAGE_ROWS else None
    bounds = (*after, *(last or (_SELLER_MAX, after[1])))
    findings = await _findings(tx, rules, bounds, now_ms)
    if rules is ORDER_RULES:
        findings += history_findings(await tx.all(orders.HISTORIES, *bounds))
    return findings, last


async def _findings(tx: Transaction, rules: tuple[Rule, ...], bounds: tuple[Any, ...], now_ms: int) -> list[Finding]:
    return [
        Finding(rule.name, _subject(seller_id, subject), rule.message.format(*values))
        for rule in rules
        for seller_id, subject, *values in await tx.all(
            f"{rule.sql} LIMIT {FINDINGS_MAX}", *bounds, *((now_ms,) if rule.timed else ())
        )
    ]


def _subject(seller_id: int | None, subject: str) -> str:
    return subject if seller_id is None else f"seller {seller_id}, {subject}"


def history_findings(rows: list[Row]) -> Iterator[Finding]:
    """Check the histories of a page's orders against the transition table. `rows` are those of `orders.HISTORIES`."""
    for (seller_id, order_id, *current, version), events_of_order in groupby(rows, key=lambda row: tuple(row[:6])):
        history = [(row[6], row[7], State(*row[8:11])) for row in events_of_order if row[6] is not None]
        for rule, message in _violations(State(*current), version, history):
            yield Finding(rule, _subject(seller_id, order_id), message)


def _violations(current: State, version: int, history: list[tuple[int, str, State]]) -> Iterator[tuple[str, str]]:
    versions = [event_version for event_version, _, _ in history]
    if versions != list(range(1, len(versions) + 1)):
        yield "version_gap", f"versions are {versions}"
    if not history:
        yield "order_without_event", f"at version {version}"
        return
    if (version, current) != (versions[-1], history[-1][2]):
        yield "order_differs_from_last_event", f"{current} at version {version}, but the last event is {history[-1][2]}"
    if history[0][1:] != (CREATE.name, CREATE.targets[0]):
        yield "illegal_transition", f"first transition is {history[0][1]} to {history[0][2]}"
    for (_, _, source), (event_version, move, target) in pairwise(history):
        if move not in {allowed.name for allowed in legal(source, target)}:
            yield "illegal_transition", f"{move} from {source} to {target} at version {event_version}"
