"""Grants over the operator interface: their list and their withdrawal."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from accounts import other_application, other_seller
from oauth_scene import ALL_SCOPES, START_MS, frozen_clock
from paydesk.core.clock import rfc3339
from paydesk.operators.accounts import credentials
from paydesk.operators.authorizations.handlers import LISTS_OF_APPLICATION
from paydesk.platform.storage.database import Database, Transaction
from service import Reply, Service, running

BASE = "/operator/v1/grants"
UNKNOWN = "01J67CQQH5904WDBVZEM4JMEP3"
EVENTS = "SELECT action, version FROM application_events ORDER BY seller_id, application_id, version"
AUDIT = "SELECT action, subject, after FROM operator_audit ORDER BY entry_id"


@dataclass
class Desk:
    """An operator at a running service."""

    service: Service
    token: str

    async def request(self, method: str, path: str = "", token: str = "") -> Reply:
        """Send a request about grants."""
        return await self.service.request(method, BASE + path, token=token or self.token)

    async def ids(self) -> set[str]:
        """Return the ids of the seller's grants."""
        reply = await self.request("GET", f"?seller={self.service.seller_id}")
        return {one["id"] for one in reply.body["data"]}

    async def authorized(self) -> tuple[str, str]:
        """Give the seller's consent; return the id of the grant and its code."""
        before = await self.ids()
        code = await self.service.scene.code()
        (made,) = await self.ids() - before
        return made, code

    async def redeem(self, body: dict[str, Any]) -> Reply:
        """Send a token request of the application."""
        return await self.service.request("POST", "/oauth/token", body, token=None, key=None)

    async def introspected(self, token: str) -> dict[str, Any]:
        """Return the introspection of a token."""
        body = {**self.service.scene.credentials(), "token": token}
        reply = await self.service.request("POST", "/oauth/introspect", body, token=None, key=None)
        assert reply.status == 200, reply
        document: dict[str, Any] = reply.body
        return document

    async def exchanged(self, code: str) -> dict[str, Any]:
        """Return the tokens of the code."""
        reply = await self.redeem(self.service.scene.exchange(code))
        assert reply.status == 200, reply
        body: dict[str, Any] = reply.body
        return body

    async def answer_to(self, body: dict[str, Any]) -> int:
        """Return the status of a request with the access token."""
        return (await self.service.request("GET", "/terminals/v1/list", token=body["access_token"])).status


async def operator(service: Service, role: str = "owner") -> str:
    """Add an operator and return the token."""
    token, now_ms = credentials.new_token(), service.clock.now_ms()
    await service.database.write(lambda tx: credentials.add_operator(tx, token, f"a {role}", role, now_ms))
    return token.reveal()


@pytest.fixture
async def desk(database: Database) -> AsyncIterator[Desk]:
    """Yield an operator of a service with a stopped clock."""
    async with running(database, workers=False, clock=frozen_clock()) as service:
        yield Desk(service, await operator(service))


async def test_list_has_application_scope_and_dates(desk: Desk) -> None:
    """By seller or for all sellers, page by page."""
    service = desk.service
    await service.scene.code(scope="read")
    await other_seller(service)
    listed = (await desk.request("GET", f"?seller={service.seller_id}")).body["data"]
    assert sorted(one["scope"] for one in listed) == [ALL_SCOPES, ALL_SCOPES, "read"]
    (grant,) = [one for one in listed if one["scope"] == "read"]
    expected = {
        "id": grant["id"],
        "seller_id": service.seller_id,
        "seller_name": "Shop",
        "client_id": str(service.scene.application.application_id),
        "application_name": "Till",
        "scope": "read",
        "created_date": rfc3339(START_MS),
    }
    assert grant == expected
    assert grant["id"].endswith(f"-{service.seller_id}")
    await desk.request("DELETE", f"/{grant['id'].lower()}")
    listed = (await desk.request("GET", f"?seller={service.seller_id}")).body["data"]
    assert {**expected, "withdrawn_date": rfc3339(START_MS)} in listed
    found, after = [], "?limit=2"
    while after:
        page = (await desk.request("GET", after)).body
        found += [one["id"] for one in page["data"]]
        after = f"?limit=2&after={page['next']}" if "next" in page else ""
    assert len(found) == len(set(found)) == 5
    assert {one["id"] for one in listed} < set(found)
    assert (await desk.request("GET", "?seller=1")).body == {"data": []}
    assert (await desk.request("GET", "?seller=x")).code == "property_value"


