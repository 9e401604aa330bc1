"""Changes of terminals, stores and points of sale by operators."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any
from urllib.parse import quote

import pytest

import counted
from accounts import other_seller
from operator_calls import Operator, audited, operator
from pairing_scene import pair
from service import Service, Terminal, approved
from tables import each


async def found(owner: Operator, terminal_id: str) -> dict[str, Any]:
    """Return the terminal as the list has it."""
    listed = (await owner.did("GET", "terminals"))["data"]
    document: dict[str, Any] = next(one for one in listed if one["id"] == terminal_id)
    return document


async def ids_of(owner: Operator, query: str) -> list[str]:
    """Return the ids that the list with these filters has."""
    return [one["id"] for one in (await owner.did("GET", f"terminals?{query}"))["data"]]


async def new_pos(owner: Operator) -> dict[str, Any]:
    """Create a point of sale in a new store."""
    seller_id = owner.service.seller_id
    shop = await owner.did("POST", "stores", {"seller_id": seller_id, "name": "Shop"})
    body = {"seller_id": seller_id, "store_id": shop["store_id"], "external_pos_id": counted.pos_id()}
    return await owner.did("POST", "pos", body)


async def test_terminal_has_the_names_of_its_place(service: Service, owner: Operator) -> None:
    """Alone as in the list; the version of its app is that of its last start."""
    terminal = await service.terminal()
    assert "app_version" not in await found(owner, terminal.id)
    for version in ("1.0", "1.1"):
        device = await service.device(terminal)
        await device.post("/hello", {"boot_id": str(uuid.uuid4()), "app_version": version, "journal": []})
    one = await owner.did("GET", f"terminals/{terminal.id}")
    assert one == await found(owner, terminal.id)
    names = [one[name] for name in ("seller_name", "store_name", "pos_name", "app_version")]
    assert names == [service.scene.seller.name, "Shop", "Till", "1.1"]
    assert await owner.refused("GET", "terminals/NEWLAND_N950__NONE") == (404, "terminal_not_found")


async def test_terminals_are_filtered(service: Service, owner: Operator) -> None:
    """By presence, mode, kind and text; characters of patterns stand for themselves."""
    tested, live = await service.terminal(terminal_id="M__a_1"), await service.terminal(live=True, mode="STANDALONE")
    await service.terminal(terminal_id="M__ab1")
    await owner.did("PATCH", f"stores/{(await found(owner, live.id))['store_id']}", {"name": "100% Café"})
    seen = {"online": 30_000, "degraded": 60_000, "offline": 121_000}
    for presence, age_ms in seen.items():
        now_ms = int(time.time() * 1000)
        await service.scene.run(
            "UPDATE terminals SET last_seen_ms = $1 WHERE terminal_id = $2", now_ms - age_ms, live.id
        )
        assert (await found(owner, live.id))["presence"] == presence
        for asked in seen:
            assert (live.id in await ids_of(owner, f"presence={asked}")) == (asked == presence)
    assert await ids_of(owner, "mode=STANDALONE") == await ids_of(owner, "live=true") == [live.id]
    assert await ids_of(owner, "live=false&q=A_1") == [tested.id]
    assert await ids_of(owner, "q=%25%20caf") == await ids_of(owner, "q=shop&live=true&mode=PDV") + [live.id]
    assert await ids_of(owner, "q=" + quote((await found(owner, tested.id))["external_pos_id"])) == [tested.id]
    assert await ids_of(owner, "virtual=true") == []
    await service.scene.run(
        "UPDATE terminals SET is_virtual = 1, script = 'approved' WHERE terminal_id = $1", tested.id
    )
    assert await ids_of(owner, "virtual=true") == [tested.id]
    assert tested.id not in await ids_of(owner, "virtual=false")
    for query in ("presence=on", "status=online", "mode=X", "live=1", "virtual=1", f"q={'a' * 201}", "q=%00"):
        assert await owner.refused("GET", f"terminals?{query}") == (400, "property_value")


@pytest.mark.on_postgres
async def test_terminal_is_changed(service: Service, owner: Operator) -> None:
    """Only the fields sent; the answer is the terminal as in the list; each change is audited once."""
    terminal, pos = await service.terminal(), await new_pos(owner)
    before, path = await found(owner, terminal.id), f"terminals/{terminal.id}"
    assert "tip_percentages" not in before
    changes: tuple[dict[str, Any], ...] = (
        {"operating_mode": "SELF_SERVICE"},
        {"pos_id": pos["pos_id"]},
        {"tip_percentages": [15, 10]},
        {"tip_percentages": []},
        {"operating_mode": "SELF_SERVICE"},
    )
    for change in changes:
        changed = await owner.did("PATCH", path, change)
        assert changed == await found(owner, terminal.id)
        if change.get("tip_percentages") != []:
            assert changed == {**changed, **change}
    assert changed == {
        **before,
        "operating_mode": "SELF_SERVICE",
        "pos_id": pos["pos_id"],
        "pos_name": pos["name"],
        "external_pos_id": pos["external_pos_id"],
        "store_id": pos["store_id"],
    }
    lines = await audited(service)
    assert [line.action for line in lines if line.subject == terminal.id] == ["terminals.change"] * 4
    shown_only = ("created_date", "status", "presence", "seller_name", "store_name", "pos_name", "external_pos_id")
    assert lines[2].before == {
        **{name: value for name, value in before.items() if name not in shown_only},
        "script": None,
        "tip_percentages": None,
    }


@pytest.mark.on_postgres
async def test_terminal_moves_to_a_pos_of_its_own(service: Service, owner: Operator) -> None:
    """With a store alone; the second time to the one that it has there; in a third store with a number."""
    terminal = await service.terminal()
    path = f"terminals/{terminal.id}"
    shops = [await owner.did("POST", "stores", {"seller_id": service.seller_id, "name": "Shop"}) for _ in range(2)]
    first, second, again = [
        await owner.did("PATCH", path, {"store_id": shops[number]["store_id"]}) for number in (0, 1, 0)
    ]
    assert (first["store_id"], again) == (shops[0]["store_id"], first)
    names = {pos["pos_id"]: pos["external_pos_id"] for pos in (await owner.did("GET", "pos"))["data"]}
    assert (names[first["pos_id"]], names[second["pos_id"]]) == (terminal.id, f"{terminal.id}-2")


async def test_second_terminal_in_pdv_is_refused(service: Service, owner: Operator) -> None:
    """By mode and by place; live and test terminals are apart."""
    one, other, live = await service.terminal(), await service.terminal(), await service.terminal(live=True)
    to_one = {"pos_id": (await found(owner, one.id))["pos_id"]}
    assert await owner.refused("PATCH", f"terminals/{other.id}", to_one) == (409, "pos_taken")
    await owner.did("PATCH", f"terminals/{other.id}", {**to_one, "operating_mode": "STANDALONE"})
    to_pdv = {"operating_mode": "PDV"}
    assert await owner.refused("PATCH", f"terminals/{other.id}", to_pdv) == (409, "pos_taken")
    await owner.did("PATCH", f"terminals/{live.id}", to_one)
    await owner.did("PATCH", f"terminals/{one.id}", {"operating_mode": "STANDALONE"})
    await owner.did("PATCH", f"terminals/{other.id}", to_pdv)


@each(
    "change, code",
    [
        ({}, "minimum_properties"),
        ({"tip_percentages": [10, 10]}, "property_value"),
        ({"tip_percentages": [0]}, "property_value"),
        ({"tip_percentages": [101]}, "property_value"),
        ({"tip_percentages": ["10"]}, "property_type"),
        ({"tip_percentages": [1, 2, 3, 4, 5, 6]}, "maximum_items"),
        ({"operating_mode": "UNDEFINED"}, "property_value"),
        ({"script": "approve"}, "property_value"),
        ({"script": "sing"}, "property_value"),
        ({"live_mode": False}, "unsupported_properties"),
    ],
)
async def test_invalid_change_is_refused(service: Service, owner: Operator, change: Any, code: str) -> None:
    """And changes nothing, also with a valid field beside it."""
    terminal = await service.terminal()
    before = await found(owner, terminal.id)
    for body in (change, {"operating_mode": "STANDALONE", **change} if change else change):
        assert await owner.refused("PATCH", f"terminals/{terminal.id}", body) == (400, code)
    assert await found(owner, terminal.id) == before
    assert await audited(service) == []


async def test_terminal_with_a_live_order_is_not_changed(service: Service, owner: Operator) -> None:
    """The details name the order; the mode that it has already is no change."""
    terminal, pos = await service.terminal(), await new_pos(owner)
    order_id = (await service.create(terminal)).body["id"]
    for change in ({"operating_mode": "STANDALONE"}, {"tip_percentages": [10]}, {"pos_id": pos["pos_id"]}):
        reply = await owner.ask("PATCH", f"terminals/{terminal.id}", change)
        assert (reply.status, reply.code, order_id in reply.details[0]) == (409, "terminal_busy", True)
    await owner.did("PATCH", f"terminals/{terminal.id}", {"operating_mode": "PDV"})
    reply = await owner.ask("DELETE", f"terminals/{terminal.id}")
    assert (reply.status, reply.code, order_id in reply.details[0]) == (409, "in_use", True)


async def test_deleted_terminal_is_gone_and_its_orders_stay(service: Service, owner: Operator) -> None:
    """Its token may only report results of its own leases; an open poll ends."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    order_id = (await service.create(terminal)).body["id"]
    lease_id = order_id[3:]
    assert (await device.ack(lease_id)).status == 200
    assert (await device.result(lease_id, outcome="canceled")).status == 200
    assert (await owner.ask("DELETE", f"terminals/{terminal.id}")).status == 204
    assert (await owner.did("GET", "terminals"))["data"] == []
    assert (await service.get(order_id))["status"] == "canceled"
    assert (await device.next(0)).status == 401
    assert (await device.post("/hello", {"boot_id": device.boot_id})).status == 401
    assert (await device.ack(lease_id)).status == 401
    late = await device.result(lease_id, **approved())
    assert (late.status, late.body["recorded"]) == (409, True)
    for method, body in (("PATCH", {"operating_mode": "PDV"}), ("DELETE", None)):
        assert await owner.refused(method, f"terminals/{terminal.id}", body) == (404, "terminal_not_found")
    assert (await service.create(terminal)).status in (403, 404)
    lines = await audited(service)
    assert [(line.action, line.subject, line.before["id"]) for line in lines] == [
        ("terminals.delete", terminal.id, terminal.id)
    ]


