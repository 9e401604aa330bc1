"""Everything that operators make can be removed, unless it is in use: the details name what uses it."""

from __future__ import annotations

import re

import pytest

from accounts import other_application, other_seller
from every_operation import OPERATIONS
from operator_calls import Operator, audited, operator
from page_scene import browser
from paydesk.engine.invariants import check
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from service import KEYS, Service

APPLICATION = {"name": "Kiosk", "redirect_uris": ["https://kiosk.example/callback"]}
SELLER = {"email": "bia@shop.example", "name": "Bia", "country": "BRA", "currency": "BRL"}
BASE = "/operator/v1/"
NOT_DELETED = {
    "codes": "expires after ten minutes; its authorization is withdrawn with DELETE grants/{grant_id}",
    "subscriptions/operators": "it is one of the subscriptions, with DELETE subscriptions/{subscription_id}",
    "operators/{operator_id}/password-link": "expires after 24 h, and a newer one replaces it",
    "orders/{order_id}/refund": "money that is refunded stays refunded",
}
"""What operators make without a DELETE of its own, each with the reason."""


async def rows_of(service: Service, seller_id: int) -> dict[str, int]:
    """Return how many rows of the seller each table has, if it has any."""
    tables = {
        "sqlite": "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) p WHERE p.name = 'seller_id'",
        "postgres": "SELECT table_name FROM information_schema.columns WHERE column_name = 'seller_id'"
        " AND table_schema = 'public'",
    }
    found = {}
    for (table,) in await service.database.read(lambda tx: tx.all(tables[service.database.name])):
        if count := await service.scene.value(f"SELECT COUNT(*) FROM {table} WHERE seller_id = $1", seller_id):
            found[table] = count
    return found


def test_everything_created_can_be_deleted() -> None:
    """Each POST that creates something has a DELETE beside it, or a reason."""
    paths = {(one.method, one.path.removeprefix(BASE)) for one in OPERATIONS if one.path.startswith(BASE)}
    created = {one.path.removeprefix(BASE) for one in OPERATIONS if one.status == 201 and one.path.startswith(BASE)}
    assert len(created) > 8
    for noun in created - NOT_DELETED.keys():
        assert any(
            method == "DELETE" and re.fullmatch(rf"{re.escape(noun)}(/{{\w+}})?", path) for method, path in paths
        ), f"{noun} is created, but not deleted"


@pytest.mark.on_postgres
async def test_unused_application_is_deleted(service: Service, owner: Operator) -> None:
    """With its secrets, of which no cache keeps any; it is gone then."""
    made = await owner.did("POST", "applications", APPLICATION)
    body = {"grant_type": "authorization_code", "client_id": made["client_id"], "code": "TG-1",
            "client_secret": made.pop("client_secret"), "redirect_uri": APPLICATION["redirect_uris"][0]}  # fmt: skip
    assert (await service.request("POST", "/oauth/token", body, token=None, key=None)).code == "invalid_grant"
    path = f"applications/{made['client_id']}"
    await owner.did("POST", f"{path}/secrets", {})
    assert (await owner.ask("DELETE", path)).status == 204
    assert (await service.request("POST", "/oauth/token", body, token=None, key=None)).code == "invalid_client"
    for method in ("GET", "DELETE"):
        assert await owner.refused(method, path) == (404, "application_not_found")
    lines = await audited(service)
    assert (lines[-1].action, lines[-1].subject, lines[-1].before) == ("applications.delete", made["client_id"], made)
    assert await service.scene.value("SELECT COUNT(*) FROM application_secrets WHERE application_id = $1",
                                     int(made["client_id"])) == 0  # fmt: skip


async def subscribed(service: Service, application_id: int) -> str:
    """Subscribe the application and return the subscription's id."""
    made, _ = await service.database.write(
        lambda tx: subscriptions.create(
            tx, KEYS, application_id=application_id, live=False, url="https://shop.example/h", actions=(), now_ms=1
        )
    )
    return made.subscription_id


@pytest.mark.on_postgres
async def test_used_application_is_not_deleted(service: Service, owner: Operator) -> None:
    """By a subscription, a grant or an order, numbered in its feed or not; each is named with what to do."""
    application_id = service.scene.application.application_id
    path, terminal = f"applications/{application_id}", await service.terminal()
    subscription_id = await subscribed(service, application_id)
    order_id = (await service.create(terminal)).body["id"]
    grants = [one["id"] for one in (await owner.did("GET", "grants"))["data"]]
    reply = await owner.ask("DELETE", path)
    assert (reply.status, reply.code) == (409, "in_use")
    assert reply.details == [
        f"it has the subscriptions {subscription_id}; delete these first",
        f"it has the grants {', '.join(grants)}; withdraw these first",
        f"it has the orders {order_id}; these stay, so suspend the application instead",
    ]
    await service.scene.run("UPDATE subscriptions SET deleted_ms = 1")
    assert (await service.request("GET", "/v1/events")).status == 200
    for grant_id in grants:
        assert (await owner.ask("DELETE", f"grants/{grant_id}")).status == 204
    last = await owner.ask("DELETE", path)
    assert last.details == [f"it has the orders {order_id}; these stay, so suspend the application instead"]
    assert (await owner.did("GET", path))["client_id"] == str(application_id)
    assert not [line for line in await audited(service) if line.action == "applications.delete"]


