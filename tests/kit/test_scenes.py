"""`/dev/scenes`, `/dev/notifications` and `/dev/charges`: what a test needs of its own, and what it looks at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from operator_calls import Operator, audited, operator
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_dev.inbox import notifications, store
from service import Reply, Service, running
from skipped_waits import skipped_waits
from virtual_scene import Virtual, playing
from waiting import until

UNKNOWN = "ORD01J67CQQH5904WDBVZEM4JMEP3"


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A running service with virtual terminals."""
    with skipped_waits(database):
        async with playing(database, settings=Settings(acquirer="simulator")) as service:
            yield service


@pytest.fixture
async def owner(service: Service) -> Operator:
    """An operator."""
    return await operator(service)


async def ask(owner: Operator, path: str, body: Any = None) -> Reply:
    """Send a request below `/dev/`."""
    method = "GET" if body is None else "POST"
    return await owner.service.request(method, f"/dev/{path}", body, token=owner.token, key=None)


async def scene(owner: Operator, **fields: Any) -> dict[str, Any]:
    """Create a scene."""
    reply = await ask(owner, "scenes", fields)
    assert reply.status == 201, reply.body
    document: dict[str, Any] = reply.body
    return document


async def data(owner: Operator, path: str) -> list[dict[str, Any]]:
    """Return the rows of a list."""
    reply = await ask(owner, path)
    assert reply.status == 200, reply.body
    rows: list[dict[str, Any]] = reply.body["data"]
    return rows


async def pay(service: Service, made: dict[str, Any], amount: str = "24.90") -> str:
    """Return an order of the scene that is paid on a virtual terminal of its seller."""
    token = made["test"]["access_token"]
    reply = await service.request("POST", "/virtual/v1/terminals", {}, token=token, key=None)
    virtual = Virtual(service, reply.body["id"], reply.body, token)
    body = {"type": "point", "external_reference": "s1", "transactions": {"payments": [{"amount": amount}]}}
    body["config"] = {"point": {"terminal_id": virtual.id}}
    order = await service.request("POST", "/v1/orders", body, token=token)
    assert order.status == 201, order.body
    await virtual.screen("present_card")
    await virtual.act("tap", card="visa_approved")
    order_id: str = order.body["id"]
    return order_id


@pytest.mark.on_postgres
async def test_a_scene_is_complete_and_its_own(service: Service, owner: Operator) -> None:
    """Its tokens are the seller's in both modes; two scenes share nothing; the audit trail names no secret."""
    one, other = await asyncio.gather(scene(owner), scene(owner, name="Tienda", country="CHL", access_seconds=60))
    assert one["seller"].items() >= {"name": "Scene", "country": "BRA", "currency": "BRL"}.items()
    assert other["seller"].items() >= {"name": "Tienda", "country": "CHL", "currency": "CLP"}.items()
    assert one["client_id"] != other["client_id"]
    assert one["webhook"]["url"] == f"{service.base_url}/demo/inbox"
    for made in (one, other):
        for mode in ("test", "live"):
            reply = await service.request("GET", "/users/me", token=made[mode]["access_token"])
            assert reply.body["id"] == made["seller"]["user_id"], reply
    body = {
        "grant_type": "refresh_token",
        "client_id": one["client_id"],
        "client_secret": one["client_secret"],
        "refresh_token": one["test"]["refresh_token"],
    }
    assert (await service.request("POST", "/oauth/token", body, token=None, key=None)).status == 200
    lines = [line for line in await audited(service) if line.action == "scenes.create"]
    assert {line.subject for line in lines} == {str(made["seller"]["user_id"]) for made in (one, other)}
    assert "secret" not in str(lines)


async def test_a_scene_that_cannot_be_is_refused(owner: Operator) -> None:
    """A country without a currency, and a URL to which nothing is sent; each names its field."""
    for body, field in (({"country": "FRA"}, "currency"), ({"webhook_url": "http://10.0.0.1/"}, "webhook_url")):
        refused = await ask(owner, "scenes", body)
        assert (refused.status, refused.code) == (400, "property_value")
        assert refused.details[0].startswith(f"'$.{field}'")


async def test_a_scene_may_have_a_receiver_of_its_own(owner: Operator) -> None:
    """Its notifications go there."""
    made = await scene(owner, webhook_url="http://127.0.0.1:9/hooks")
    assert made["webhook"]["url"] == "http://127.0.0.1:9/hooks"


