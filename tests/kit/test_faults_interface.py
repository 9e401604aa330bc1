"""`/dev/faults`: faults are added, waited for, released and removed, and shown beside what they disturbed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from test_faults_wire import Lost, ask, create, service

from accounts import other_seller
from console_scene import console
from operator_calls import operator
from paydesk.platform.process.node import StartRefused
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_dev.faults.active import FAULTS_OF_APPLICATION_MAX, WAITING_MAX, Faults
from service import Reply, Service, Terminal, order_body, running
from shared_objects import composed, make_shared
from waiting import until, until_found

pytestmark = pytest.mark.on_postgres
__all__ = ["service"]

PATH = "/dev/faults"
LOST = {"edge": "till", "request": "create_order", "kind": "answer_lost"}


async def call(service: Service, method: str, path: str = "", body: Any = None, token: str = "") -> Reply:
    """Call `/dev/faults`."""
    return await service.request(method, PATH + path, body, token=token, key=None)


async def add(service: Service, body: dict[str, Any], token: str = "") -> dict[str, Any]:
    """Add a fault."""
    reply = await call(service, "POST", "", body, token)
    assert reply.status == 201, reply.body
    added: dict[str, Any] = reply.body
    return added


async def test_a_fault_is_added_waited_for_and_removed(service: Service) -> None:
    """A test token's fault is limited to its application and seller."""
    added = await add(service, {**LOST, "match": {"reference": "ext_ref_1234"}})
    application, seller = str(service.scene.application.application_id), str(service.seller_id)
    assert added == {
        "id": added["id"],
        "edge": "till",
        "request": "create_order",
        "kind": "answer_lost",
        "match": {"reference": "ext_ref_1234", "application": application, "seller": seller, "mode": "test"},
        "every": 1,
        "times": 1,
        "skip": 0,
        "per": "all",
        "line": f"till create_order answer_lost reference=ext_ref_1234 application={application} seller={seller}"
        " mode=test",
        "created_date": added["created_date"],
        "matched": 0,
        "fired_count": 0,
        "fired": [],
    }
    waiting = asyncio.ensure_future(call(service, "GET", f"/{added['id']}?wait=30"))
    terminal = await service.terminal()
    with pytest.raises(Lost):
        await create(service, terminal)
    shown = (await waiting).body
    (order,) = (await service.request("GET", "/v1/orders")).body["data"]
    (firing,) = shown["fired"]
    assert firing == {
        "number": 1,
        "kind": "answer_lost",
        "time": firing["time"],
        "request_id": firing["request_id"],
        "operation": "create_order",
        "held": False,
        "key": "k1",
        "order": order["id"],
        "terminal": terminal.id,
        "answer": {"status": 201, "body": firing["answer"]["body"]},
    }
    assert firing["answer"]["body"]["id"] == order["id"]
    listed = await call(service, "GET", f"?edge=till&application={application}")
    assert [(one["id"], one["fired_count"]) for one in listed.body["data"]] == [(added["id"], 1)]
    assert listed.body["data"][0]["fired"][0]["answer"] == {"status": 201}
    assert (await call(service, "GET", "?edge=terminal")).body == {"data": []}
    assert (await call(service, "DELETE", f"/{added['id']}")).body["fired"] == [firing]
    assert (await call(service, "GET", f"/{added['id']}")).code == "fault_not_found"


async def test_a_held_request_is_released(service: Service) -> None:
    """It is shown as held."""
    late = await add(service, {"edge": "till", "request": "POST /v1/orders", "kind": "late"})
    assert late["request"] == "create_order"
    asking = asyncio.ensure_future(create(service, await service.terminal()))
    shown = (await call(service, "GET", f"/{late['id']}?wait=30")).body
    assert [(one["held"], "answer" in one) for one in shown["fired"]] == [(True, False)]
    assert (await call(service, "POST", f"/{late['id']}/release", {})).status == 204
    assert (await asking)[0] == 201
    (cleared,) = (await call(service, "DELETE")).body["data"]
    assert (cleared["id"], cleared["fired"][0]["held"], cleared["fired"][0]["answer"]["status"]) == (
        late["id"],
        False,
        201,
    )


async def test_a_misspelt_parameter_is_refused(service: Service) -> None:
    """It would else remove the faults of others."""
    added = await add(service, LOST)
    for method, path in (("DELETE", "?aplication=1"), ("GET", "?edges=till"), ("GET", f"/{added['id']}?waits=1")):
        assert (
            (await call(service, method, path))
            .details[0]
            .endswith(
                "is unknown; the parameters are wait, fired"
                if "waits" in path
                else "the parameters are edge, application"
            )
        )
    assert (await call(service, "GET", f"/{added['id']}?wait=0&fired=1000")).status == 200


async def test_requests_that_wait_and_faults_of_an_application_are_limited(service: Service) -> None:
    """429 for the request after the last that may wait; 409 for the fault after the last."""
    added = await add(service, {**LOST, "times": 0})
    waiting = [asyncio.ensure_future(call(service, "GET", f"/{added['id']}?wait=55")) for _ in range(WAITING_MAX)]
    await until(lambda: service.shared.objects[Faults].waiting == WAITING_MAX)
    assert (await call(service, "GET", f"/{added['id']}?wait=1")).status == 429
    service.shared.objects[Faults].remove(*service.shared.objects[Faults])
    await asyncio.gather(*waiting)
    for number in range(FAULTS_OF_APPLICATION_MAX):
        await add(service, LOST if number % 2 else {"edge": "terminal", "request": "*", "kind": "reset"})
    refused = await call(service, "POST", "", LOST)
    assert (refused.status, refused.code) == (409, "too_many_faults")
    await add(service, LOST, (await operator(service)).token)


