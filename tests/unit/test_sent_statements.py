"""The check that every statement is sent to PostgreSQL."""

from __future__ import annotations

import pytest

import sent_statements
from paydesk.platform.storage.database import Database

WRITTEN = {"orders.GET": "SELECT 1", "orders.PART": "SELECT 2", "orders.MISSED": "SELECT 3"}
SENT = {"SELECT 1", "WITH x AS (SELECT 2) SELECT 0"}


def test_a_statement_that_no_test_sends_is_named() -> None:
    """Not one that is part of another."""
    (complaint,) = sent_statements.complaints(WRITTEN, SENT, ())
    assert complaint.startswith("orders.MISSED was not sent")


def test_the_list_of_those_not_sent_has_no_other() -> None:
    """A listed one that is not written any more is named."""
    assert sent_statements.complaints(WRITTEN, SENT, {"orders.MISSED"}) == []
    named = sent_statements.complaints(WRITTEN, SENT, {"orders.MISSED", "orders.GET", "orders.GONE"})
    assert [line.split()[0] for line in named] == ["orders.GONE"]


@pytest.mark.on_postgres
async def test_statements_are_noted(database: Database) -> None:
    """Those to PostgreSQL."""
    statement = f"SELECT '{database.name}'"
    await database.read(lambda tx: tx.one(statement))
    assert (statement in sent_statements.sent) == (database.name == "postgres")
