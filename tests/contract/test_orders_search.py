"""GET /v1/orders: filters, paging, and the validation of every parameter."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from accounts import other_application, other_seller, with_scope
from paydesk.core.clock import MovableClock, rfc3339
from paydesk.platform.storage.database import Database
from service import Reply, Service, Terminal, running

MINUTE_MS, DAY_MS = 60_000, 86_400_000


@pytest.fixture
async def still(database: Database) -> AsyncIterator[Service]:
    """A service with a frozen clock."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        yield service


async def search(service: Service, **query: Any) -> Reply:
    """Search, and return the response."""
    return await service.request("GET", f"/v1/orders?{urllib.parse.urlencode(query)}")


async def found(service: Service, **query: Any) -> list[str]:
    """Return the ids found, in order, after comparing their number with the total."""
    reply = await search(service, **query)
    assert reply.status == 200, reply
    if not {"limit", "page_size"} & set(query):
        assert reply.body["paging"]["total"] == str(len(reply.body["data"]))
    return [order["id"] for order in reply.body["data"]]


async def canceled(service: Service, terminal: Terminal, **fields: Any) -> str:
    """Create and cancel an order, so that its terminal is free."""
    order_id: str = (await service.create(terminal, **fields)).body["id"]
    assert (await service.cancel(order_id)).status == 200
    return order_id


async def paid(service: Service, terminal: Terminal, **content: Any) -> str:
    """Create an order and approve it."""
    device = await service.device(terminal)
    order_id: str = (await service.create(terminal)).body["id"]
    for step in (device.ack, device.authorizing, lambda lease: device.approve(lease, **content)):
        assert (await step(order_id[3:])).status == 200
    return order_id


@pytest.mark.on_postgres
async def test_search_returns_orders_as_get_does(service: Service) -> None:
    """The whole order, and paging in strings."""
    order = (await service.create(await service.terminal())).body
    reply = await search(service)
    assert reply.body == {
        "data": [order],
        "paging": {"total": "1", "total_pages": "1", "offset": "0", "limit": "50"},
    }


@pytest.mark.on_postgres
async def test_an_empty_result(service: Service) -> None:
    """No orders, no pages."""
    reply = await search(service, external_reference="nobodys")
    assert reply.body == {"data": [], "paging": {"total": "0", "total_pages": "0", "offset": "0", "limit": "50"}}


@pytest.mark.on_postgres
async def test_search_finds_the_latest_write(service: Service) -> None:
    """Created, canceled: found by the next search."""
    terminal = await service.terminal()
    for number in range(1, 21):
        order_id = (await service.create(terminal)).body["id"]
        assert await found(service, status="created") == [order_id]
        assert (await service.cancel(order_id)).status == 200
        assert order_id in await found(service, status="canceled")
        assert len(await found(service)) == number


@pytest.mark.on_postgres
async def test_filters(service: Service) -> None:
    """Each finds the orders with its value; combined, those with all values."""
    first, second = [await service.terminal() for _ in range(2)]
    canceled_id = await canceled(service, first, external_reference="A-1")
    visa = await paid(service, first, reference_id="1001")
    master = await paid(
        service,
        second,
        payment_method={"id": "debmaster", "type": "debit_card", "installments": 1},
        reference_id="1002",
    )
    created = (await service.create(first, external_reference="B_2")).body["id"]
    for query, expected in (
        ({"external_reference": "A-1"}, [canceled_id]),
        ({"external_reference": "A_1"}, []),
        ({"external_reference": "B_2"}, [created]),
        ({"type": "point"}, [created, master, visa, canceled_id]),
        ({"status": "created"}, [created]),
        ({"status": "canceled"}, [canceled_id]),
        ({"status": "processed"}, [master, visa]),
        ({"status": "refunded"}, []),
        ({"status_detail": "processed"}, [master, visa]),
        ({"status_detail": "canceled"}, [canceled_id]),
        ({"payment_method_id": "visa"}, [visa]),
        ({"payment_method_id": "vis_"}, []),
        ({"payment_method_id": "visa2"}, []),
        ({"payment_method_id": "credit_card"}, []),
        ({"payment_method_type": "debit_card"}, [master]),
        ({"payment_method_type": "credit_card"}, [visa]),
        ({"payment_method_type": "debit"}, []),
        ({"terminal_id": second.id}, [master]),
        ({"terminal_id": "NEWLAND_N950__NOWHERE"}, []),
        ({"status": "processed", "terminal_id": first.id, "payment_method_id": "visa"}, [visa]),
        ({"status": "processed", "terminal_id": first.id, "payment_method_id": "debmaster"}, []),
        ({"status": "created", "status_detail": "canceled"}, []),
    ):
        assert sorted(await found(service, **query)) == sorted(expected), query


