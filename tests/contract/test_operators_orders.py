"""GET /operator/v1/orders: the orders of all sellers, newest first, with filters."""

from __future__ import annotations

from typing import Any

from accounts import other_seller
from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock
from paydesk.storage.database import Database
from service import Service, running


async def listed(desk: Operator, query: str = "") -> list[str]:
    """Return the ids of the listed orders."""
    return [order["id"] for order in (await desk.did("GET", f"orders?{query}"))["data"]]


async def order_of(service: Service, clock: MovableClock, **fields: Any) -> dict[str, Any]:
    """Create an order on a new terminal, 5 s after the previous one."""
    clock.advance(5)
    order: dict[str, Any] = (await service.create(await service.terminal(), **fields)).body
    return order


async def test_orders_are_listed_newest_first(database: Database) -> None:
    """Of one seller or of all sellers, page by page."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        desk, other = await operator(service), await other_seller(service)
        made = [await order_of(service, clock) for _ in range(5)]
        theirs = await order_of(other, clock)
        newest_first = [order["id"] for order in reversed(made)]
        assert (await desk.did("GET", f"orders?seller={service.seller_id}"))["data"] == made[::-1]
        assert await listed(desk) == [theirs["id"], *newest_first]
        found, after = [], ""
        while True:
            page = await desk.did("GET", f"orders?seller={service.seller_id}&limit=2{after}")
            found += [order["id"] for order in page["data"]]
            if "next" not in page:
                break
            after = f"&after={page['next']}"
        assert found == newest_first


async def test_orders_are_filtered(database: Database) -> None:
    """By status, terminal and reference, alone and combined."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        desk, other = await operator(service), await other_seller(service)
        first = await order_of(service, clock, external_reference="A-1")
        second = await order_of(service, clock, external_reference="A-1")
        third = await order_of(other, clock, external_reference="A-1")
        fourth = await order_of(service, clock, external_reference="A_1")
        assert (await service.cancel(first["id"])).status == 200
        terminal = second["config"]["point"]["terminal_id"]
        own = f"seller={service.seller_id}"
        for query, expected in (
            ("status=canceled", [first]),
            (f"status=created&{own}", [fourth, second]),
            (f"terminal_id={terminal}", [second]),
            ("external_reference=A_1", [fourth]),
            (f"external_reference=A-1&{own}", [second, first]),
            (f"external_reference=A-1&status=created&{own}", [second]),
            (f"external_reference=A-1&seller={other.seller_id}", [third]),
            ("external_reference=unknown", []),
            ("seller=1", []),
        ):
            assert await listed(desk, query) == [order["id"] for order in expected], query
        assert sorted(await listed(desk, "external_reference=A-1")) == sorted(
            order["id"] for order in (first, second, third)
        )


async def test_invalid_filters_return_400(service: Service) -> None:
    """For status, seller, limit, cursor, terminal and reference."""
    desk = await operator(service)
    for query in ("status=open", "status=expired", "seller=x", "limit=0", "after=x", "terminal_id=%00"):
        assert await desk.refused("GET", f"orders?{query}") == (400, "property_value"), query
    assert await desk.refused("GET", "orders?external_reference=%0A") == (400, "property_value")