@pytest.mark.on_postgres
async def test_notifications_are_filtered_and_waited_for(service: Service, owner: Operator) -> None:
    """Each scene sees its own, validly signed; a wait ends with the notification that it waits for."""
    one, other = await scene(owner), await scene(owner)
    path = f"notifications?application={one['client_id']}&action=order.processed&valid=true&wait=50"
    waiting = asyncio.create_task(data(owner, path))
    await until(lambda: notifications.TOPIC in service.database.signals.waited_on())
    order_id, _ = await pay(service, one), await pay(service, other)
    (processed,) = await waiting
    assert (processed["order_id"], processed["signature_valid"]) == (order_id, True)
    everything = await data(owner, f"notifications?order={order_id}&wait=50&count=3")
    assert [row["version"] for row in everything] == sorted(row["version"] for row in everything)
    assert await data(owner, f"notifications?order={order_id}&valid=false") == []
    # An empty list is an answer, at once.
    assert await data(owner, f"notifications?order={UNKNOWN}") == []


@pytest.mark.on_postgres
async def test_a_forged_notification_is_that_of_the_order_it_names(service: Service, owner: Operator) -> None:
    """The application is the order's, not the one in the body; its signature is not valid."""
    made = await scene(owner)
    order_id = await pay(service, made)
    body = {"action": "order.processed", "application_id": "1", "data": {"id": order_id}}
    assert (await service.request("POST", "/demo/inbox", body, token=None, key=None)).status == 200
    (forged,) = await data(owner, f"notifications?application={made['client_id']}&valid=false&wait=50")
    assert forged["order_id"] == order_id


@pytest.mark.on_postgres
async def test_notifications_of_an_application_are_kept_beside_those_of_others(
    service: Service, owner: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those about no order; another application's do not displace them, unless they are more than all may be."""
    monkeypatch.setattr(store, "ENTRIES_MAX", 2)
    monkeypatch.setattr(store, "ALL_ENTRIES_MAX", 6)

    async def receive(application: str, action: str, count: int) -> None:
        body = {"action": action, "application_id": application, "type": "mp-connect", "user_id": 1, "data": {}}
        for _ in range(count):
            assert (await service.request("POST", "/demo/inbox", body, token=None, key=None)).status == 200

    async def actions(application: str) -> list[str]:
        return [row["action"] for row in await data(owner, f"notifications?application={application}")]

    await receive("11", "application.deauthorized", 1)
    await receive("12", "application.authorized", 4)
    assert await actions("11") == ["application.deauthorized"]
    assert await actions("12") == ["application.authorized"] * 2
    await receive("13", "application.authorized", 2)
    assert await actions("11") == []


@pytest.mark.on_postgres
async def test_charges_are_the_ledgers(service: Service, owner: Operator) -> None:
    """By application and order, with what was given back."""
    one, other = await scene(owner), await scene(owner)
    order_id, _ = await pay(service, one), await pay(service, other)
    await service.request("GET", f"/v1/orders/{order_id}", token=one["test"]["access_token"])

    async def charge() -> dict[str, Any]:
        (row,) = await data(owner, f"charges?application={one['client_id']}&order={order_id}")
        return row

    before = await charge()
    assert (before["order_id"], before["outcome"], before["charged_amount"]) == (order_id, "approved", "24.90")
    await data(owner, f"notifications?order={order_id}&action=order.processed&wait=50")
    refund = await service.request("POST", f"/v1/orders/{order_id}/refund", token=one["test"]["access_token"])
    assert refund.status in (200, 201), refund.body
    after = await charge()
    assert (after["amount"], after["refunded_amount"], after["charged_amount"]) == ("24.90", "24.90", "0.00")
    assert len(await data(owner, "charges")) == 2


async def test_unknown_and_invalid_parameters_are_named(owner: Operator) -> None:
    """A filter that is misspelled would find everything."""
    for name in ("notifications", "charges"):
        refused = await ask(owner, f"{name}?aplication=1&order=1")
        assert (refused.status, refused.code) == (400, "property_value")
        assert [detail.split(" - ")[0] for detail in refused.details] == ["'aplication'", "'order'"]
        assert "application" in refused.details[0]


async def test_the_kits_lists_are_not_in_serve(database: Database) -> None:
    """Nor are scenes."""
    async with running(database, workers=False) as service:
        owner = await operator(service)
        assert [(await ask(owner, path, body)).status for path, body in (("scenes", {}), ("charges", None))] == [
            404,
            404,
        ]