@pytest.mark.on_postgres
async def test_dates_are_inclusive(still: Service) -> None:
    """A day begins and ends at midnight UTC; offsets may be escaped or not."""
    clock: Any = still.clock
    clock.advance(DAY_MS - clock.now_ms() % DAY_MS)
    terminal = await still.terminal()
    midnight_ms = clock.now_ms()
    orders = []
    for pause_ms in (0, DAY_MS - 1, 1, 3 * DAY_MS):
        clock.advance(pause_ms)
        orders.append(await canceled(still, terminal))
    first, eve, second, later = orders
    day, next_day = (rfc3339(midnight_ms + days * DAY_MS)[:10] for days in (0, 1))
    instant = rfc3339(midnight_ms)
    for query, expected in (
        ({}, [later, second, eve, first]),
        ({"begin_date": day}, [later, second, eve, first]),
        ({"begin_date": day, "end_date": day}, [eve, first]),
        ({"begin_date": next_day}, [later, second]),
        ({"begin_date": next_day, "end_date": next_day}, [second]),
        ({"begin_date": instant, "end_date": instant}, [first]),
        ({"begin_date": instant.replace("Z", "+00:00"), "end_date": instant}, [first]),
        ({"begin_date": instant.replace("T", "t").replace(".000Z", "z"), "end_date": instant}, [first]),
        ({"begin_date": f"{day}T02:00:00+02:00", "end_date": f"{day}T00:00:00.0009-00:00"}, [first]),
        ({"end_date": rfc3339(midnight_ms + DAY_MS - 2)}, [first]),
        ({"end_date": rfc3339(midnight_ms + DAY_MS - 1)}, [eve, first]),
        ({"begin_date": "2020-01-01", "end_date": "2020-01-31"}, []),
        ({"begin_date": "2020-01-01", "end_date": "2020-02-01"}, []),
    ):
        assert await found(still, **query) == expected, query
    unescaped = await still.request("GET", f"/v1/orders?begin_date={day}T02:00:00+02:00&end_date={day}")
    assert unescaped.body["paging"]["total"] == "2"
    clock.advance(27 * DAY_MS)
    assert await found(still) == [later, second]


@pytest.mark.on_postgres
async def test_orders_of_the_same_millisecond_are_paged_once(still: Service) -> None:
    """In both styles of paging and both directions."""
    clock: Any = still.clock
    terminal = await still.terminal()
    made = []
    for number in range(7):
        clock.advance(MINUTE_MS if number == 3 else 0)
        made.append(await canceled(still, terminal))
    newest_first = await found(still)
    assert sorted(newest_first) == sorted(made)
    assert set(newest_first[:4]) == set(made[3:])
    assert await found(still, sort_by="created_date", sort_order="asc") == newest_first[::-1]
    by_page = [await found(still, page=page, page_size=3) for page in (1, 2, 3, 4)]
    by_offset = [await found(still, offset=offset, limit=3) for offset in (0, 3, 6, 9)]
    assert by_page == by_offset == [newest_first[:3], newest_first[3:6], newest_first[6:], []]
    paging = (await search(still, page=3, page_size=3)).body["paging"]
    assert paging == {"total": "7", "total_pages": "3", "offset": "6", "limit": "3"}
    paging = (await search(still, offset=2, limit=100)).body["paging"]
    assert paging == {"total": "7", "total_pages": "1", "offset": "2", "limit": "100"}


@pytest.mark.on_postgres
async def test_search_is_limited_to_the_seller_and_mode(service: Service) -> None:
    """It includes all of the seller's applications."""
    order_id = await canceled(service, await service.terminal())
    colleague, outsider = await other_application(service), await other_seller(service)
    theirs = await canceled(colleague, await colleague.terminal())
    assert sorted(await found(service)) == sorted(await found(colleague)) == sorted([order_id, theirs])
    assert await found(outsider) == []
    live = replace(service, access_token=service.live_access_token)
    assert await found(live) == []
    live_id = (await live.create(await service.terminal(live=True))).body["id"]
    assert await found(live) == [live_id]
    assert live_id not in await found(service)


@pytest.mark.on_postgres
async def test_search_requires_the_scope_read(service: Service) -> None:
    """A token without it gets 403."""
    reply = await service.request("GET", "/v1/orders", token=await with_scope(service, "write"))
    assert (reply.status, reply.code) == (403, "insufficient_scope")


