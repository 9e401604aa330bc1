"""The operator interface over HTTP: roles, audit trail, paging and errors."""

from __future__ import annotations

import json
from typing import Any

from every_operation import OPERATIONS
from paydesk.operators.accounts import credentials
from paydesk.platform.storage.database import Database
from service import Service, running
from tables import each

APPLICATION = {"name": "Shop", "redirect_uris": ["https://shop.example/callback"]}
SELLER = {"email": "ana@shop.example", "name": "Ana", "country": "ARG", "currency": "ARS"}


async def operator(service: Service, role: str = "owner") -> str:
    """Add an operator and return the token."""
    token, now_ms = credentials.new_token(), service.clock.now_ms()
    await service.database.write(lambda tx: credentials.add_operator(tx, token, f"a {role}", role, now_ms))
    return token.reveal()


async def audited(database: Database) -> list[Any]:
    """Return action, subject, address and new values of each audit entry."""
    return await database.read(
        lambda tx: tx.all("SELECT action, subject, address, after FROM operator_audit ORDER BY entry_id")
    )


async def test_other_tokens_return_401(database: Database) -> None:
    """Without a token, with an application's or an unknown one; operator tokens are refused elsewhere."""
    async with running(database) as service:
        for token in (None, service.access_token, "PDO-" + "0" * 40, "PDO-nonsense"):
            reply = await service.request("GET", "/operator/v1/sellers", token=token)
            assert (reply.status, reply.code) == (401, "unauthorized")
            assert reply.headers["WWW-Authenticate"] == "Bearer"
        reply = await service.request("GET", "/terminals/v1/list", token=await operator(service))
        assert reply.status == 401


async def test_support_is_read_only(database: Database) -> None:
    """Support reads every list and gets 403 for changes; the role operator may change."""
    async with running(database, development=True) as service:
        support, changes = await operator(service, "support"), await operator(service, "operator")
        for noun in ("applications", "sellers", "grants", "stores", "pos", "terminals", "subscriptions", "deliveries",
                     "inquiries", "reversals", "refunds", "confirmations", "events"):  # fmt: skip
            reply = await service.request("GET", f"/operator/v1/{noun}", token=support)
            assert reply.status == 200, noun
            assert isinstance(reply.body["data"], list)
        bodies = {
            "applications": APPLICATION,
            "sellers": SELLER,
            "stores": {"seller_id": service.seller_id, "name": "Centro"},
            "terminals": {"seller_id": service.seller_id},
        }
        for noun, body in bodies.items():
            reply = await service.request("POST", f"/operator/v1/{noun}", body, token=support)
            assert (reply.status, reply.code) == (403, "forbidden"), noun
        assert await audited(database) == []
        reply = await service.request("POST", "/operator/v1/stores", bodies["stores"], token=changes)
        assert reply.status == 201


async def test_changes_are_audited_without_secrets(database: Database) -> None:
    """The entry has the action, subject and address; a refused change has no entry."""
    async with running(database) as service:
        token = await operator(service)
        made = await service.request("POST", "/operator/v1/applications", APPLICATION, token=token)
        assert made.status == 201
        seller = await service.request("POST", "/operator/v1/sellers", SELLER, token=token)
        assert seller.status == 201
        again = await service.request("POST", "/operator/v1/sellers", SELLER, token=token)
        assert (again.status, again.code) == (409, "email_taken")
        rows = await audited(database)
        assert [(row[0], row[1], row[2]) for row in rows] == [
            ("applications.create", made.body["client_id"], "127.0.0.1"),
            ("sellers.create", str(seller.body["user_id"]), "127.0.0.1"),
        ]
        kept = json.dumps([list(row) for row in rows])
        assert made.body["client_secret"] not in kept
        assert seller.body["password"] not in kept


@each(
    "noun, body, detail",
    [
        ("applications", {**APPLICATION, "redirect_uris": []}, "'$.redirect_uris'"),
        ("applications", {**APPLICATION, "redirect_uris": ["http://shop.example/"]}, "'$.redirect_uris[0]'"),
        ("applications", {**APPLICATION, "redirect_uris": ["https://shop.example/?iss=1"]}, "'$.redirect_uris[0]'"),
        ("applications", {**APPLICATION, "scopes": "read admin"}, "'$.scopes'"),
        ("applications", {**APPLICATION, "client_secret": "mine"}, "'$.client_secret'"),
        ("sellers", {**SELLER, "currency": "EUR"}, "'$.currency'"),
        ("sellers", {**SELLER, "password": "short"}, "'$.password'"),
        ("stores", {"seller_id": 10**19, "name": "A"}, "'$.seller_id'"),
        ("pos", {"seller_id": "x", "store_id": 1, "external_pos_id": "A"}, "'$.seller_id'"),
        ("subscriptions", {"client_id": 1, "url": "https://a.example/", "topic": "payments"}, "'$.topic'"),
        ("subscriptions", {"client_id": 1, "url": "https://127.0.0.1/"}, "'$.url'"),
    ],
)
async def test_invalid_body_returns_400_with_path(
    service: Service, noun: str, body: dict[str, Any], detail: str
) -> None:
    """The detail names the path of the invalid field."""
    reply = await service.request("POST", f"/operator/v1/{noun}", body, token=await operator(service))
    assert reply.status == 400
    assert reply.details[0].startswith(detail), reply.details