async def test_poll_on_a_deleted_terminal_ends(service: Service, owner: Operator) -> None:
    """At once, with 401."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    polling = asyncio.create_task(device.next(30))
    await service.polls(terminal)
    assert (await owner.ask("DELETE", f"terminals/{terminal.id}")).status == 204
    assert (await polling).status == 401


async def test_sessions_of_a_terminal_paired_again_follow_its_leases(service: Service, owner: Operator) -> None:
    """So a lease of an earlier session is never taken for one of a later one."""
    first = await pair(service, owner, "M__1", live_mode=False)
    await owner.did("PATCH", f"terminals/{first.id}", {"operating_mode": "PDV"})
    for _ in range(3):
        device = await service.device(first)
    order_id = (await service.create(first)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    assert (await device.result(order_id[3:], outcome="canceled")).status == 200
    assert (await owner.ask("DELETE", f"terminals/{first.id}")).status == 204
    assert await service.scene.value("SELECT COUNT(*) FROM terminal_sessions") == 0
    again = await pair(service, owner, first.id, live_mode=False)
    await service.device(again)
    assert await service.scene.value("SELECT session FROM terminals") == 4
    assert (await device.post("/hello", {"boot_id": device.boot_id})).status == 401


async def test_revoke_ends_the_token_alone(service: Service, owner: Operator) -> None:
    """Also with a live order, whose result is still taken; repeating it changes nothing."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    lease_id = (await service.create(terminal)).body["id"][3:]
    assert (await device.ack(lease_id)).status == 200
    assert (await device.authorizing(lease_id)).status == 200
    before = await found(owner, terminal.id)
    for _ in range(2):
        assert await owner.did("POST", f"terminals/{terminal.id}/revoke") == {**before, "status": "inactive"}
    assert (await device.next(0)).status == 401
    assert (await device.approve(lease_id)).status == 200
    assert [line.action for line in await audited(service)] == ["terminals.revoke"]