@pytest.mark.on_postgres
async def test_one_grant_is_shown(desk: Desk) -> None:
    """As in the list; an id in lower case is the same, and an unknown one is refused."""
    listed = (await desk.request("GET")).body["data"]
    for one in listed:
        assert (await desk.request("GET", f"/{one['id'].lower()}")).body == one
    unknown = await desk.request("GET", f"/{UNKNOWN}-{desk.service.seller_id}")
    assert (unknown.status, unknown.code) == (404, "grant_not_found")
    assert (await desk.request("GET", "/x")).status == 400


@pytest.mark.on_postgres
async def test_list_of_an_application_and_by_status(desk: Desk) -> None:
    """`application` and `status` choose rows, alone and together, on pages of any size; other values are refused."""
    service = desk.service
    other = await other_application(service)
    third = await other_seller(service)
    made, _ = await desk.authorized()
    assert (await desk.request("DELETE", f"/{made}")).status == 204

    async def listed(query: str) -> set[tuple[int, str, bool]]:
        found, after = [], ""
        while True:
            page = (await desk.request("GET", f"?{query}&limit=1{after}")).body
            found += page["data"]
            if "next" not in page:
                return {(one["seller_id"], one["id"], "withdrawn_date" in one) for one in found}
            after = f"&after={page['next']}"

    client_ids = {str(one.scene.application.application_id) for one in (service, other, third)}
    of_each = {client_id: await listed(f"application={client_id}") for client_id in client_ids}
    assert all(of_each.values())
    assert len(set().union(*of_each.values())) == sum(map(len, of_each.values()))
    assert set().union(*of_each.values()) == await listed("")
    client_id = str(service.scene.application.application_id)
    own = of_each[client_id]
    assert {seller for seller, _, _ in own} == {service.seller_id}
    assert await listed(f"application={client_id}&seller={service.seller_id}") == own
    assert await listed(f"application={client_id}&seller={third.seller_id}") == set()
    assert await listed("status=withdrawn") == {(service.seller_id, made, True)}
    assert await listed(f"status=valid&application={client_id}") == own - {(service.seller_id, made, True)}
    assert await listed("application=1") == set()
    for query in ("application=x", "application=", "status=gone"):
        assert (await desk.request("GET", f"?{query}")).code == "property_value"


@pytest.mark.on_postgres
@pytest.mark.parametrize("status", ["valid", "withdrawn"])
async def test_those_of_an_application_are_found_by_index(desk: Desk, status: str) -> None:
    """Among the authorizations of many sellers."""
    sql, args = LISTS_OF_APPLICATION[status], (0, "", 10, 2**63 - 1, 1)

    async def explained(tx: Transaction) -> str:
        if desk.service.database.name == "sqlite":
            return str(await tx.all(f"EXPLAIN QUERY PLAN {sql}", *args))
        await tx.run("SET LOCAL enable_seqscan = off")
        await tx.run("SET LOCAL enable_bitmapscan = off")
        return str(await tx.all(f"EXPLAIN {sql}", *args))

    assert f"authorizations_{status}" in await desk.service.database.write(explained)


