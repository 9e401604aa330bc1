"""Lists of what happened are newest first over all sellers; each row is on one page."""

from __future__ import annotations

import random
from typing import Any

import pytest

from accounts import other_seller
from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock, rfc3339
from paydesk.engine.webhooks import schedule
from paydesk.platform.storage.database import Database, Transaction
from plain_rows import CONFIRMATION, DELIVERY, EVENT, INQUIRY, REFUND, REVERSAL, SUBSCRIBE, SUBSCRIPTION, run
from service import Service, running
from tables import each


async def deliver(database: Database, sellers: list[int], count: int) -> list[tuple[int, int, str, str]]:
    """Insert deliveries at few times, so that some are equal; return them newest first, each with its status."""
    made = []
    draw = random.Random(7)

    async def insert(tx: Transaction) -> None:
        await tx.run(SUBSCRIBE, SUBSCRIPTION)
        for number in range(count):
            # The first seller has most of them, as one busy shop among small ones.
            seller_id = draw.choice([sellers[0], sellers[0], *sellers])
            created_ms, status = draw.randrange(1, count // 2 + 1), draw.choice(schedule.DELIVERIES.names)
            event_id = f"{draw.getrandbits(32):08x}-8f1e-4f0b-9d5c-2b7a90c1e4d6"
            order_id, version = f"ORD01J67CQQH5904WDBVZEM{number:04}P3", 1
            await tx.run(EVENT, seller_id, order_id, version, event_id, "order.processed", created_ms)
            delivery_id = f"{event_id}.{SUBSCRIPTION}"
            await tx.run(DELIVERY, seller_id, delivery_id, SUBSCRIPTION, order_id, version, status, created_ms)
            made.append((created_ms, seller_id, delivery_id, status))

    await database.write(insert)
    return sorted(made, reverse=True)


async def paged(desk: Operator, query: str, limit: int) -> list[dict[str, Any]]:
    """Return the rows of all pages of a list."""
    found, after = [], ""
    while True:
        page = await desk.did("GET", f"{query}&limit={limit}{after}")
        assert len(page["data"]) <= limit
        found += page["data"]
        if "next" not in page:
            return found
        after = f"&after={page['next']}"


async def ids(desk: Operator, query: str, limit: int) -> list[str]:
    """Return the ids of all pages of a list."""
    return [row.get("id") or row["order_id"] for row in await paged(desk, query, limit)]


async def scene(service: Service) -> tuple[Operator, list[int]]:
    """Return an operator and four sellers, the last without any rows."""
    others = [await other_seller(service) for _ in range(3)]
    return await operator(service, "support"), [service.seller_id, *(other.seller_id for other in others)]


@pytest.mark.on_postgres
async def test_deliveries_are_listed_newest_first(database: Database) -> None:
    """By time over all sellers, of one, and with filters, on pages of any size; equal times keep one order."""
    async with running(database, workers=False) as service:
        desk, sellers = await scene(service)
        made = await deliver(database, sellers[:3], 90)
        for limit in (1, 2, 7, 89, 90, 200):
            assert await ids(desk, "deliveries?", limit) == [one[2] for one in made], limit
        for seller_id in sellers:
            own = [one[2] for one in made if one[1] == seller_id]
            assert await ids(desk, f"deliveries?seller={seller_id}", 4) == own
            failed = [one[2] for one in made if one[1] == seller_id and one[3] == "exhausted"]
            assert await ids(desk, f"deliveries?failed=true&seller={seller_id}", 4) == failed
        pending = [one[2] for one in made if one[3] == "pending"]
        assert 0 < len(pending) < 90
        assert await ids(desk, "deliveries?status=pending", 5) == pending
        since = [one[2] for one in made if one[0] >= 20]
        assert await ids(desk, f"deliveries?since={rfc3339(20)}&subscription={SUBSCRIPTION}", 6) == since
        assert await ids(desk, "deliveries?seller=1", 4) == []


@pytest.mark.on_postgres
async def test_page_after_cursor_has_no_newer_delivery(database: Database) -> None:
    """Deliveries that are created meanwhile do not move the pages that follow."""
    async with running(database, workers=False) as service:
        desk, sellers = await scene(service)
        made = await deliver(database, sellers[:3], 20)
        page = await desk.did("GET", "deliveries?limit=10")
        late = (sellers[1], f"ffffffff-8f1e-4f0b-9d5c-2b7a90c1e4d6.{SUBSCRIPTION}", SUBSCRIPTION)
        order_id = "ORD01J67CQQH5904WDBVZEM4JMEP3"
        await database.write(lambda tx: tx.run(EVENT, sellers[1], order_id, 1, late[1][:36], "order.created", 999))
        await database.write(lambda tx: tx.run(DELIVERY, *late, order_id, 1, "pending", 999))
        rest = await desk.did("GET", f"deliveries?limit=200&after={page['next']}")
        assert [one["id"] for one in (*page["data"], *rest["data"])] == [one[2] for one in made]
        assert (await ids(desk, "deliveries?", 200))[0] == late[1]


@pytest.mark.on_postgres
async def test_delivery_has_action_and_url(database: Database) -> None:
    """The action of the notification, and the subscription's URL with secrets masked."""
    async with running(database, workers=False) as service:
        desk, sellers = await scene(service)
        await deliver(database, sellers, 3)
        for one in await paged(desk, "deliveries?", 200):
            assert (one["action"], one["url"]) == ("order.processed", "https://8.8.8.8/hooks?token=***")


@pytest.mark.on_postgres
@pytest.mark.parametrize(
    ("noun", "sql", "prefix"),
    [
        ("refunds", REFUND, "REF"),
        ("inquiries", INQUIRY, "ORD"),
        ("reversals", REVERSAL, ""),
        ("confirmations", CONFIRMATION, "ORD"),
    ],
)
async def test_outcomes_are_listed_newest_first(database: Database, noun: str, sql: str, prefix: str) -> None:
    """Their ids contain their times; sellers may have equal ones."""
    async with running(database, workers=False) as service:
        desk, sellers = await scene(service)
        draw, made = random.Random(7), []
        for number in range(30):
            seller_id, row_id = draw.choice(sellers), f"{prefix}01J67CQQH5904WDBVZEM4J{number // 2:04}"
            made.append((row_id, seller_id))
            more = [f"{number}"] if noun == "reversals" else []
            if made.count(made[-1]) == 1:
                await run(database, sql, seller_id, row_id, *more)
        expected = sorted(set(made), reverse=True)
        assert len({row_id for row_id, _ in expected}) < len(expected)
        for limit in (1, 4, 200):
            rows = await paged(desk, f"{noun}?", limit)
            assert [(row.get("id") or row["order_id"], row["seller_id"]) for row in rows] == expected
        own = [row_id for row_id, seller_id in expected if seller_id == sellers[0]]
        assert await ids(desk, f"{noun}?seller={sellers[0]}", 2) == own


@pytest.mark.on_postgres
async def test_events_are_listed_newest_first(database: Database, clock: MovableClock) -> None:
    """Page by page."""
    async with running(database, workers=False, clock=clock) as service:
        desk, sql = (
            await operator(service, "support"),
            """INSERT INTO operator_events (event_id, kind, subject, message, body, created_ms)
               VALUES ($1, 'webhook_paused', '', '', '{}', 1)""",
        )
        made = [f"01J67CQQH5904WDBVZEM4J{number:04}" for number in range(5)]
        for event_id in random.Random(7).sample(made, 5):
            await run(database, sql, event_id)
        assert await ids(desk, "events?", 2) == made[::-1]


@each("after", ["1", "1.2", "x.1.2", "1.x.y", "99999999999999999999.1.y", "1.2.%00", ""])
async def test_invalid_cursor_of_deliveries_returns_400(service: Service, after: str) -> None:
    """A cursor is the `next` of a page."""
    desk = await operator(service, "support")
    assert await desk.refused("GET", f"deliveries?after={after}") == (400, "property_value")


@each("noun", ["orders", "refunds", "reversals", "inquiries", "confirmations"])
async def test_invalid_cursor_of_lists_by_id_returns_400(service: Service, noun: str) -> None:
    """The same for lists whose cursor is an id and a seller. A point in the id is not an error: no id follows it."""
    desk = await operator(service, "support")
    for after in ("1", "1.2.x", "x", "1.99999999999999999999", "1.%00", ""):
        assert await desk.refused("GET", f"{noun}?after={after}") == (400, "property_value"), after
    assert await desk.did("GET", f"{noun}?after=1.2.3") == {"data": []}
