"""GET /operator/v1/requests: the last requests of applications and terminals, as they were answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accounts import other_seller
from operator_calls import Operator, operator
from paydesk.platform.storage.database import Database
from refund_scene import paid
from reset_scene import resettable
from service import Service, running
from tables import each
from waiting import until_found

UNKNOWN = "01J67CQQH5904WDBVZEM4JMEP3"


async def listed(desk: Operator, query: str = "") -> list[dict[str, Any]]:
    """Return the requests of a list."""
    data: list[dict[str, Any]] = (await desk.did("GET", f"requests{query}"))["data"]
    return data


async def recorded(desk: Operator, query: str, count: int = 1) -> list[dict[str, Any]]:
    """Return the requests of a list once there are so many."""

    async def find() -> list[dict[str, Any]] | None:
        found = await listed(desk, query)
        return found if len(found) >= count else None

    found = await until_found(find)
    assert found is not None
    assert len(found) == count, found
    return found


async def one_recorded(desk: Operator, query: str) -> dict[str, Any]:
    """Return the one request that a list has, with its bodies."""
    (found,) = await recorded(desk, query)
    whole = await desk.did("GET", f"requests/{found['entry_id']}")
    assert {name: value for name, value in whole.items() if not name.endswith("_body")} == found
    return whole


@pytest.mark.on_postgres
async def test_a_request_is_recorded_with_its_answer(database: Database) -> None:
    """Soon, with all that a developer needs to understand it; in development with both bodies."""
    async with running(database, development=True, records=True) as service:
        desk, terminal = await operator(service), await service.terminal(terminal_id="NEWLAND_N950__N950NCB801293324")
        headers = {"X-Request-Id": "first-1", "User-Agent": "shop/7"}
        sent = {"type": "point", "transactions": {"payments": [{"amount": "24.90"}]}}
        body = {**sent, "config": {"point": {"terminal_id": terminal.id}}}
        made = await service.request("POST", "/v1/orders", body, key="key-1", headers=headers)
        assert made.status == 201
        found = await one_recorded(desk, "?request_id=first-1")
        assert made.body["id"] in found.pop("response_body")
        assert terminal.id in found.pop("request_body")
        assert found.pop("duration_ms") > 0
        assert len(found.pop("entry_id")) == 26
        assert found.pop("created_date")
        assert found == {
            "request_id": "first-1",
            "method": "POST",
            "path": "/v1/orders",
            "operation": "create_order",
            "status": 201,
            "address": "127.0.0.1",
            "user_agent": "shop/7",
            "replayed": False,
            "application_id": str(service.scene.application.application_id),
            "application": service.scene.application.name,
            "seller_id": service.seller_id,
            "live_mode": False,
            "order_id": made.body["id"],
            "idempotency_key": "key-1",
        }


async def test_a_replay_is_marked_and_names_its_order(database: Database) -> None:
    """So that a developer sees that nothing was done again."""
    async with running(database, development=True, records=True) as service:
        desk, terminal = await operator(service), await service.terminal()
        order_id = (await service.create(terminal, key="key-1")).body["id"]
        assert (await service.create(terminal, key="key-1")).headers["X-Idempotent-Replayed"] == "true"
        again, first = await recorded(desk, f"?order={order_id}", 2)
        assert (first["replayed"], again["replayed"]) == (False, True)
        assert first["idempotency_key"] == again["idempotency_key"] == "key-1"


async def test_refused_requests_are_recorded_with_the_reason(database: Database) -> None:
    """Also those without a valid token, with an unknown path or method, of terminals, and of the token endpoint."""
    async with running(database, development=True, records=True) as service:
        desk = await operator(service)
        order = f"/v1/orders/ORD{UNKNOWN}"

        async def refused(method: str, path: str, **options: Any) -> dict[str, Any]:
            identity = f"refused-{len(seen)}"
            reply = await service.request(method, path, headers={"X-Request-Id": identity}, **options)
            assert reply.status >= 400
            found = await one_recorded(desk, f"?request_id={identity}")
            assert (found["status"], found["error"]) == (reply.status, reply.code)
            assert found["reason"]
            seen.append(found)
            return found

        seen: list[dict[str, Any]] = []
        assert (await refused("GET", order))["order_id"] == f"ORD{UNKNOWN}"
        assert "application_id" not in await refused("GET", order, token=None)
        assert "operation" not in await refused("GET", "/v1/order")
        assert "operation" not in await refused("PUT", "/v1/orders", body={})
        assert (await refused("POST", "/device/v1/hello", body={}, token=None, key=None))["operation"] == "device_hello"
        secret = "9" * 64
        body = {"grant_type": "client_credentials", "client_id": "1", "client_secret": secret}
        found = await refused("POST", "/oauth/token", body=body, token=None, key=None)
        assert secret not in found["request_body"]
        assert '"client_id":"1"' in found["request_body"].replace(" ", "")
        assert len(await listed(desk, "?status=failed")) == len(seen)


async def test_terminals_are_recorded_without_their_polls(database: Database) -> None:
    """A poll says nothing."""
    async with running(database, development=True, records=True) as service:
        desk, terminal = await operator(service), await service.terminal()
        device = await service.device(terminal)
        order_id = (await service.create(terminal)).body["id"]
        assert (await device.next()).status == 200
        assert (await device.ack(order_id[3:])).status == 200
        ack, hello = await recorded(desk, f"?terminal={terminal.id}", 2)
        assert (hello["operation"], ack["operation"], ack["order_id"]) == (
            "device_hello",
            "device_acknowledge",
            order_id,
        )
        assert ack["terminal_id"] == terminal.id
        assert {one["path"].split("/")[1] for one in await listed(desk, "?sender=terminals")} == {"device"}
        assert {one["path"].split("/")[1] for one in await listed(desk, "?sender=applications")} == {"v1"}


async def test_operators_and_pages_are_not_recorded(database: Database) -> None:
    """What operators change is in the audit trail."""
    async with running(database, development=True, records=True) as service:
        desk = await operator(service)
        for path in ("/operator/v1/orders", "/console", "/sign-in", "/livez", "/unknown"):
            await service.request("GET", path, token=desk.token)
        await service.create(await service.terminal())
        await recorded(desk, "")


@pytest.mark.on_postgres
async def test_filters_and_pages(database: Database) -> None:
    """Newest first; filters are combined."""
    async with running(database, development=True, records=True) as service:
        desk, other = await operator(service), await other_seller(service)
        terminal = await service.terminal()
        order_id = (await service.create(terminal)).body["id"]
        await recorded(desk, "")
        await other.request("GET", f"/v1/orders/{order_id}")
        await recorded(desk, "", 2)
        await service.request("GET", "/v1/orders/x")
        await recorded(desk, "", 3)
        await service.cancel(order_id)
        assert [one["status"] for one in await recorded(desk, "", 4)] == [200, 400, 404, 201]
        application = service.scene.application.application_id
        for query, expected in {
            f"order={order_id}": 3,
            f"order={order_id.lower()}": 3,
            f"order={order_id}&status=failed": 1,
            f"application={application}": 3,
            "application=1": 0,
            f"seller={other.seller_id}": 1,
            f"seller={service.seller_id}": 3,
            "method=POST": 2,
            "method=DELETE": 0,
            "status=2xx": 2,
            "status=4xx": 2,
            "status=5xx": 0,
            "status=404": 1,
            "status=201": 1,
            "sender=terminals": 0,
            "request_id=none": 0,
        }.items():
            assert len(await listed(desk, f"?{query}")) == expected, query
        found: list[dict[str, Any]] = []
        page = await desk.did("GET", "requests?limit=3")
        found += page["data"]
        page = await desk.did("GET", f"requests?limit=3&after={page['next']}")
        assert "next" not in page
        assert [*found, *page["data"]] == await listed(desk)


@each(
    "query, detail",
    [
        ("status=abc", "'status' - must be a status such as 404, or one of 2xx, 4xx, 5xx, failed"),
        ("status=20", "'status' - must be"),
        ("method=get", "'method'"),
        ("method=TRACE", "'method'"),
        ("order=x", "'order'"),
        ("application=x", "'application'"),
        ("seller=x", "'seller'"),
        ("terminal=%00", "'terminal'"),
        ("request_id=a%20b", "'request_id'"),
        ("sender=me", "'sender'"),
        ("limit=0", "'limit'"),
        ("after=%00", "'after'"),
    ],
)
async def test_malformed_filters_are_refused(service: Service, query: str, detail: str) -> None:
    """The error names the parameter."""
    reply = await (await operator(service)).ask("GET", f"requests?{query}")
    assert (reply.status, reply.code) == (400, "property_value")
    assert detail in reply.details[0]


@pytest.mark.on_postgres
@pytest.mark.parametrize("role", ["owner", "operator", "support", "viewer"])
async def test_every_role_reads(database: Database, role: str) -> None:
    """Without a token it is refused."""
    async with running(database, development=True, records=True) as service:
        await service.create(await service.terminal())
        (found,) = await recorded(await operator(service, role), "")
        path = f"/operator/v1/requests/{found['entry_id']}"
        assert (await (await operator(service, role)).ask("GET", f"requests/{found['entry_id']}")).status == 200
        assert (await service.request("GET", path)).status == 401


async def test_an_unknown_request_is_not_found(database: Database) -> None:
    """The error says how long requests are kept."""
    async with running(database, workers=False) as service:
        reply = await (await operator(service)).ask("GET", f"requests/{UNKNOWN}")
        assert (reply.status, reply.code) == (404, "request_not_found")
        assert "10,000" in reply.body["errors"][0]["message"]
        assert await (await operator(service)).refused("GET", "requests/x") == (400, "invalid_path_param")


async def test_in_production_there_are_no_bodies(database: Database) -> None:
    """And what the rate does not permit is counted."""
    async with running(database, records=True) as service:
        desk = await operator(service)
        await paid(service)
        found = await until_found(lambda: listed(desk))
        whole = await desk.did("GET", f"requests/{found[0]['entry_id']}")
        assert not {"request_body", "response_body"} & whole.keys()
        for _ in range(130):
            await service.request("GET", "/v1/orders/x", token="none")
        dropped = (await desk.did("GET", "requests?limit=1"))["dropped"]
        assert 0 < dropped < 130


async def test_a_reset_removes_them(database: Database, tmp_path: Path) -> None:
    """They name orders that are gone. Those that were not written yet are removed too."""
    async with resettable(database, tmp_path, records=True) as one:
        service: Service = one.service
        for _ in range(3):
            await service.create(await service.terminal())
        await recorded(one.owner, "?method=POST&sender=applications", 3)
        await service.create(await service.terminal())
        assert (await one.reset()).status == 204
        assert await listed(one.owner, "?sender=applications") == []
        made = await service.create(await service.terminal())
        await recorded(one.owner, f"?order={made.body['id']}")
        # Requests are written in their order.
        assert len(await listed(one.owner, "?sender=applications")) == 1