BROKEN: tuple[tuple[str, str, str], ...] = (
    ("surprise=1", "unsupported_properties", "'surprise' - is not known here"),
    ("Status=created", "unsupported_properties", "'Status' - is not known here"),
    (
        "status",
        "property_value",
        "'status' - must be one of created, at_terminal, processed, failed, canceled, refunded",
    ),
    ("status=expired", "property_value", "'status' - must be one of"),
    ("status=created&status=failed", "property_value", "'status' - must be sent once"),
    ("status_detail=accredited", "property_value", "'status_detail' - must be one of"),
    ("type=online", "property_value", "'type' - must be point"),
    ("external_reference=", "property_value", "'external_reference' - must have 1 to 64"),
    (f"external_reference={'a' * 65}", "property_value", "'external_reference' - must have 1 to 64"),
    ("external_reference=%00", "property_value", "'external_reference' - must have 1 to 64"),
    ("external_reference=%FF", "property_value", "'external_reference' - must have 1 to 64"),
    ("payment_method_id=Visa%25", "property_value", "'payment_method_id' - must have 1 to 32"),
    ("payment_method_type=%22", "property_value", "'payment_method_type' - must have 1 to 32"),
    ("terminal_id=%00", "property_value", "'terminal_id' - must have 1 to 80 characters"),
    (f"terminal_id={'T' * 81}", "property_value", "'terminal_id' - must have 1 to 80 characters"),
    ("page=0", "property_value", "'page' - must be a whole number from 1 to"),
    ("page=1.0", "property_value", "'page' - must be"),
    ("page=%D9%A1", "property_value", "'page' - must be"),
    ("page_size=101", "property_value", "'page_size' - must be a whole number from 1 to 100"),
    ("limit=0", "property_value", "'limit' - must be a whole number from 1 to 100"),
    ("limit=-1", "property_value", "'limit' - must be"),
    (f"offset={'9' * 400}", "property_value", "'offset' - must be a whole number from 0 to"),
    ("page=1&limit=10", "property_value", "'limit' - must not be sent with page or page_size"),
    ("offset=0&page_size=10", "property_value", "'offset' - must not be sent with page or page_size"),
    ("sort_by=id", "property_value", "'sort_by' - must be created_date"),
    ("sort_order=DESC", "property_value", "'sort_order' - must be one of asc, desc"),
    ("begin_date=yesterday", "property_value", "'begin_date' - must be a date, such as"),
    ("begin_date=2026-02-30", "property_value", "'begin_date' - must be a date"),
    ("begin_date=2026-01-01T24:00:00Z", "property_value", "'begin_date' - must be a date"),
    ("begin_date=2026-01-01T00:00:00", "property_value", "'begin_date' - must be a date"),
    ("begin_date=0000-01-01", "property_value", "'begin_date' - must be a date"),
    ("end_date=2026-01-01T00:00:00%2B25:00", "property_value", "'end_date' - must be a date"),
    ("begin_date=2026-01-02&end_date=2026-01-01", "property_value", "'end_date' - must not be before begin_date"),
    ("begin_date=2026-01-01&end_date=2026-02-02", "property_value", "'begin_date' - must be at most one month before"),
    (
        "begin_date=2020-01-01",
        "property_value",
        "'begin_date' - must be at most one month before end_date, which defaults",
    ),
)


async def test_an_invalid_parameter_is_named(service: Service) -> None:
    """With its rule."""
    for query, code, detail in BROKEN:
        reply = await service.request("GET", f"/v1/orders?{query}")
        assert (reply.status, reply.code, len(reply.details)) == (400, code, 1), (query, reply)
        assert reply.details[0].startswith(detail), reply.details


@pytest.mark.on_postgres
async def test_faults_are_limited_in_number(service: Service) -> None:
    """As for a body, whatever the number of parameters."""
    reply = await service.request("GET", f"/v1/orders?{'&'.join(f'p{number}' for number in range(60))}")
    assert (reply.status, reply.code, len(reply.details)) == (400, "unsupported_properties", 50)


@pytest.mark.on_postgres
async def test_all_faults_are_listed(service: Service) -> None:
    """In the order of the parameters; the first one is also the flat error."""
    reply = await service.request("GET", "/v1/orders?limit=0&surprise=1&status=open&begin_date=x&page=1")
    assert [(error["code"], error["details"][0].split(" - ")[0]) for error in reply.body["errors"]] == [
        ("property_value", "'limit'"),
        ("unsupported_properties", "'surprise'"),
        ("property_value", "'status'"),
        ("property_value", "'begin_date'"),
    ]
    assert (reply.body["error"], reply.body["status"]) == ("property_value", 400)


@pytest.mark.on_postgres
async def test_values_at_the_bounds_are_accepted(service: Service) -> None:
    """For every parameter."""
    for query in (
        "limit=100",
        "limit=1&offset=10000000",
        "page_size=100&page=10000000",
        "begin_date=1970-01-01&end_date=1970-02-01",
        "begin_date=9999-12-01&end_date=9999-12-31",
        "begin_date=9999-12-31",
        f"external_reference={'a' * 64}",
        f"terminal_id={'T' * 80}",
    ):
        reply = await service.request("GET", f"/v1/orders?{query}")
        assert (reply.status, reply.body["data"]) == (200, []), query
