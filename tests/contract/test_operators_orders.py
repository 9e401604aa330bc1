"""GET /operator/v1/orders: the orders of all sellers, the latest first, by what they have."""

from __future__ import annotations

from typing import Any

from operator_calls import Operator, operator
from parties import other_seller
from paydesk.core.clock import MovableClock
from paydesk.storage.database import Database
from service import Service, running


async def listed(desk: Operator, query: str = "") -> list[str]:
    """The ids of what is listed."""
    return [order["id"] for order in (await desk.did("GET", f"orders?{query}"))["data"]]


async def order_of(service: Service, clock: MovableClock, **fields: Any) -> dict[str, Any]:
    """A new order on a terminal of its own, a while after the one before."""
    clock.advance(5)
    order: dict[str, Any] = (await service.create(await service.terminal(), **fields)).body
    return order


async def test_the_latest_first(database: Database) -> None:
    """Of one seller or of all, page by page, each as applications see it."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        desk, stranger = await operator(service), await other_seller(service)
        made = [await order_of(service, clock) for _ in range(5)]
        theirs = await order_of(stranger, clock)
        newest_first = [order["id"] for order in reversed(made)]
        assert (await desk.did("GET", f"orders?seller={service.seller_id}"))["data"] == made[::-1]
        assert sorted(await listed(desk)) == sorted([*newest_first, theirs["id"]])
        found, after = [], ""
        while True:
            page = await desk.did("GET", f"orders?seller={service.seller_id}&limit=2{after}")
            found += [order["id"] for order in page["data"]]
            if "next" not in page:
                break
            after = f"&after={page['next']}"
        assert found == newest_first


async def test_by_what_they_have(database: Database) -> None:
    """Status, terminal and reference, alone and together."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        desk, stranger = await operator(service), await other_seller(service)
        first = await order_of(service, clock, external_reference="A-1")
        second = await order_of(service, clock, external_reference="A-1")
        third = await order_of(stranger, clock, external_reference="A-1")
        other = await order_of(service, clock, external_reference="A_1")
        assert (await service.cancel(first["id"])).status == 200
        terminal = second["config"]["point"]["terminal_id"]
        own = f"seller={service.seller_id}"
        for query, expected in (
            ("status=canceled", [first]),
            (f"status=created&{own}", [other, second]),
            (f"terminal_id={terminal}", [second]),
            ("external_reference=A_1", [other]),
            (f"external_reference=A-1&{own}", [second, first]),
            (f"external_reference=A-1&status=created&{own}", [second]),
            (f"external_reference=A-1&seller={stranger.seller_id}", [third]),
            ("external_reference=nobodys", []),
            ("seller=1", []),
        ):
            assert await listed(desk, query) == [order["id"] for order in expected], query
        assert sorted(await listed(desk, "external_reference=A-1")) == sorted(
            order["id"] for order in (first, second, third)
        )


async def test_what_is_none(service: Service) -> None:
    """A status, a seller, a page or a text that can't be is refused."""
    desk = await operator(service)
    for query in ("status=open", "status=expired", "seller=x", "limit=0", "after=x", "terminal_id=%00"):
        assert await desk.refused("GET", f"orders?{query}") == (400, "property_value"), query
    assert await desk.refused("GET", "orders?external_reference=%0A") == (400, "property_value")