async def test_withdrawn_grant_ends_its_tokens_and_codes(desk: Desk) -> None:
    """Access tokens, refresh tokens and codes are refused at once; those of another grant stay valid."""
    scene = desk.service.scene
    _, code = await desk.authorized()
    kept = await desk.exchanged(code)
    spent_id, code = await desk.authorized()
    spent = await desk.exchanged(code)
    refreshed = (await desk.redeem(scene.refresh(spent["refresh_token"]))).body
    fresh_id, fresh = await desk.authorized()
    assert [await desk.answer_to(one) for one in (kept, spent, refreshed)] == [200, 200, 200]
    for grant_id in (spent_id, fresh_id):
        gone = await desk.request("DELETE", f"/{grant_id}")
        assert (gone.status, gone.raw) == (204, b"")
    assert [await desk.answer_to(one) for one in (kept, spent, refreshed)] == [200, 401, 401]
    for kind in ("access_token", "refresh_token"):
        grant = [await desk.introspected(one[kind]) for one in (kept, refreshed)]
        assert [one["active"] for one in grant] == [True, False]
        assert grant[1] == {"active": False}
    bodies = [scene.refresh(one["refresh_token"]) for one in (spent, refreshed)]
    for body in (*bodies, scene.exchange(fresh)):
        refused = await desk.redeem(body)
        assert (refused.status, refused.code) == (400, "unauthorized_client")
    again = await desk.redeem(scene.refresh(kept["refresh_token"]))
    assert again.status == 200
    assert await desk.answer_to(again.body) == 200


async def test_open_order_continues_after_withdrawal(desk: Desk) -> None:
    """An order that was created before is paid."""
    service = desk.service
    terminal = await service.terminal()
    device = await service.device(terminal)
    made = await service.create(terminal)
    for grant_id in await desk.ids():
        assert (await desk.request("DELETE", f"/{grant_id}")).status == 204
    assert (await service.create(terminal)).status == 401
    lease = made.body["id"][3:]
    for step in (device.ack(lease), device.authorizing(lease), device.approve(lease)):
        assert (await step).status == 200
    row = await service.database.read(lambda tx: tx.one("SELECT status FROM orders"))
    assert row is not None
    assert row[0] == "processed"


async def test_repeated_withdrawal_has_no_effect(desk: Desk) -> None:
    """It returns 204 again; there is one notification and one audit entry, without a secret."""
    grant_id, code = await desk.authorized()
    tokens = await desk.exchanged(code)
    padded_id = grant_id.replace("-", "-000")
    for path in (f"/{padded_id}", f"/{grant_id}", f"/{grant_id}"):
        assert (await desk.request("DELETE", path)).status == 204
    database = desk.service.database
    assert [tuple(row) for row in await database.read(lambda tx: tx.all(EVENTS))] == [
        ("application.authorized", 1),
        ("application.deauthorized", 2),
    ]
    ((action, subject, after),) = await database.read(lambda tx: tx.all(AUDIT))
    assert (action, subject) == ("grants.withdraw", grant_id)
    assert json.loads(after)["withdrawn_date"] == rfc3339(START_MS)
    assert not [one for one in (code, tokens["access_token"], tokens["refresh_token"]) if one in after]


async def test_unknown_grant_returns_404(desk: Desk) -> None:
    """An invalid id returns 400, and support gets 403."""
    grant_id, _ = await desk.authorized()
    authorization_id = grant_id.partition("-")[0]
    for wrong in (f"{UNKNOWN}-{desk.service.seller_id}", f"{authorization_id}-1", f"{authorization_id}-{10**15 - 1}"):
        reply = await desk.request("DELETE", f"/{wrong}")
        assert (reply.status, reply.code) == (404, "grant_not_found"), wrong
    for wrong in (authorization_id, f"{authorization_id}-", f"{authorization_id}-x", f"{grant_id}-1", "%00-1"):
        reply = await desk.request("DELETE", f"/{wrong}")
        assert (reply.status, reply.code) == (400, "invalid_path_param"), wrong
    refused = await desk.request("DELETE", f"/{grant_id}", await operator(desk.service, "support"))
    assert (refused.status, refused.code) == (403, "forbidden")
    row = await desk.service.database.read(lambda tx: tx.one("SELECT MAX(withdrawn_ms) FROM authorizations"))
    assert row is not None
    assert row[0] is None