async def test_pages_contain_every_row_once(database: Database) -> None:
    """An invalid limit or cursor returns 400."""
    async with running(database) as service:
        token, names = await operator(service), [f"Store {number}" for number in range(5)]
        for name in names:
            body = {"seller_id": str(service.seller_id), "name": name}
            assert (await service.request("POST", "/operator/v1/stores", body, token=token)).status == 201
        found, after = [], ""
        while True:
            url = f"/operator/v1/stores?seller={service.seller_id}&limit=2{after}"
            page = (await service.request("GET", url, token=token)).body
            found += [store["name"] for store in page["data"]]
            if "next" not in page:
                break
            after = f"&after={page['next']}"
        assert sorted(found) == names
        for query in ("limit=0", "limit=201", "limit=x", "after=x", "seller=x"):
            reply = await service.request("GET", f"/operator/v1/stores?{query}", token=token)
            assert (reply.status, reply.code) == (400, "property_value"), query


async def test_pages_of_accounts_contain_every_row_once(database: Database) -> None:
    """For applications, sellers and operators."""
    async with running(database, workers=False) as service:
        token = await operator(service)
        for number in range(4):
            made: tuple[tuple[str, dict[str, Any]], ...] = (
                ("applications", {**APPLICATION, "name": f"Shop {number}"}),
                ("sellers", {**SELLER, "email": f"{number}@shop.example"}),
                ("operators", {"name": f"Ana {number}", "role": "support"}),
            )
            for noun, body in made:
                reply = await service.request("POST", f"/operator/v1/{noun}", body, token=token)
                assert reply.status == 201, reply.body
        for noun, _ in made:
            whole = (await service.request("GET", f"/operator/v1/{noun}", token=token)).body
            found, query = [], "limit=2"
            while query:
                page = (await service.request("GET", f"/operator/v1/{noun}?{query}", token=token)).body
                assert len(page["data"]) <= 2
                found += page["data"]
                query = f"limit=2&after={page['next']}" if "next" in page else ""
            assert (found, len(found)) == (whole["data"], 5)


@each(
    "path, status, code",
    [
        ("deliveries?order=%00", 404, "order_not_found"),
        ("deliveries?after=1.%00", 400, "property_value"),
        ("orders/42", 400, "invalid_path_param"),
    ],
)
async def test_odd_references_are_refused(service: Service, path: str, status: int, code: str) -> None:
    """As unknown ones, or as malformed ones; never by the database."""
    reply = await service.request("GET", f"/operator/v1/{path}", token=await operator(service))
    assert (reply.status, reply.code) == (status, code)


async def test_empty_and_repeated_parameters_are_refused(service: Service) -> None:
    """Of every operation: an empty filter selected all, and of a repeated one only the last counted."""
    token, count = await operator(service), 0
    for row in OPERATIONS:
        if row.surface != "operator" or "{" in row.path or row.development:
            continue
        for parameter in row.query:
            name = parameter.name
            for query, rule in (
                (f"{name}=", "must not be empty; leave it out"),
                (f"{name}=1&{name}=1", "must be sent only once"),
            ):
                reply = await service.request(row.method, f"{row.path}?{query}", token=token)
                assert (reply.status, reply.code) == (400, "property_value"), (row.path, query)
                assert reply.details == [f"'{name}' - {rule}"]
                count += 1
    assert count > 100
    unknown = await service.request("GET", "/operator/v1/sellers?unknown=&unknown=", token=token)
    assert unknown.status == 200


async def test_order_has_its_history(database: Database) -> None:
    """Operators see the orders of every seller with their status changes."""
    async with running(database) as service:
        token, terminal = await operator(service), await service.terminal()
        order = (await service.create(terminal)).body
        seen = await service.request("GET", f"/operator/v1/orders/{order['id'].lower()}", token=token)
        assert seen.status == 200
        assert {**order, **seen.body} == seen.body
        assert [(event["move"], event["status"]) for event in seen.body["events"]] == [("create", "created")]


async def test_revoked_operator_is_refused_at_once(database: Database) -> None:
    """The next request returns 401."""
    async with running(database) as service:
        token = await operator(service)
        assert (await service.request("GET", "/operator/v1/sellers", token=token)).status == 200
        await database.write(lambda tx: tx.run("UPDATE operators SET revoked_ms = 1"))
        assert (await service.request("GET", "/operator/v1/sellers", token=token)).status == 401