@pytest.mark.on_postgres
async def test_serial_in_lower_case_is_found_as_it_is(service: Service, owner: Operator) -> None:
    """Serials are case-sensitive; models have no lower case."""
    for terminal_id in ("M__aB-1", "M__AB-1"):
        await pair(service, owner, terminal_id)
    await owner.did("PATCH", "terminals/M__aB-1", {"tip_percentages": [10]})
    assert "tip_percentages" not in await found(owner, "M__AB-1")
    assert (await found(owner, "M__aB-1"))["tip_percentages"] == [10]
    assert await owner.refused("DELETE", "terminals/M__ab-1") == (404, "terminal_not_found")
    assert await owner.refused("DELETE", "terminals/nonsense") == (400, "invalid_path_param")


@pytest.mark.on_postgres
async def test_store_and_pos_are_changed(service: Service, owner: Operator) -> None:
    """The answers are as in the lists; an external id of another point of sale is refused."""
    pos, other = await new_pos(owner), await new_pos(owner)
    named = await owner.did("PATCH", f"stores/{pos['store_id']}", {"name": "Central"})
    assert named["name"] == "Central"
    assert named in (await owner.did("GET", "stores"))["data"]
    changed = await owner.did("PATCH", f"pos/{pos['pos_id']}", {"external_pos_id": "T1", "name": "Till"})
    assert changed == {**pos, "external_pos_id": "T1", "name": "Till"}
    assert changed in (await owner.did("GET", "pos"))["data"]
    taken = {"external_pos_id": other["external_pos_id"]}
    assert await owner.refused("PATCH", f"pos/{pos['pos_id']}", taken) == (409, "external_pos_id_taken")
    await owner.did("PATCH", f"pos/{pos['pos_id']}", {"external_pos_id": "T1"})
    for path in (f"pos/{pos['pos_id']}", f"stores/{pos['store_id']}"):
        assert await owner.refused("PATCH", path, {}) == (400, "minimum_properties")
        assert await owner.refused("PATCH", path, {"store_id": other["store_id"]}) == (400, "unsupported_properties")
    made = {"stores.create", "pos.create"}
    assert [line.action for line in await audited(service) if line.action not in made] == [
        "stores.change",
        "pos.change",
    ]


