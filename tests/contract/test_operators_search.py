"""GET /operator/v1/search: one text, and what it names."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from accounts import other_seller
from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock
from paydesk.platform.storage.database import Database
from plain_rows import run
from refund_scene import paid, refund
from service import Service, running
from tables import each

REQUEST = """
INSERT INTO recorded_requests (entry_id, request_id, method, path, operation, status, duration_us, replayed, error,
                               address, user_agent, created_ms)
VALUES ($1, $2, 'POST', '/v1/orders', 'create_order', 409, 1000, 0, 'already_queued_order_on_terminal', '', '', 1)"""


async def found(desk: Operator, text: str) -> list[dict[str, Any]]:
    """Return the results for a text."""
    data: list[dict[str, Any]] = (await desk.did("GET", f"search?q={quote(text, errors='surrogatepass')}"))["data"]
    return data


async def named(desk: Operator, text: str) -> list[tuple[str, str]]:
    """Return type and id of each result."""
    return [(hit["type"], hit["id"]) for hit in await found(desk, text)]


@pytest.mark.on_postgres
async def test_an_id_has_one_result(database: Database) -> None:
    """Of an order, its payment and its refund in any case, of a terminal, of a subscription and of a delivery."""
    async with running(database, workers=False, development=True) as service:
        desk = await operator(service)
        subscription = await desk.did(
            "POST",
            "subscriptions",
            {"client_id": str(service.scene.application.application_id), "url": "http://127.0.0.1:9/x"},
        )
        order_id = await paid(service)
        order = ("order", order_id)
        assert await named(desk, order_id) == [order]
        assert await named(desk, f"  {order_id.lower()} ") == [order]
        assert await named(desk, f"PAY{order_id[3:]}") == [order]
        made = (await refund(service, order_id)).body
        refund_id = made["transactions"]["refunds"][0]["id"]
        assert await named(desk, refund_id) == [order]
        (hit,) = await found(desk, order_id)
        assert (hit["title"], hit["status"]) == ("24.90 BRL", "refunded")
        terminal_id = (await service.get(order_id))["config"]["point"]["terminal_id"]
        assert await named(desk, terminal_id) == [("terminal", terminal_id)]
        assert await named(desk, terminal_id.lower()) == [("terminal", terminal_id)]
        assert await named(desk, subscription["id"].upper()) == [("subscription", subscription["id"])]
        delivery_id = (await desk.did("GET", "deliveries?limit=1"))["data"][0]["id"]
        assert await named(desk, delivery_id) == [("delivery", delivery_id)]


@pytest.mark.on_postgres
async def test_orders_are_found_by_what_an_operator_knows_of_them(database: Database) -> None:
    """By reference, acquirer's reference, last digits and payer; newest first, of all sellers, each once."""
    async with running(database, workers=False) as service:
        desk, other = await operator(service), await other_seller(service)
        payer = {"email": "ana@shop.example"}
        made = [
            (await one.create(await one.terminal(), external_reference=reference, payer=payer)).body["id"]
            for one, reference in ((service, "6351"), (other, "A-1"), (service, "A-1"))
        ]
        orders = [("order", order_id) for order_id in made]
        assert sorted(await named(desk, "A-1")) == sorted(orders[1:])
        for text in ("ana@shop.example", "Ana@Shop.example", "ANA@SHOP.EXAMPLE"):
            assert sorted(await named(desk, text)) == sorted(orders)
        set_digits = "UPDATE orders SET last_digits = '6351' WHERE order_id <> $1"
        await database.write(lambda tx: tx.run(set_digits, made[1]))
        found = await named(desk, "6351")  # A random serial number may have these digits too.
        assert [hit for hit in found if hit[0] == "order"] == [orders[0], orders[2]]
        order_id = await paid(service)
        payment = (await service.get(order_id))["transactions"]["payments"][0]
        assert await named(desk, payment["reference_id"]) == [("order", order_id)]
        assert sorted(await named(desk, "a-1")) == sorted(orders[1:])


async def test_references_are_found_exactly_or_in_upper_or_lower_case(database: Database) -> None:
    """The reference of another order that differs only in case is not found as long as the exact one exists."""
    async with running(database, workers=False) as service:
        desk = await operator(service)
        made = {
            reference: (await service.create(await service.terminal(), external_reference=reference)).body["id"]
            for reference in ("sale-0042", "SALE-0043", "sale-0043", "Sale-0044")
        }
        for text, reference in (
            ("SALE-0042", "sale-0042"),
            ("Sale-0042", "sale-0042"),
            ("SALE-0043", "SALE-0043"),
            ("sale-0043", "sale-0043"),
            ("Sale-0044", "Sale-0044"),
        ):
            assert await named(desk, text) == [("order", made[reference])], text
        assert await named(desk, "SALE-0044") == []


