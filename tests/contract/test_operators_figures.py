"""GET /operator/v1/figures: the figures of a day."""

from __future__ import annotations

from typing import Any

import pytest

from accounts import other_seller
from operator_calls import operator
from paydesk.core.clock import MovableClock, rfc3339
from paydesk.operators.overview import figures
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Row, Transaction
from refund_scene import paid, refund
from service import Service, running
from tables import each

DAY_MS, HOUR_MS = 86_400_000, 3_600_000


async def decline(service: Service) -> None:
    """Create an order and decline it."""
    device = await service.device(await service.terminal())
    lease_id = (await service.create(device.terminal)).body["id"][3:]
    assert (await device.ack(lease_id)).status == 200
    assert (await device.authorizing(lease_id)).status == 200
    declined = await device.result(lease_id, outcome="declined", status_detail="insufficient_amount")
    assert declined.status == 200


@pytest.mark.on_postgres
async def test_figures_of_a_day(database: Database) -> None:
    """Numbers by status and hour, amounts by currency, approval rate and median; of test orders or live orders."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        clock.advance(DAY_MS - clock.now_ms() % DAY_MS + 3 * HOUR_MS)
        desk, other = await operator(service, "support"), await other_seller(service)
        first = await paid(service)
        clock.advance(2 * HOUR_MS)
        await paid(other)
        assert (await refund(service, first, "4.90")).status == 201
        await decline(service)
        assert (await service.create(await service.terminal())).status == 201
        found = await desk.did("GET", "figures?live=false")
        hours: list[dict[str, Any]] = found.pop("hours")
        assert found == {
            "day": rfc3339(clock.now_ms())[:10],
            "live_mode": False,
            "orders": 4,
            "statuses": {"created": 1, "failed": 1, "processed": 2},
            "amounts": [{"currency": "BRL", "processed": "49.80", "refunded": "4.90"}],
            "approval_rate": 0.6667,
            "median_ms": 0,
        }
        assert len(hours) == 24
        assert {
            hour["date"][11:13]: (hour["orders"], hour["processed"], hour["failed"]) for hour in hours if hour["orders"]
        } == {
            "03": (1, 1, 0),
            "05": (3, 1, 1),
        }
        live = await desk.did("GET", "figures")
        assert (live["live_mode"], live["orders"], live["amounts"]) == (True, 0, [])
        assert "approval_rate" not in live
        assert "median_ms" not in live
        day_before = rfc3339(clock.now_ms() - DAY_MS)[:10]
        assert (await desk.did("GET", f"figures?live=false&day={day_before}"))["orders"] == 0


@each(
    "query",
    ["day=today", "day=2026-13-01", "day=2026-01-31T00:00:00Z", "day=0001-01-01", "day=1969-12-31", "day=", "live=1"],
)
async def test_invalid_parameters_return_400(service: Service, query: str) -> None:
    """A day is a date; `live` is true or false."""
    desk = await operator(service, "support")
    assert await desk.refused("GET", f"figures?{query}") == (400, "property_value")


@pytest.mark.parametrize("sql", [figures.COUNTS, figures.MEDIAN], ids=["counts", "median"])
async def test_figures_read_only_the_day(sqlite_url: str, sql: str) -> None:
    """By the index of searches."""

    async def explained(tx: Transaction) -> list[Row]:
        return await tx.all(f"EXPLAIN QUERY PLAN {sql}", *(0, 1, 2, 3)[: 4 if "$4" in sql else 3])

    database = await open_database(sqlite_url)
    steps = [row[3] for row in await database.read(explained)]
    await database.close()
    assert any("orders_searched (seller_id=? AND live=? AND created_ms>? AND created_ms<?)" in step for step in steps)
    assert not any(step.startswith("SCAN o") for step in steps)