@pytest.mark.on_postgres
async def test_application_with_withdrawn_grants_is_deleted(service: Service, owner: Operator) -> None:
    """The grants are still listed; every invariant holds."""
    other = await other_application(service)
    client_id = str(other.scene.application.application_id)
    assert (await other.request("GET", "/terminals/v1/list")).status == 200
    assert await owner.refused("DELETE", f"applications/{client_id}") == (409, "in_use")
    for grant_id in await grants_of(owner, client_id):
        assert (await owner.ask("DELETE", f"grants/{grant_id}")).status == 204
    assert (await owner.ask("DELETE", f"applications/{client_id}")).status == 204
    assert (await other.request("GET", "/terminals/v1/list")).code == "unauthorized"
    listed = [one for one in (await owner.did("GET", "grants"))["data"] if one["client_id"] == client_id]
    assert {one["application_name"] for one in listed} == {"deleted application"}
    assert await check.check(service.database) == []


async def grants_of(owner: Operator, client_id: str) -> list[str]:
    """Return the ids of the grants of an application."""
    return [one["id"] for one in (await owner.did("GET", "grants"))["data"] if one["client_id"] == client_id]


@pytest.mark.on_postgres
async def test_unused_seller_is_deleted(service: Service, owner: Operator) -> None:
    """With what an ended authorization and a deleted terminal left behind: no row of the seller stays."""
    made = await owner.did("POST", "sellers", SELLER)
    made.pop("password")
    seller_id, path = made["user_id"], f"sellers/{made['user_id']}"
    store = await owner.did("POST", "stores", {"seller_id": seller_id, "name": "Shop"})
    await service.scene.run("INSERT INTO seller_sessions VALUES ($1, $2, 1, NULL, 9, NULL, NULL)", seller_id, b"1")
    assert (await owner.ask("DELETE", path)).details == [f"it has the stores {store['store_id']}; delete these first"]
    assert await service.scene.value("SELECT COUNT(*) FROM seller_sessions WHERE seller_id = $1", seller_id) == 1
    assert (await owner.ask("DELETE", f"stores/{store['store_id']}")).status == 204
    assert (await owner.ask("DELETE", path)).status == 204
    assert await rows_of(service, seller_id) == {}
    for method in ("GET", "DELETE"):
        assert await owner.refused(method, path) == (404, "seller_not_found")
    assert (await audited(service))[-1].before == made
    await owner.did("POST", "sellers", SELLER)


@pytest.mark.on_postgres
async def test_used_seller_is_not_deleted(service: Service, owner: Operator) -> None:
    """By terminals, stores, grants and orders; once only orders are left, suspend is the advice."""
    terminal = await service.terminal()
    order_id = (await service.create(terminal)).body["id"]
    path = f"sellers/{service.seller_id}"
    reply = await owner.ask("DELETE", path)
    assert (reply.status, reply.code) == (409, "in_use")
    assert [detail.split(" ")[3] for detail in reply.details] == ["terminals", "stores", "grants", "orders"]
    assert terminal.id in reply.details[0]
    assert reply.details[-1] == f"it has the orders {order_id}; these stay, so suspend the seller instead"
    assert (await service.get(order_id))["status"] == "created"


@pytest.mark.on_postgres
async def test_seller_with_a_withdrawn_grant_leaves_no_rows(service: Service, owner: Operator) -> None:
    """Tokens, codes and events of the consent go with the seller, and the tokens are refused."""
    other = await other_seller(service)
    terminal = await other.terminal()
    await other.device(terminal)
    await empty(owner, other.seller_id)
    left = await rows_of(service, other.seller_id)
    assert left.keys() >= {"authorizations", "access_tokens", "application_events", "device_tokens"}
    assert (await owner.ask("DELETE", f"sellers/{other.seller_id}")).status == 204
    assert await rows_of(service, other.seller_id) == {}
    assert (await other.request("GET", "/terminals/v1/list")).code == "unauthorized"
    assert await check.check(service.database) == []


async def empty(owner: Operator, seller_id: int) -> None:
    """Delete the seller's terminals, points of sale and stores, and withdraw the grants."""
    for noun, name in (("grants", "id"), ("terminals", "id"), ("pos", "pos_id"), ("stores", "store_id")):
        for one in (await owner.did("GET", f"{noun}?seller={seller_id}"))["data"]:
            query = "" if name == "id" else f"?seller={seller_id}"
            assert (await owner.ask("DELETE", f"{noun}/{one[name]}{query}")).status == 204


async def test_support_deletes_nothing(service: Service) -> None:
    """Every deletion is refused with 403."""
    support = await operator(service, "support")
    for path in (f"applications/{service.scene.application.application_id}", f"sellers/{service.seller_id}"):
        assert await support.refused("DELETE", path) == (403, "forbidden")


@pytest.mark.on_postgres
async def test_deleted_seller_is_signed_out(service: Service, owner: Operator) -> None:
    """A form of an open page is refused; the service does not fail."""
    seller = await browser(service)
    request = await seller.consent()
    await empty(owner, service.seller_id)
    assert (await owner.ask("DELETE", f"sellers/{service.seller_id}")).status == 204
    agreed = await seller.submit(request, decision="agree")
    assert (agreed.status, "You are no longer signed in" in agreed.text) == (403, True)
    assert await rows_of(service, service.seller_id) == {}
