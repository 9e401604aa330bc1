"""Holds a database against what clients were answered: nothing acknowledged is lost, nothing happened twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from faults.load import Answered, Client, Record, Refresher, tokens_of
from paydesk.engine.invariants import check
from paydesk.platform.storage.database import Database
from service import Reply

ORDERS = "SELECT order_id, status, version FROM orders"


async def findings(database: Database, clients: Iterable[Client]) -> list[str]:
    """What must not be; the clients are still, each perhaps with one request whose outcome it does not know."""
    clients = list(clients)
    found = [str(finding) for finding in await check.integrity(database)]
    found += [str(finding) for finding in await check.check(database)]
    found += await _orders(database, [client.record for client in clients])
    for repeated in await asyncio.gather(*(_repeats(client) for client in clients)):
        found += repeated
    return found


async def _orders(database: Database, records: list[Record]) -> list[str]:
    rows = await database.read(lambda tx: tx.all(ORDERS), heavy=True)
    kept = {order_id: (status, version) for order_id, status, version in rows}
    found = []
    for record in records:
        for order_id, statuses in record.orders.items():
            if kept.get(order_id) not in _possible(order_id, statuses, record):
                found.append(f"{order_id}: answered {statuses}, it is {kept.get(order_id, 'lost')}")
    answered = sum(len(record.orders) for record in records)
    under_way = sum(record.asked is not None and not record.asked[0] for record in records)
    if not answered <= len(kept) <= answered + under_way:
        found.append(f"{answered} orders were answered, {under_way} are under way, and {len(kept)} are there")
    return found


def _possible(order_id: str, statuses: list[str], record: Record) -> list[tuple[str, int]]:
    possible = [(statuses[-1], len(statuses))]
    if record.asked is not None and record.asked[0] == order_id:
        possible.append((record.asked[1], len(statuses) + 1))
    return possible


async def _repeats(client: Client) -> list[str]:
    found = []
    for answered in client.record.answered:
        reply = await answered.request()
        if (reply.status, content_of(answered, reply)) != (answered.status, answered.content):
            found.append(f"{answered.what} was answered {answered.content!r}, and again {reply.raw!r}")
    if isinstance(client, Refresher) and client.record.answered:
        used = await client.use()
        if used.status != 404:
            found.append(f"an access token that was answered is refused: {used.raw!r}")
    return found


def content_of(answered: Answered, reply: Reply) -> object:
    """The part of a repeat's answer that must be the same."""
    return tokens_of(reply) if answered.what == "refresh" else reply.raw
