"""One request is one seller and one shard: every statement about a seller's rows says whose they are.

The statements are all those that stand in the modules, and those that a played scene was seen to ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from hot_path import statements
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.migrate import shipped
from paydesk.platform.storage.statements import split, without_comments
from written_statements import VERB, written_statements

SCRIPT = "\n".join(migration.script for migration in shipped())
TABLES = set(re.findall(r"CREATE TABLE (\w+) \((?:(?!\n\);).)*?PRIMARY KEY \(seller_id, ", SCRIPT, re.DOTALL))

_EVERYBODYS = "looks for work of all sellers, and is followed by a transaction for each of them"
_OPERATORS = "an operator's list of all sellers, a page at a time along the key"
_NEWEST = "an operator's list of all sellers, newest first, along an index of all sellers"
_NEWEST_OF_FEW = "an operator's list of few rows of all sellers, each found by an index that begins with the seller"
_ATTENTION = "finds, of all sellers, what is open and needs a person, by an index of open rows"
_NEXT_DUE = "counts what is due next of all sellers, in development"
_READINGS = "counts, for the operators' monitoring, what is open of all sellers, by an index of open rows"
_UNSERVED = "counts, at the start of a node, what is open of all sellers, by indexes of open rows"
_INBOX = "the demo inbox gets notifications of all sellers: of which an order is, is found by its id"
_CLOCK_BACK = "looks for rows of all sellers, in development"
_LEDGER = "shows the simulated acquirer's ledger of all sellers, to tests"
_KITS = "the database of a conformance run has one seller"
_RESET = "removes the orders of all sellers, in development"
ALLOWED = {
    "engine.orders.store.OVERDUE": _EVERYBODYS,
    "engine.orders.store.NEXT_EXPIRY": _EVERYBODYS,
    "engine.orders.store.AWAITING_OUTCOME": _EVERYBODYS,
    "engine.orders.store.AWAITING_RELEASE": _EVERYBODYS,
    "engine.orders.store.AWAITING_TERMINAL": "finds, of all sellers, terminals with an order to acknowledge or release",
    "engine.terminals.print_actions.store.OVERDUE": _EVERYBODYS,
    "engine.terminals.print_actions.store.AWAITING_TERMINAL": (
        "finds, of all sellers, terminals with a print action to fetch"
    ),
    "engine.payments.confirmations.JOB.groups_due": _EVERYBODYS,
    "engine.payments.confirmations.JOB.next_due": _EVERYBODYS,
    "engine.payments.refunds.attempts.JOB.groups_due": _EVERYBODYS,
    "engine.payments.refunds.attempts.JOB.next_due": _EVERYBODYS,
    "engine.payments.inquiries.JOB.groups_due": _EVERYBODYS,
    "engine.payments.inquiries.JOB.next_due": _EVERYBODYS,
    "engine.payments.reversals.JOB.groups_due": _EVERYBODYS,
    "engine.payments.reversals.JOB.next_due": _EVERYBODYS,
    "engine.payments.confirmations.JOB.read_open": _READINGS,
    "engine.payments.refunds.attempts.JOB.read_open": _READINGS,
    "engine.payments.inquiries.JOB.read_open": _READINGS,
    "engine.payments.reversals.JOB.read_open": _READINGS,
    "engine.orders.readings.HELD": _READINGS,
    "engine.webhooks.readings.PENDING_OF_MODE": _READINGS,
    "engine.events.store.OLDEST_UNNUMBERED": _READINGS,
    "engine.terminals.presence.COUNTS": "counts, for the operators' monitoring, terminals of all sellers up to a limit",
    "engine.payments.adapters.unserved.FIND": _UNSERVED,
    "engine.payments.adapters.unserved._OPEN": _UNSERVED,
    "engine.events.store.UNNUMBERED": _EVERYBODYS,
    "engine.webhooks.delivery.store.SUBSCRIPTIONS_DUE": _EVERYBODYS,
    "engine.webhooks.delivery.store.SELLERS_DUE": _EVERYBODYS,
    "engine.webhooks.delivery.store.NEXT_DUE": _EVERYBODYS,
    "operators.subscriptions.store.BY_ID": _OPERATORS,
    "operators.subscriptions.store.BY_URGENCY": _OPERATORS,
    "operators.orders.lists.ALL.all": _NEWEST,
    "operators.orders.lists.ON_TERMINAL.all": _NEWEST,
    "operators.orders.lists.BY_LAST_DIGITS.all": _NEWEST,
    "operators.orders.lists.WITH_RARE_STATUS.all": _NEWEST,
    "operators.orders.lists.BY_REFERENCE.all": _NEWEST_OF_FEW,
    "operators.orders.lists.BY_PAYER_EMAIL.all": _NEWEST_OF_FEW,
    "operators.orders.lists.OPEN.all": _NEWEST_OF_FEW,
    "operators.deliveries.handlers.DELIVERIES.all": _NEWEST,
    "operators.deliveries.handlers.FAILED.all": _NEWEST,
    "operators.orders.outcomes.LIST_REFUNDS.all": _NEWEST,
    "operators.orders.outcomes.LIST_REVERSALS.all": _NEWEST,
    "operators.orders.outcomes.LIST_INQUIRIES.all": _NEWEST,
    "operators.orders.outcomes.LIST_CONFIRMATIONS.all": _NEWEST,
    "engine.webhooks.subscriptions.backlog.COUNTS": (
        "counts the deliveries of a subscription of all sellers, for operators"
    ),
    "engine.webhooks.delivery.parking.SELLERS_TO_PARK": _EVERYBODYS,
    "engine.webhooks.delivery.parking.SELLERS_TO_UNPARK": _EVERYBODYS,
    "engine.webhooks.delivery.parking.SELLERS_TO_FORWARD": _EVERYBODYS,
    "paydesk_dev.conformance.acquirers.kit.JOBS": _KITS,
    "engine.webhooks.delivery.parking.SELLERS_TO_WITHDRAW": _EVERYBODYS,
    "engine.payments.jobs.RELEASE_ALL": "releases the claims of a killed node, on SQLite, which has only one",
    "engine.webhooks.delivery.outcome_store.RELEASE_ALL": (
        "releases the claims of a killed process, on SQLite, which has only one"
    ),
    "engine.webhooks.delivery.resend_store.WAITING": _EVERYBODYS,
    "engine.webhooks.delivery.replaying.NEXT_SELLER": _EVERYBODYS,
    "operators.stores.handlers.STORES": _OPERATORS,
    "operators.stores.handlers.POINTS_OF_SALE": _OPERATORS,
    "operators.stores.handlers.SELLERS_OF_STORE": "finds the seller of an id in an operator's path",
    "operators.stores.handlers.SELLERS_OF_POS": "finds the seller of an id in an operator's path",
    "operators.attention.store.REFUNDS": _ATTENTION,
    "operators.attention.store.CONFIRMATIONS": _ATTENTION,
    "operators.attention.store.REFUSED_CONFIRMATIONS": _ATTENTION,
    "operators.attention.store.REVERSALS": _ATTENTION,
    "operators.attention.store.UNDOING": _ATTENTION,
    "operators.attention.store.SUBSCRIPTIONS": _ATTENTION,
    "operators.deletion.uses.APPLICATION_AUTHORIZATIONS": "finds what uses an application before its deletion",
    "operators.deletion.uses.APPLICATION_ORDERS": "finds what uses an application before its deletion",
    "paydesk_dev.clock.next_due.COUNT_REFUNDS": _NEXT_DUE,
    "paydesk_dev.clock.next_due.COUNT_INQUIRIES": _NEXT_DUE,
    "paydesk_dev.clock.next_due.COUNT_CONFIRMATIONS": _NEXT_DUE,
    "paydesk_dev.clock.next_due.COUNT_REVERSALS": _NEXT_DUE,
    "paydesk_dev.clock.next_due.COUNT_DELIVERIES": _NEXT_DUE,
    "paydesk_dev.clock.clock.DATED": _CLOCK_BACK,
    "paydesk_dev.inbox.store._ADD": _INBOX,
    "paydesk_dev.clock.clock.TOKENS": _CLOCK_BACK,
    "paydesk_dev.reset.reset.UNFINISHED": _RESET,
    "paydesk_dev.reset.reset.LEASED_TERMINALS": _RESET,
    "paydesk_dev.reset.reset.KEPT_DELIVERIES": _RESET,
    "paydesk_dev.reset.reset.FREE_TERMINALS": _RESET,
    "paydesk_dev.reset.reset.MARK_FEEDS": _RESET,
    "paydesk_dev.reset.reset.END_FAMILIES": _RESET,
    "paydesk_dev.reset.reset.REWIND_FAMILIES": _RESET,
    "paydesk_dev.reset.reset.END_REFRESH_TOKENS": _RESET,
    "engine.payments.simulator.ledger.APPROVED_PAYMENTS": _LEDGER,
    "engine.payments.simulator.ledger.APPROVED_MOVEMENTS": _LEDGER,
    "engine.terminals.store.VIRTUAL": "starts the virtual terminals of all sellers, in development",
}
"""Statements about the rows of all sellers, each with its reason."""
NEWEST_INDEXES = {"orders_newest", "orders_newest_of_card", "orders_newest_by_status", "refunds_newest",
                  "reversals_newest", "inquiries_newest", "confirmations_newest", "deliveries_newest",
                  "deliveries_newest_failed"}  # fmt: skip
"""Indexes of all rows by which operators list them newest first. Requests of applications and terminals read none."""
AGE_INDEXES = {f"{table}_by_age" for table in ("inquiries", "reversals", "refunds", "confirmations")}
"""Indexes of open jobs, by which monitoring counts those of all sellers."""
_TABLE = re.compile(
    r"\b(?P<verb>FROM|JOIN|UPDATE|INTO)\s+(?P<table>\w+)"
    r"(?:\s+(?:AS\s+)?(?!(?:WHERE|SET|ON|LEFT|JOIN|ORDER|GROUP|LIMIT|FOR|VALUES|SELECT|UNION|RETURNING|AS)\b)(?P<alias>\w+))?",
    re.IGNORECASE,
)


def _blocks(sql: str) -> Iterator[str]:
    """The statement without what stands in parentheses, then what stands in each of them, likewise."""
    depth, begin, outer = 0, 0, ""
    for place, sign in enumerate(sql):
        if sign == "(":
            depth += 1
            begin = place if depth == 1 else begin
        elif sign == ")":
            depth -= 1
            if not depth:
                inner = sql[begin + 1 : place]
                holds_query = VERB.match(f"{inner} ")
                if holds_query:
                    yield from _blocks(inner)
                outer += "()" if holds_query else f"( {' '.join(_blocks(inner))} )"
        elif not depth:
            outer += sign
    yield outer


def unsaid(sql: str) -> list[str]:
    """The tables of sellers of which the statement does not say whose rows it means."""
    found = []
    for block in _blocks(without_comments(sql)):
        for match in _TABLE.finditer(block):
            table, alias = match["table"], match["alias"] or match["table"]
            if table not in TABLES:
                continue
            if match["verb"].upper() == "INTO":
                said = re.match(r"\s*\(\s*seller_id\b", block[match.end("table") :])
            else:
                own = rf"(?:\b{alias}\.|(?<![.\w]))seller_id"
                said = re.search(rf"{own}\s*=|=\s*{alias}\.seller_id", block)
            if not said:
                found.append(table)
    return found


def test_tables_with_a_seller_begin_their_keys_with_it() -> None:
    """One request is one shard: the seller comes first in the primary key; the few other tables are small."""
    of_sellers = set(re.findall(r"CREATE TABLE (\w+) \((?:(?!\n\);).)*?\n    seller_id ", SCRIPT, re.DOTALL))
    assert of_sellers - TABLES == {"sellers", "terminal_owners", "operator_events", "pairings", "recorded_requests"}


def test_the_seller_tables_are_found_in_the_schema() -> None:
    """What is held against the rule is every table whose key begins with the seller."""
    assert {"orders", "order_events", "deliveries", "idempotency_keys", "access_tokens", "leases"} <= TABLES
    assert not {"sellers", "applications", "subscriptions", "operators"} & TABLES


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT 1 FROM orders WHERE seller_id = $1 AND order_id = $2", []),
        ("SELECT 1 FROM orders WHERE order_id = $1", ["orders"]),
        ("SELECT 1 FROM orders o JOIN leases l ON l.seller_id = o.seller_id WHERE o.seller_id = $1", []),
        ("SELECT 1 FROM orders o JOIN leases l ON l.lease_id = $2 WHERE o.seller_id = $1", ["leases"]),
        ("DELETE FROM leases WHERE seller_id = $1 AND lease_id IN (SELECT lease_id FROM leases LIMIT 1)", ["leases"]),
        ("UPDATE orders SET version = 1 WHERE order_id = $1", ["orders"]),
        ("INSERT INTO leases (lease_id, seller_id) VALUES ($1, $2)", ["leases"]),
        ("INSERT INTO leases (seller_id, lease_id) VALUES ($1, $2)", []),
    ],
)
def test_the_check_finds_statements_without_a_seller(sql: str, tables: list[str]) -> None:
    """A table whose seller is left out is named, also in a join and below."""
    assert unsaid(sql) == tables


def test_every_written_statement_names_the_seller() -> None:
    """But for those that are allowed, each with its reason; and no more than these are."""
    written = written_statements()
    wrong = {name: tables for name, sql in written.items() if (tables := unsaid(sql))}
    assert {name: tables for name, tables in wrong.items() if name not in ALLOWED} == {}
    assert set(ALLOWED) <= set(wrong)
    assert len(written) > 100


async def test_every_executed_statement_names_the_seller(sqlite_url: str) -> None:
    """So do those that are put together while running."""
    database = await open_database(sqlite_url)
    asked = await statements(database)
    await database.close()
    written = written_statements()
    allowed = {written[name] for name in ALLOWED}
    assert {sql: tables for sql in asked if sql not in allowed and (tables := unsaid(sql))} == {}


def test_keys_and_indexes_begin_with_the_seller() -> None:
    """Unique ones always; others but for those of operators' lists and the small ones by which a worker finds work."""
    pattern = r"CREATE (UNIQUE )?INDEX (?:CONCURRENTLY )?(\w+) ON (\w+) \((\w+)[^)]*\)(\s+WHERE.*)?"
    found = [re.match(pattern, without_comments(one).strip(), re.DOTALL) for one in split(SCRIPT)]
    indexes = [match for match in found if match is not None and match[3] in TABLES]
    assert len(indexes) > 20
    assert {match[2] for match in indexes if "seller_id > 0" in (match[5] or "")} == NEWEST_INDEXES | AGE_INDEXES
    for _, name, _, first, partial in (match.groups() for match in indexes if match[4] != "seller_id"):
        assert partial, f"{name} begins with {first} and is of all rows"
    assert [match[2] for match in indexes if match[1] and match[4] != "seller_id"] == []