async def test_store_and_pos_in_use_are_not_deleted(service: Service, owner: Operator) -> None:
    """The details name what uses them; afterwards they are gone."""
    terminal = await service.terminal()
    place = await found(owner, terminal.id)
    store, pos = f"stores/{place['store_id']}", f"pos/{place['pos_id']}"
    for path, user in ((store, str(place["pos_id"])), (pos, terminal.id)):
        reply = await owner.ask("DELETE", path)
        assert (reply.status, reply.code, user in reply.details[0]) == (409, "in_use", True)
    for path in (f"terminals/{terminal.id}", pos, store):
        assert (await owner.ask("DELETE", path)).status == 204
    for path, code in ((pos, "pos_not_found"), (store, "store_not_found")):
        assert await owner.refused("DELETE", path) == (404, code)
        assert await owner.refused("PATCH", path, {"name": "A"}) == (404, code)
    assert sorted(line.action for line in await audited(service)) == ["pos.delete", "stores.delete", "terminals.delete"]


@pytest.mark.on_postgres
async def test_seller_is_needed_where_ids_are_the_same(service: Service, owner: Operator) -> None:
    """Ids are unique per seller only."""
    foreign = await other_seller(service)
    for seller_id in (service.seller_id, foreign.seller_id):
        await service.scene.run("INSERT INTO stores VALUES ($1, 77, 'Shop', 1)", seller_id)
        await service.scene.run("INSERT INTO pos VALUES ($1, 78, 77, 'T', 'T', 1)", seller_id)
    for path in ("pos/78", "stores/77"):
        assert await owner.refused("DELETE", path) == (400, "property_value")
        assert (await owner.ask("DELETE", f"{path}?seller={foreign.seller_id}")).status == 204
        assert (await owner.ask("PATCH", path, {"name": "Mine"})).body["seller_id"] == service.seller_id


async def test_support_changes_nothing(service: Service) -> None:
    """Every change is refused with 403."""
    support, terminal = await operator(service, "support"), await service.terminal()
    place = await found(support, terminal.id)
    for method, path, body in (
        ("PATCH", f"terminals/{terminal.id}", {"operating_mode": "STANDALONE"}),
        ("POST", f"terminals/{terminal.id}/revoke", None),
        ("DELETE", f"terminals/{terminal.id}", None),
        ("PATCH", f"pos/{place['pos_id']}", {"name": "A"}),
        ("DELETE", f"pos/{place['pos_id']}", None),
        ("PATCH", f"stores/{place['store_id']}", {"name": "A"}),
        ("DELETE", f"stores/{place['store_id']}", None),
    ):
        assert await support.refused(method, path, body) == (403, "forbidden")
    assert await found(support, terminal.id) == place
    await service.device(Terminal(terminal.id, terminal.token))
