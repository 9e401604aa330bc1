"""GET /operator/v1/orders: the orders of all sellers, newest first, with filters."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, quote

import pytest

from accounts import other_seller
from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock, rfc3339
from paydesk.platform.storage.database import Database
from service import Service, running
from tables import each


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


@pytest.mark.on_postgres
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


@pytest.mark.on_postgres
async def test_orders_are_filtered_by_card_payer_application_kind_and_time(database: Database) -> None:
    """Alone and combined; a date includes its whole day."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        desk, made = await operator(service), []
        for number in range(4):
            payer = {"payer": {"email": f"p{number % 2}@shop.example"}}
            made.append(await order_of(service, clock, **payer))
        ids = [order["id"] for order in reversed(made)]
        await database.write(lambda tx: tx.run("UPDATE orders SET live = 1 WHERE order_id = $1", ids[0]))
        await database.write(lambda tx: tx.run("UPDATE orders SET application_id = 7 WHERE order_id = $1", ids[1]))
        dates = {order["id"]: quote(order["created_date"]) for order in made}
        terminal = made[0]["config"]["point"]["terminal_id"]
        application = made[0]["integration_data"]["application_id"]
        day, next_day = (rfc3339(clock.now_ms() + days * 86_400_000)[:10] for days in (0, 1))
        for query, expected in (
            ("payer_email=p1@shop.example", [ids[0], ids[2]]),
            ("payer_email=P1@Shop.example&live=true", [ids[0]]),
            ("payer_email=P1@SHOP.EXAMPLE", [ids[0], ids[2]]),
            ("payer_email=P1@shop.exampl", []),
            (f"payer_email=p1@shop.example&seller={service.seller_id}", [ids[0], ids[2]]),
            ("payer_email=p1@shop.example&seller=1", []),
            (f"status=canceled&seller={service.seller_id}", []),
            (f"terminal_id={terminal}&seller={service.seller_id}", ids[3:]),
            ("application=7", [ids[1]]),
            (f"application={application}&live=false", ids[2:]),
            ("live=true", ids[:1]),
            ("live=false", ids[1:]),
            ("live=true&status=created", ids[:1]),
            ("live=false&status=canceled", []),
            (f"terminal_id={terminal}", ids[3:]),
            (f"terminal_id={terminal}&live=true", []),
            (f"terminal_id={terminal}&application={application}&status=created", ids[3:]),
            (f"since={dates[ids[1]]}", ids[:2]),
            (f"until={dates[ids[1]]}", ids[1:]),
            (f"since={dates[ids[2]]}&until={dates[ids[1]]}", ids[1:3]),
            (f"since={dates[ids[2]]}&live=false&limit=1", ids[1:2]),
            (f"until={dates[ids[1]]}&live=false", ids[1:]),
            (f"since={day}&until={day}", ids),
            (f"since={next_day}", []),
            ("until=1969-01-01", []),
        ):
            assert await listed(desk, query) == expected, query
        found, after = [], ""
        while True:
            page = await desk.did("GET", f"orders?live=false&limit=1&until={dates[ids[1]]}{after}")
            found += [order["id"] for order in page["data"]]
            if "next" not in page:
                break
            after = f"&after={page['next']}"
        assert found == ids[1:]


@pytest.mark.on_postgres
@pytest.mark.parametrize("outcome", ["approved", "declined"])
async def test_orders_are_found_by_the_last_digits_of_their_card(database: Database, outcome: str) -> None:
    """Whether it paid or was declined; the list shows them."""
    async with running(database, workers=False) as service:
        desk, device = await operator(service), await service.device(await service.terminal())
        order_id = (await service.create(device.terminal)).body["id"]
        lease_id = order_id[3:]
        assert (await device.ack(lease_id)).status == 200
        assert (await device.authorizing(lease_id)).status == 200
        card = {"first_digits": "503175", "last_digits": "6351", "entry_mode": "chip"}
        reply = (
            await device.approve(lease_id, card=card)
            if outcome == "approved"
            else await device.result(lease_id, outcome="declined", status_detail="insufficient_amount", card=card)
        )
        assert reply.status == 200, reply.body
        (order,) = (await desk.did("GET", "orders?last_digits=6351"))["data"]
        assert (order["id"], order["last_digits"]) == (order_id, "6351")
        assert await listed(desk, "last_digits=6351&since=2020-01-01&status=created") == []
        assert await listed(desk, "last_digits=6352") == []
        of_seller = await listed(desk, f"last_digits=6351&seller={service.seller_id}")
        assert (of_seller, await listed(desk, "last_digits=6351&seller=1")) == ([order_id], [])


async def test_invalid_filters_return_400(service: Service) -> None:
    """For each parameter; the error names it."""
    desk = await operator(service)
    for query in (
        "status=open",
        "state=open",
        "status=created&state=created",
        "seller=x",
        "limit=0",
        "after=x",
        "terminal_id=%00",
        "last_digits=635",
        "live=yes",
        "application=x",
        "payer_email=x",
        "payer_email=%00@x",
        "since=today",
        "until=2026-13-01",
    ):
        assert await desk.refused("GET", f"orders?{query}") == (400, "property_value"), query
    assert await desk.refused("GET", "orders?external_reference=%0A") == (400, "property_value")


@each(
    "query",
    [
        "orders?state=open&status=created&until=x&seller=x&limit=0&after=x",
        "exports/orders?format=xml&status=x&application=x&limit=10001",
        "deliveries?order=x&failed=true&status=x&since=x&subscription=x",
        "requests?order=x&request_id=%20&application=x&terminal=%00&method=get&status=1&sender=x",
        "terminals?status=x&presence=x&mode=x&live=x&virtual=1&q=%00&seller=-1",
        "grants?seller=x&application=x&status=x",
        "subscriptions?client_id=x&sort=x",
        "audit?operator=x&subject=%00",
        "sessions?operator=x&limit=201",
        "inquiries?open=x&seller=x",
        "stores?seller=x&after=1",
        "figures?live=x&day=today",
    ],
)
async def test_every_invalid_filter_is_named(service: Service, query: str) -> None:
    """In one refusal, in the order in which they were sent."""
    sent = [name for name, _ in parse_qsl(query.partition("?")[2])]
    if query.startswith("orders?"):
        sent.remove("status")  # `state` must not be sent with it.
    elif query.startswith("deliveries?"):
        sent.remove("order")
    reply = await (await operator(service)).ask("GET", query)
    assert [error["code"] for error in reply.body["errors"]] == ["property_value"] * len(sent)
    assert [detail.partition("'")[2].partition("'")[0] for detail in reply.details] == sent