async def test_a_long_value_is_not_kept_and_a_secret_not_shown(service: Service) -> None:
    """As `terminal`, which the request names itself."""
    added = await add(service, {**LOST, "kind": "busy", "times": 0})
    for terminal in ("4111111111111111", "x" * 5000):
        assert (await create(service, Terminal(terminal, ""), key=terminal[:20]))[0] == 423
    fired = (await call(service, "GET", f"/{added['id']}")).body["fired"]
    assert [one.get("terminal") for one in fired] == ["***", None]


async def test_a_test_token_has_faults_of_its_own_alone(service: Service) -> None:
    """An operator has all; others' faults are not found, and their requests not disturbed."""
    other, owner = await other_seller(service), await operator(service)
    everyones = await add(service, {**LOST, "times": 0}, owner.token)
    assert everyones["match"] == {}
    own = await add(service, {"edge": "terminal", "request": "*", "kind": "reset"})
    assert own["match"] == {"seller": str(service.seller_id)}
    assert [one["id"] for one in (await call(service, "GET")).body["data"]] == [own["id"]]
    assert (await call(service, "GET", "", None, other.access_token)).body["data"] == []
    assert (await call(service, "DELETE", f"/{everyones['id']}")).code == "fault_not_found"
    assert (await ask(service, "GET", "/v1/orders", token=service.live_access_token))[0] == 200
    await add(service, {**LOST, "request": "search_orders", "kind": "busy"})
    assert (await ask(service, "GET", "/v1/orders", token=service.live_access_token))[0] == 200
    assert (await ask(service, "GET", "/v1/orders"))[0] == 423
    refused = await call(service, "POST", "", {**LOST, "match": {"seller": "1"}})
    assert refused.details == ["'$.match.seller' - must be that of the access token"]
    assert len((await call(service, "DELETE", "", None, owner.token)).body["data"]) == 3


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"kind": "explode"}, "'$.kind' - must be one of reset, late"),
        ({"request": "create_orders"}, "'$.request' - must be * or one of "),
        ({"edge": "shop", "request": "*"}, "'$.edge' - must be one of till, terminal"),
        ({"every": 0}, "'$.every' - must be a whole number from 1 to 1000"),
        ({"match": {"card": "visa"}}, "'$.match.card' - is not known at this edge"),
        ({"when": 1}, "'$.when'"),
    ],
)
async def test_a_mistake_is_refused_in_words(service: Service, change: dict[str, Any], detail: str) -> None:
    """With its field."""
    reply = await call(service, "POST", "", {**LOST, **change})
    assert reply.status == 400
    assert reply.details[0].startswith(detail)


async def test_a_reset_counts_anew_and_the_setting_adds_faults(database: Database) -> None:
    """Faults stay; what they held goes on."""
    settings = Settings(faults="till create_order late times=2; till cancel_order busy")
    async with running(database, settings=settings, development=True, workers=False) as service:
        owner, terminal = await operator(service), await service.terminal()
        listed = (await call(service, "GET", "", None, owner.token)).body["data"]
        assert [one["line"] for one in listed] == ["till create_order late times=2", "till cancel_order busy"]
        asking = asyncio.ensure_future(create(service, terminal))
        waited = await call(service, "GET", f"/{listed[0]['id']}?wait=30", None, owner.token)
        assert waited.body["matched"] == 1
        reset = asyncio.ensure_future(service.request("POST", "/dev/reset", {}, token=owner.token, key=None))
        assert (await reset).status == 204
        await asking
        shown = (await call(service, "GET", f"/{listed[0]['id']}", None, owner.token)).body
        assert (shown["matched"], shown["fired"]) == (0, [])


@pytest.mark.parametrize("line", ["till create_order", "till create_orders reset", "webhook order.paid twice"])
async def test_a_mistake_in_the_setting_refuses_the_start(database: Database, line: str) -> None:
    """In production every fault does."""
    with pytest.raises(StartRefused, match="only `paydesk dev` has faults"):
        make_shared(database, Settings(faults="till create_order reset"))
    with pytest.raises(StartRefused, match="faults: "):
        composed(database, Settings(faults=line), development=True)


async def test_a_firing_is_beside_its_request_and_in_the_timeline(database: Database) -> None:
    """Of two requests with one id, it is beside the one that it disturbed; a lost request is recorded too."""
    async with running(database, development=True, records=True) as service:
        terminal, owner = await service.terminal(), await operator(service)
        await add(service, {**LOST, "kind": "reset"})
        await add(service, LOST)
        for _ in range(2):
            with pytest.raises(Lost):
                await create(service, terminal, headers={"X-Request-Id": "once"})
        status, order, _ = await ask(service, body=order_body(terminal.id))
        assert status == 201

        async def recorded() -> Any:
            found = await owner.did("GET", "requests?request_id=once")
            return found["data"] if len(found["data"]) == 2 else None

        first, second = sorted(await until_found(recorded), key=lambda one: int(one["status"]))
        kinds = [(one["status"], one["fault"]["kind"]) for one in (first, second)]
        assert kinds == [(0, "reset"), (201, "answer_lost")]
        assert second["fault"]["effect"].startswith("The sender never got this answer")
        browser = await console(service)
        page = await browser.get(f"/console/requests/{second['entry_id']}")
        assert "The sender never got this answer" in page.html
        page = await browser.get(f"/console/orders/{order['id']}")
        assert "Fault answer_lost" in page.html
