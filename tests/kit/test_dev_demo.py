"""The demo data of `paydesk dev`: what a start finds, and what it creates."""

from __future__ import annotations

import pytest

from paydesk.console.sessions import OPERATORS
from paydesk.engine.terminals import registry
from paydesk.platform.storage.database import Database
from paydesk_dev.dev import demo_operator
from paydesk_dev.dev.demo import Demo, find_or_create
from service import KEYS

NOW_MS = 1_769_869_602_109
SCRIPTS = ["approve", "approve", "approve", "manual"]


async def _start(database: Database) -> Demo:
    return await database.write(lambda tx: find_or_create(tx, "http://127.0.0.1:8377", KEYS, NOW_MS))


async def _delete(database: Database, demo: Demo, script: str) -> None:
    for terminal in demo.terminals:
        if terminal.script == script:
            seller_id, terminal_id = terminal.seller_id, terminal.terminal_id
            await database.write(lambda tx, a=seller_id, b=terminal_id: registry.delete(tx, a, b, NOW_MS))  # type: ignore[misc]


@pytest.mark.on_postgres
async def test_terminals_are_created_once(database: Database) -> None:
    """Each at a point of sale of its own; the one that a person plays comes last, also in lists by id."""
    demo = await _start(database)
    assert [terminal.script for terminal in demo.terminals] == SCRIPTS
    assert len({terminal.pos_id for terminal in demo.terminals}) == 4
    assert len({terminal.store_id for terminal in demo.terminals}) == 1
    assert max(terminal.terminal_id for terminal in demo.terminals) == demo.terminals[-1].terminal_id
    assert await _start(database) == demo


async def test_a_data_folder_without_the_manual_terminal_gets_it(database: Database) -> None:
    """At its next start; the others stay."""
    demo = await _start(database)
    await _delete(database, demo, "manual")
    await database.write(lambda tx: tx.run("DELETE FROM pos WHERE pos_id = $1", demo.terminals[-1].pos_id))
    later = await _start(database)
    assert later.terminals[:3] == demo.terminals[:3]
    assert later.terminals[3].script == "manual"
    assert later.terminals[3].store_id == demo.terminals[0].store_id


@pytest.mark.on_postgres
async def test_deleted_terminals_come_again(database: Database) -> None:
    """At their points of sale, if all with a script are gone; a terminal at the counter keeps its place."""
    demo = await _start(database)
    await _delete(database, demo, "approve")
    later = await _start(database)
    assert [terminal.script for terminal in later.terminals] == SCRIPTS
    assert {terminal.pos_id for terminal in later.terminals} == {terminal.pos_id for terminal in demo.terminals}
    assert later.terminals[3] == demo.terminals[3]


@pytest.mark.on_postgres
async def test_a_lost_password_of_the_demo_operator_ends_its_sessions(database: Database) -> None:
    """The next start sets another one; with the password in the file everything stays."""
    operator_id, made = await demo_operator.find_or_create(database, {}, NOW_MS)
    token = await database.write(
        lambda tx: OPERATORS.begin(
            tx,
            operator_id,
            password_hash="",
            details=OPERATORS.details(NOW_MS, "127.0.0.1", ""),
            now_ms=NOW_MS,
            expires_ms=NOW_MS + 1000,
        )
    )
    assert token is not None
    for previous, is_valid in ((made, True), ({"token": made["token"]}, False)):
        assert (await demo_operator.find_or_create(database, previous, NOW_MS))[0] == operator_id
        session = await OPERATORS.opened(database, token.reveal(), NOW_MS, idle_ms=1000)
        assert (session is not None) == is_valid