async def test_recent_orders_are_found_by_the_end_of_their_id(database: Database) -> None:
    """Alone, or as pages show the id; of every seller, in any case."""
    async with running(database, workers=False) as service:
        desk, other = await operator(service), await other_seller(service)
        for one in (service, other):
            order_id = (await one.create(await one.terminal())).body["id"]
            order, ending = ("order", order_id), order_id[-5:]
            short = f"{order_id[:6]}…{ending}"
            for text in (ending, ending.lower(), order_id[-12:], f"…{ending}", short, short.lower(), f"PAY{short[3:]}"):
                assert order in await named(desk, text), text
            assert await named(desk, f"{order_id[:8]}...{order_id[-10:]}") == [order]
            assert order not in await named(desk, f"ORD7ZZ…{ending}")
            assert order not in await named(desk, order_id[-5:-1])


async def test_the_end_of_an_id_is_looked_for_among_the_newest_orders(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same number of each seller, so that the search of a large database ends."""
    monkeypatch.setattr("paydesk.operators.search.orders.ORDERS_READ", 0)
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        desk, made = await operator(service), []
        for _ in range(2):
            clock.advance(5)
            made.append((await service.create(await service.terminal())).body["id"])
        older, newer = made
        assert await named(desk, newer[-8:]) == [("order", newer)]
        assert await named(desk, older[-8:]) == []
        assert await named(desk, older) == [("order", older)]


@pytest.mark.on_postgres
async def test_terminals_applications_and_sellers_are_found_by_a_part_of_their_name(database: Database) -> None:
    """In any case; characters of patterns match themselves."""
    async with running(database, workers=False) as service:
        desk, terminal = await operator(service), await service.terminal()
        serial = terminal.id.rpartition("_")[2]
        assert await named(desk, serial) == [("terminal", terminal.id)]
        for text in (serial[2:], serial[-4:].lower(), f"{serial[:4]}…{serial[-4:]}", f"{serial[:2]}...{serial[-4:]}"):
            assert ("terminal", terminal.id) in await named(desk, text), text
        body = {"name": "Kiosk 100% blue", "redirect_uris": ["https://kiosk.example/callback"]}
        client_id = (await desk.did("POST", "applications", body))["client_id"]
        application = ("application", client_id)
        assert await named(desk, "kiosk 100%") == [application]
        assert await named(desk, "100%b") == []
        assert await named(desk, client_id) == [application]
        seller = {"email": "bia@shop.example", "name": "Bia's bar", "country": "BRA", "currency": "BRL"}
        user_id = str((await desk.did("POST", "sellers", seller))["user_id"])
        for text in ("BIA'S", "bia@shop.example", "Bia@Shop.example", user_id):
            assert await named(desk, text) == [("seller", user_id)], text


async def test_requests_are_found_by_their_id(database: Database) -> None:
    """Clients may repeat an id: then all of them, newest first."""
    async with running(database, workers=False) as service:
        desk = await operator(service)
        for entry in ("01J67CQQH5904WDBVZEM4JMEP3", "01J67CQQH5904WDBVZEM4JMEP4"):
            await run(database, REQUEST, entry, "req-7")
        assert [one for _, one in await named(desk, "req-7")] == [
            "01J67CQQH5904WDBVZEM4JMEP4",
            "01J67CQQH5904WDBVZEM4JMEP3",
        ]
        (hit,) = await found(desk, "01J67CQQH5904WDBVZEM4JMEP3")
        assert hit == {
            "type": "request",
            "id": "01J67CQQH5904WDBVZEM4JMEP3",
            "title": "POST /v1/orders",
            "detail": "already_queued_order_on_terminal",
            "status": "409",
            "date": "1970-01-01T00:00:00.001Z",
        }


async def test_there_are_at_most_20_results(database: Database) -> None:
    """The newest of more orders."""
    async with running(database, workers=False) as service:
        desk = await operator(service, "support")
        for _ in range(22):
            assert (await service.create(await service.terminal(), external_reference="A-1")).status == 201
        assert len(await found(desk, "A-1")) == 20


@each("query", ["", "?q=", "?q=%20", f"?q={'x' * 201}", "?q=a%00b", "?q=a%0Ab"])
async def test_a_text_that_nothing_can_have_returns_400(service: Service, query: str) -> None:
    """An empty one, a long one, control characters."""
    assert await (await operator(service, "support")).refused("GET", f"search{query}") == (400, "property_value")


@each("text", ["'", "%", "_", "!", "\\", "ORD", "ORD' OR 1=1", "😀", "x" * 200, "-1", "9" * 19, "\ud800"])
async def test_any_other_text_has_a_response(service: Service, text: str) -> None:
    """Also one with characters of SQL."""
    assert isinstance(await found(await operator(service), text), list)
