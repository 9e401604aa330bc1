"""Concurrent creates: one effect and one response per key; one live order per terminal, none in another mode."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from conftest import short_and_long
from nodes import two_nodes
from paydesk.engine.invariants import check
from paydesk.platform.storage.database import Database
from service import Reply, Service, Terminal

pytestmark = pytest.mark.usefixtures("batching", "patient_database")

CONNECTIONS = 64
TILLS, SALE = 16, "the-same-sale"
TERMINALS = 20


async def count(database: Database, table: str) -> int:
    """Return the number of rows of the table."""
    row = await database.read(lambda tx: tx.one(f"SELECT COUNT(*) FROM {table}"))
    assert row is not None
    counted: int = row[0]
    return counted


@pytest.mark.parametrize("creates", short_and_long(400, 10_000))
async def test_thousands_of_creates_with_one_key_make_one_order(
    database: Database, database_url: str, creates: int
) -> None:
    """All responses have the same bytes, and all but the first are marked as replays."""
    async with two_nodes(database, database_url) as nodes:
        terminal = await nodes[0].terminal()
        answers: Counter[tuple[int, bytes]] = Counter()
        replays = 0

        async def till(node: Service, times: int) -> None:
            nonlocal replays
            for _ in range(times):
                reply = await node.create(terminal, key="the-one-key")
                answers[reply.status, reply.raw] += 1
                assert len(answers) == 1, "a second answer"
                replays += reply.headers.get("x-idempotent-replayed") == "true"

        share, rest = divmod(creates, CONNECTIONS)
        await asyncio.gather(*(till(nodes[place % 2], share + (place < rest)) for place in range(CONNECTIONS)))
    ((status, _),) = answers
    assert status == 201
    assert answers.total() == creates
    assert replays == creates - 1
    assert [await count(database, table) for table in ("orders", "order_events", "idempotency_keys")] == [1, 1, 1]
    assert await check.check(database) == []


@pytest.mark.parametrize("creates", short_and_long(100, 200))
async def test_a_terminal_takes_one_order(database: Database, database_url: str, creates: int) -> None:
    """Of many concurrent creates for one terminal one succeeds, and the others' details name it."""
    async with two_nodes(database, database_url) as nodes:
        terminal = await nodes[0].terminal()
        replies = await asyncio.gather(*(nodes[place % 2].create(terminal) for place in range(creates)))
        made = [reply for reply in replies if reply.status == 201]
        refused = [reply for reply in replies if reply.status == 409]
        assert (len(made), len(refused)) == (1, creates - 1)
        assert {reply.code for reply in refused} == {"already_queued_order_on_terminal"}
        assert all(made[0].body["id"] in reply.details[0] for reply in refused)
    assert [await count(database, table) for table in ("orders", "order_events", "idempotency_keys")] == [1, 1, 1]
    assert await check.check(database) == []


@pytest.mark.parametrize("rounds", short_and_long(1, 10))
async def test_no_order_meets_a_terminal_that_takes_none(database: Database, database_url: str, rounds: int) -> None:
    """A create and a change to STANDALONE at once: one of them is rejected with its reason."""
    async with two_nodes(database, database_url) as nodes:
        terminals = [await nodes[0].terminal() for _ in range(TERMINALS)]
        won: Counter[str] = Counter()
        for number in range(rounds):
            races = (_create_against_setup(*nodes, terminal, number + at) for at, terminal in enumerate(terminals))
            won.update(await asyncio.gather(*races))
    assert set(won) == {"order", "mode"}
    assert await check.check(database) == []


async def _create_against_setup(service: Service, other: Service, terminal: Terminal, number: int) -> str:
    """Begin with the one, whose answer is awaited, with the other, or with both at once."""
    create, change = service.create(terminal), _set_mode(other, terminal, "STANDALONE")
    match number % 4:
        case 0:
            created, changed = await create, await change
        case 1:
            changed, created = await change, await create
        case 2:
            created, changed = await asyncio.gather(create, change)
        case _:
            changed, created = await asyncio.gather(change, create)
    if created.status == 201:
        assert (changed.status, changed.code) == (409, "terminal_busy")
        assert (await service.cancel(created.body["id"])).status == 200
        return "order"
    assert (created.status, created.code) == (409, "terminal_not_in_pdv_mode")
    assert changed.status == 200
    assert (await _set_mode(service, terminal, "PDV")).status == 200
    return "mode"


async def _set_mode(service: Service, terminal: Terminal, mode: str) -> Reply:
    body = {"terminals": [{"id": terminal.id, "operating_mode": mode}]}
    return await service.request("PATCH", "/terminals/v1/setup", body)


async def test_a_rejected_key_creates_one_order(database: Database, database_url: str) -> None:
    """Clients repeat a rejected create under its key until the terminal is free."""
    async with two_nodes(database, database_url) as nodes:
        service, terminal = nodes[0], await nodes[0].terminal()
        standing = await service.create(terminal)
        refused = await asyncio.gather(*(service.create(terminal, key=SALE) for _ in range(TILLS)))
        assert {reply.status for reply in refused} == {409}
        tills = (_repeat_until_made(nodes[place % 2], terminal) for place in range(TILLS))
        canceled, *made = await asyncio.gather(service.cancel(standing.body["id"]), *tills)
        assert canceled.status == 200
        assert len({reply.raw for reply in made}) == 1
    assert await count(database, "orders") == 2
    assert await check.check(database) == []


async def _repeat_until_made(service: Service, terminal: Terminal) -> Reply:
    while (reply := await service.create(terminal, key=SALE)).status == 409:
        assert reply.code == "already_queued_order_on_terminal"
    return reply
