"""`/virtual/v1`: create, list and delete private virtual terminals, and who may."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accounts import other_seller, with_scope
from hand_clock import HandClock
from operator_calls import audited, operator
from paydesk.core.clock import MovableClock
from paydesk.core.keys import Keys
from paydesk.core.limits.throttle_log import ThrottleLog
from paydesk.platform.http.rate_limit import BearerRates
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_dev.virtual import page_keys
from paydesk_dev.virtual.api.handlers import WAITING_MAX
from paydesk_dev.virtual.api.store import TERMINALS_MAX
from paydesk_dev.virtual.fleet import Fleet
from print_scene import PATH, print_on
from service import KEYS, Service, running
from skipped_waits import skipped_waits
from virtual_scene import TERMINALS, Virtual, create, playing
from waiting import timer, until, until_found

UNKNOWN = "PAYDESK_VIRTUAL__C2AFE1BB4D93"


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A running service with virtual terminals."""
    with skipped_waits(database):
        async with playing(database) as service:
            yield service


async def _pos_ids(service: Service) -> set[int]:
    rows = await service.database.read(lambda tx: tx.all("SELECT pos_id FROM pos"))
    return {row[0] for row in rows}


async def _until_waiting(service: Service, virtual: Virtual, requests: int) -> None:
    """Wait until so many requests wait for a screen of the terminal."""
    fleet = service.fleet
    assert fleet is not None
    await until(lambda: fleet.find(virtual.id).panel.waiting == requests)


async def _listed(service: Service, token: str = "", query: str = "") -> list[str]:
    reply = await service.request("GET", TERMINALS + query, token=token)
    assert reply.status == 200, reply.body
    return [one["id"] for one in reply.body["data"]]


async def test_a_terminal_is_created_connected_and_deleted(service: Service) -> None:
    """At a point of sale of its own, which goes with it; applications see it at once."""
    before = await _pos_ids(service)
    virtual = await create(service)
    made = virtual.made
    assert made == {
        "id": virtual.id,
        "terminal_id": virtual.id,
        "seller_id": service.seller_id,
        "store_id": made["store_id"],
        "pos_id": made["pos_id"],
        "operating_mode": "PDV",
        "script": "manual",
        "page_url": page_keys.page_url(service.base_url, KEYS, virtual.id),
    }
    assert await _pos_ids(service) == before | {made["pos_id"]}
    assert await _statuses(service, made["pos_id"]) == {virtual.id: "online"}
    assert (await virtual.screen())["screen"] == "idle"
    assert await _listed(service) == [virtual.id]

    assert (await virtual.delete()).status == 204
    assert await _pos_ids(service) == before
    assert await _listed(service) == []
    assert service.fleet is not None
    assert virtual.id not in service.fleet.terminals()
    for method, path in (("GET", "/screen"), ("POST", "/actions"), ("DELETE", "")):
        reply = await service.request(method, f"{TERMINALS}/{virtual.id}{path}", {"action": "reboot"}, key=None)
        assert (reply.status, reply.code) == (404, "terminal_not_found")


async def _statuses(service: Service, pos_id: int) -> dict[str, str]:
    """Return the terminals at the point of sale as applications see them, once all have polled."""
    while True:
        listed = await service.request("GET", f"/terminals/v1/list?pos_id={pos_id}")
        found = {one["id"]: one["presence"] for one in listed.body["data"]["terminals"]}
        if "offline" not in found.values():
            return found
        await asyncio.sleep(0.02)


async def test_a_deleted_terminal_leaves_no_journal(database: Database, tmp_path: Path) -> None:
    """Its file goes; those of others stay."""
    async with running(database, development=True, has_fleet=True, journals=tmp_path) as service:
        kept, deleted = [await create(service, seed=7) for _ in range(2)]
        journal = json.loads((tmp_path / f"{kept.id}.json").read_text())
        assert (journal["seed"], journal["is_quick"]) == (7, True)
        assert _journals(tmp_path) == {kept.id, deleted.id}
        assert (await deleted.delete()).status == 204
        assert _journals(tmp_path) == {kept.id}


def _journals(folder: Path) -> set[str]:
    return {file.stem for file in folder.glob("*.json")}


async def test_options_of_a_new_terminal(service: Service) -> None:
    """A script that plays by itself, a mode, and a seed."""
    virtual = await create(service, script="flaky:0.1:approve:0s", operating_mode="STANDALONE", seed=7)
    assert (virtual.made["script"], virtual.made["operating_mode"]) == ("flaky:0.1:approve:0s", "STANDALONE")
    await virtual.screen("standalone")
    refused = await service.create(virtual.terminal)
    assert refused.code == "terminal_not_in_pdv_mode"


INVALID: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"script": "dance"}, "property_value", "$.script"),
    ({"script": "decline:nothing_like_it"}, "property_value", "$.script"),
    ({"script": "x" * 60_000}, "property_value", "$.script"),
    ({"script": None}, "property_type", "$.script"),
    ({"operating_mode": "UNDEFINED"}, "property_value", "$.operating_mode"),
    ({"seed": -1}, "property_value", "$.seed"),
    ({"seed": 2**53}, "property_value", "$.seed"),
    ({"seed": "7"}, "property_type", "$.seed"),
    ({"pos_id": 1}, "unsupported_properties", "$.pos_id"),
    ({"seller_id": 1160535239}, "property_value", "$.seller_id"),
)


async def test_an_invalid_field_creates_nothing(service: Service) -> None:
    """The error names it."""
    before = await _pos_ids(service)
    for body, code, path in INVALID:
        reply = await service.request("POST", TERMINALS, body, key=None)
        assert (reply.status, reply.code) == (400, code), str(body)[:60]
        assert reply.details[0].startswith(f"'{path}' - "), str(body)[:60]
        assert await _pos_ids(service) == before, str(body)[:60]
        assert await _listed(service) == [], str(body)[:60]


@pytest.mark.on_postgres
async def test_operators_reach_the_terminals_of_all_sellers(service: Service) -> None:
    """For the first seller unless they say another; each change is audited, without the key of the page."""
    person, both = await operator(service, "operator"), (service, await other_seller(service))
    default, other = sorted(both, key=lambda one: one.seller_id)
    first = await create(service, token=person.token)
    second = await create(service, token=person.token, seller_id=other.seller_id, script="hold")
    assert (first.made["seller_id"], second.made["seller_id"]) == (default.seller_id, other.seller_id)
    assert await _listed(service, person.token) == [first.id]
    assert await _listed(service, person.token, f"?seller_id={other.seller_id}") == [second.id]
    assert await _listed(service, other.access_token) == [second.id]
    await second.act("set_script", script="approve:0s")
    await second.screen("idle")
    assert (await second.delete()).status == 204
    lines = [line for line in await audited(service) if line.operator_id == person.operator_id]
    assert [(line.action, line.subject) for line in lines] == [
        ("terminals.create", first.id),
        ("terminals.create", second.id),
        ("terminals.change", second.id),
        ("terminals.delete", second.id),
    ]
    assert (lines[2].before["script"], lines[2].after["script"]) == ("hold", "approve:0s")
    assert not any("page_url" in (side or {}) for line in lines for side in (line.before, line.after))
    by_token = await create(service)
    assert (await by_token.delete()).status == 204
    assert len([line for line in await audited(service) if line.operator_id == person.operator_id]) == 4
    reply = await service.request("GET", f"{TERMINALS}?seller_id=x", token=person.token)
    assert (reply.status, reply.code) == (400, "property_value")


async def test_readers_see_no_key_and_change_nothing(service: Service) -> None:
    """Neither the role support nor a token without `write`; a token without `read` reads nothing."""
    virtual, support = await create(service), await operator(service, "support")
    reader, writer = await with_scope(service, "read"), await with_scope(service, "write")
    for token, code in ((support.token, "forbidden"), (reader, "insufficient_scope")):
        listed = await service.request("GET", TERMINALS, token=token)
        assert [one.get("page_url", "none") for one in listed.body["data"]] == ["none"]
        assert (await replace(virtual, token=token).screen())["screen"] == "idle"
        for method, path in (("POST", ""), ("POST", f"/{virtual.id}/actions"), ("DELETE", f"/{virtual.id}")):
            body = {"action": "power_off"} if path.endswith("actions") else {}
            reply = await service.request(method, TERMINALS + path, body, token=token, key=None)
            assert (reply.status, reply.code) == (403, code)
    assert (await virtual.screen())["screen"] == "idle"
    for path in ("", f"/{virtual.id}/screen"):
        assert (await service.request("GET", TERMINALS + path, token=writer)).code == "insufficient_scope"
    as_support = (await support.did("GET", "terminals"))["data"]
    as_owner = (await (await operator(service)).did("GET", "terminals"))["data"]
    assert [one.get("page_url") for one in as_support] == [None]
    assert [one.get("page_url") for one in as_owner] == [virtual.made["page_url"]]


async def test_a_live_token_is_refused(service: Service) -> None:
    """With what to use instead, on every operation."""
    virtual = await create(service)
    for method, path in (
        ("GET", ""),
        ("POST", ""),
        ("GET", f"/{virtual.id}/screen"),
        ("POST", f"/{virtual.id}/actions"),
        ("DELETE", f"/{virtual.id}"),
    ):
        body = {"action": "reboot"} if path.endswith("actions") else None
        reply = await service.request(method, TERMINALS + path, body, token=service.live_access_token, key=None)
        assert (reply.status, reply.code) == (403, "forbidden")
        assert "TEST-" in reply.body["message"]


async def test_no_other_token_and_no_foreign_page(service: Service) -> None:
    """A terminal's token, an unknown one and none are 401; a page of another origin is refused with a valid one."""
    virtual, physical = await create(service), await service.terminal()
    for token in (physical.token, "TEST-1-guessed-1", f"PDO-{'0' * 40}", "PDO-", None):
        reply = await service.request("GET", f"{TERMINALS}/{virtual.id}/screen", token=token)
        assert (reply.status, reply.code) == (401, "unauthorized")
    foreign = {"Origin": "https://other.example"}
    reply = await service.request("DELETE", f"{TERMINALS}/{virtual.id}", headers=foreign)
    assert (reply.status, reply.code) == (403, "forbidden")
    assert await _listed(service) == [virtual.id]


async def test_terminals_of_others_do_not_exist(service: Service) -> None:
    """Another seller's, a physical one, one of another process, an unknown one: the same 404, and nothing changes."""
    other = await other_seller(service)
    theirs = await create(other)
    physical = await service.terminal()
    elsewhere = await create(service)
    assert service.fleet is not None
    await service.fleet.remove(elsewhere.id)
    person = await operator(service)
    for terminal_id, token in (
        (theirs.id, ""),
        (physical.id, ""),
        (elsewhere.id, ""),
        (UNKNOWN, ""),
        (physical.id, person.token),
        (elsewhere.id, person.token),
        (UNKNOWN, person.token),
    ):
        own = Virtual(service, terminal_id, {}, token)
        answers = [
            await service.request("GET", f"{TERMINALS}/{terminal_id}/screen?wait=20&until=off", token=token),
            await own.try_to("power_off"),
            await own.try_to("set_script", script="ignore"),
            await own.delete(),
        ]
        assert {(answer.status, answer.code, answer.body["message"]) for answer in answers} == {
            (404, "terminal_not_found", "There is no such virtual terminal in this service.")
        }
    assert (await theirs.screen())["screen"] == "idle"
    rows = await service.database.read(lambda tx: tx.all("SELECT terminal_id, script FROM terminals"))
    assert {tuple(row) for row in rows} == {(theirs.id, "manual"), (physical.id, None), (elsewhere.id, "manual")}
    assert await _listed(service) == []
    for malformed in ("x", "PAYDESK_VIRTUAL", f"{UNKNOWN}%00", "A" * 300):
        reply = await service.request("DELETE", f"{TERMINALS}/{malformed}")
        assert (reply.status, reply.code) == (400, "invalid_path_param"), malformed


async def test_the_number_of_terminals_is_bounded(service: Service) -> None:
    """Per seller, also side by side, and for operators too; the refusal says what to do and leaves nothing behind."""
    seller_id = service.seller_id

    async def fill(tx: Any) -> None:
        for number in range(TERMINALS_MAX - 2):
            await tx.run(
                "INSERT INTO terminals (seller_id, terminal_id, live, store_id, pos_id, kind, is_virtual,"
                " operating_mode, script, session, created_ms)"
                " VALUES ($1, $2, 0, 1, 1, 'terminal', 1, 'STANDALONE', 'hold', 0, 0)",
                seller_id,
                f"FULL__{number}",
            )

    await service.terminal()  # Physical ones do not count, and the seller has a store.
    await service.database.write(fill)
    before = len(await _pos_ids(service))
    replies = await asyncio.gather(*(service.request("POST", TERMINALS, {}, key=None) for _ in range(6)))
    assert sorted(reply.status for reply in replies) == [201] * 2 + [409] * 4
    refused = next(reply for reply in replies if reply.status == 409)
    assert refused.code == "too_many_terminals"
    assert "DELETE /virtual/v1/terminals/" in refused.details[0]
    assert len(await _pos_ids(service)) == before + 2
    person = await operator(service)
    assert await person.refused("POST", "terminals", {"seller_id": seller_id}) == (409, "too_many_terminals")
    await create(await other_seller(service))
    made = next(reply.body["id"] for reply in replies if reply.status == 201)
    assert (await Virtual(service, made, {}).delete()).status == 204
    await create(service)


async def test_a_terminal_with_an_order_is_not_deleted(service: Service) -> None:
    """The refusal names the order and what to do; once it is canceled the terminal goes, and the order stays."""
    virtual = await create(service, script="ignore")
    order_id = await virtual.order()
    refused = await virtual.delete()
    assert (refused.status, refused.code) == (409, "in_use")
    assert order_id in refused.details[0]
    assert f"POST /v1/orders/{order_id}/cancel" in refused.details[0]
    assert (await virtual.screen())["screen"]
    assert (await service.cancel(order_id)).status == 200
    assert (await virtual.delete()).status == 204
    assert (await service.get(order_id))["status"] == "canceled"


@pytest.mark.on_postgres
async def test_a_terminal_with_a_print_action_is_not_deleted(service: Service) -> None:
    """The refusal names the action and what to do."""
    virtual = await create(service)
    await virtual.act("power_off")
    action_id = (await print_on(service, virtual.terminal)).body["id"]
    refused = await virtual.delete()
    assert (refused.status, refused.code) == (409, "in_use")
    assert f"POST /terminals/v1/actions/{action_id}/cancel" in refused.details[0]
    assert (await service.request("POST", f"{PATH}/{action_id}/cancel", {})).status == 200
    assert (await virtual.delete()).status == 204


@pytest.mark.on_postgres
async def test_a_terminal_is_deleted_with_what_holds_it(service: Service) -> None:
    """With `cancel`: an order that it has not acknowledged, one that waits for a card, or a print action."""
    before = await _pos_ids(service)

    async def delete(script: str, action: str = "") -> tuple[int, str]:
        virtual = await create(service, script=script)
        if action == "print":
            await virtual.act("power_off")
            printed = (await print_on(service, virtual.terminal)).body["id"]
        else:
            order_id = await virtual.order()
        if action == "card":
            await virtual.screen("present_card")
        deleted = await virtual.delete("?cancel=true")
        if action == "print":
            return deleted.status, (await service.request("GET", f"{PATH}/{printed}")).body["status"]
        return deleted.status, (await service.get(order_id))["transactions"]["payments"][0]["status_detail"]

    assert await delete("ignore") == (204, "canceled_by_api")
    assert await delete("manual", "card") == (204, "canceled_by_api")
    assert await delete("manual", "print") == (204, "canceled")
    assert await _pos_ids(service) == before
    for query in ("?cancel=yes", "?cancel=false&cancel=true"):
        refused = await (await create(service)).delete(query)
        assert (refused.status, refused.code) == (400, "property_value"), query


@pytest.mark.on_postgres
async def test_a_terminal_that_may_be_charging_is_deleted_at_the_end_of_its_order(
    database: Database, tmp_path: Path
) -> None:
    """It is switched off at once and takes no more orders; a restart does not switch it on."""
    clock = MovableClock()
    with skipped_waits(database):
        settings = Settings(acquirer="simulator")
        async with playing(database, clock=clock, settings=settings, journals=tmp_path) as service:
            before, person = await _pos_ids(service), await operator(service)
            virtual = await create(service, pace="real")
            order_id = await virtual.order()
            await virtual.screen("present_card")
            await virtual.act("tap", card="no_answer")
            await until_found(lambda: database.read(lambda tx: tx.all("SELECT outcome FROM simulator_payments")))
            assert (await virtual.delete("?cancel=true")).status == 204
            assert virtual.id not in await _listed(service)
            assert (await virtual.try_to("power_on")).code == "terminal_not_found"
            again = Fleet(service.base_url, tmp_path)
            await again.start()
            assert (again.terminals(), again.retired()) == ((), (virtual.id,))
            await again.stop()
            if (await service.get(order_id))["status"] == "at_terminal":
                assert (await person.did("GET", f"terminals/{virtual.id}"))["operating_mode"] == "STANDALONE"
            clock.advance(61_000)
            database.signals.notify(["clock"])
            await service.until(order_id, "processed")

            async def is_gone() -> bool:
                return (await person.ask("GET", f"terminals/{virtual.id}")).status == 404

            await until_found(is_gone)
            assert await _pos_ids(service) == before
            await until(lambda: _journals(tmp_path) == set())


@pytest.mark.on_postgres
async def test_an_operator_deletes_the_point_of_sale_with_the_terminal(service: Service) -> None:
    """Which was made for it, as the deletion by the application does."""
    before, person = await _pos_ids(service), await operator(service)
    by_test, by_command = await create(service), await person.did("POST", "terminals", {"script": "approve"})
    assert len(await _pos_ids(service)) == len(before) + 2
    for terminal_id in (by_test.id, by_command["id"]):
        assert (await person.ask("DELETE", f"terminals/{terminal_id}")).status == 204
    assert await _pos_ids(service) == before


async def test_deletes_side_by_side(service: Service) -> None:
    """One is done, the others find nothing; a request that waits for a screen ends at once."""
    virtual = await create(service)
    waiting = asyncio.create_task(service.request("GET", f"{TERMINALS}/{virtual.id}/screen?wait=30&until=approved"))
    await _until_waiting(service, virtual, 1)
    replies = await asyncio.gather(*(virtual.delete() for _ in range(5)))
    assert sorted(reply.status for reply in replies) == [204] + [404] * 4
    reply = await asyncio.wait_for(waiting, 20)
    assert (reply.status, reply.code) == (404, "terminal_not_found")


async def test_create_and_delete_race_for_an_order(service: Service) -> None:
    """Either the order is created and the terminal stays, or the terminal goes and there is no order."""
    for _ in range(5):
        virtual = await create(service, script="ignore")
        created, deleted = await asyncio.gather(service.create(virtual.terminal), virtual.delete())
        assert (created.status, deleted.status) in ((201, 409), (403, 204)), (created, deleted)


async def test_a_shared_point_of_sale_stays(service: Service) -> None:
    """If another terminal was moved to the terminal's own, and if it was created at another one."""
    virtual, person = await create(service), await operator(service)
    guest = await service.terminal(mode="STANDALONE")
    await person.did("PATCH", f"terminals/{guest.id}", {"pos_id": virtual.made["pos_id"]})
    assert (await virtual.delete()).status == 204
    assert virtual.made["pos_id"] in await _pos_ids(service)
    shop = await person.did("POST", "stores", {"seller_id": service.seller_id, "name": "Shop"})
    body = {"seller_id": service.seller_id, "store_id": shop["store_id"], "external_pos_id": "TILL"}
    pos = await person.did("POST", "pos", body)
    placed = await person.did(
        "POST", "terminals", {"seller_id": service.seller_id, "pos_id": pos["pos_id"], "script": "ignore"}
    )
    assert set(placed) == set(virtual.made)
    assert placed["page_url"] == page_keys.page_url(service.base_url, KEYS, placed["id"])
    assert (await Virtual(service, placed["id"], {}).delete()).status == 204
    assert pos["pos_id"] in await _pos_ids(service)


async def test_wait_until_a_screen(service: Service) -> None:
    """The response is sent when the terminal shows it, and at the end of the time with the one that it has."""
    virtual = await create(service)
    early = timer(1.9)
    reply = await service.request("GET", f"{TERMINALS}/{virtual.id}/screen?wait=2&until=approved")
    assert (reply.status, reply.body["screen"], early.is_set()) == (200, "idle", True)
    for query, detail in (
        ("?wait=56&until=off", "'wait'"),
        ("?wait=x&until=off", "'wait'"),
        ("?wait=1", "'until'"),
        ("?wait=1&until=paid", "'until'"),
        ("?until=", "'until'"),
    ):
        reply = await service.request("GET", f"{TERMINALS}/{virtual.id}/screen{query}")
        assert (reply.status, reply.code) == (400, "property_value")
        assert reply.details[0].startswith(detail)


async def test_waiting_requests_are_bounded(service: Service) -> None:
    """Per terminal; the next one is refused until one has its answer."""
    virtual, other = await create(service), await create(service)
    path = f"{TERMINALS}/{virtual.id}/screen?wait=30&until=off"
    waiting = [asyncio.create_task(service.request("GET", path)) for _ in range(WAITING_MAX)]
    await _until_waiting(service, virtual, WAITING_MAX)
    refused = await service.request("GET", path)
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "too_many_requests", "5")
    assert (await other.screen())["screen"] == "idle"
    await virtual.act("power_off")
    assert [(await one).body["screen"] for one in waiting] == ["off"] * WAITING_MAX
    assert (await virtual.screen("off"))["screen"] == "off"


async def test_a_stopped_fleet_starts_nothing(service: Service) -> None:
    """A request between the two stops gets 503, not an internal error."""
    virtual = await create(service)
    assert service.fleet is not None
    await service.fleet.stop()
    late = await service.request("POST", TERMINALS, {}, key=None)
    assert (late.status, late.code, "Repeat" in late.body["message"]) == (503, "service_unavailable", True)
    assert (await virtual.try_to("reboot")).status == 404


async def test_a_stopping_service_ends_waits(database: Database) -> None:
    """At once, with the screen; later requests get 503, and change nothing."""
    with skipped_waits(database):
        async with playing(database) as service:
            virtual = await create(service)
            path = f"{TERMINALS}/{virtual.id}/screen?wait=40&until=off"
            waiting = asyncio.create_task(service.request("GET", path))
            await _until_waiting(service, virtual, 1)
            service.database.signals.stop()
            reply = await asyncio.wait_for(waiting, 20)
            assert (reply.status, reply.body["screen"]) == (200, "idle")
            for late in (
                await service.request("POST", TERMINALS, {}, key=None),
                await virtual.try_to("power_off"),
                await virtual.delete(),
            ):
                assert (late.status, late.code, "Repeat" in late.body["message"]) == (503, "service_unavailable", True)
            rows = await database.read(lambda tx: tx.all("SELECT terminal_id FROM terminals"))
            assert [row[0] for row in rows] == [virtual.id]


async def test_rates_are_those_of_application_tokens(database: Database) -> None:
    """Per token, an operator's too."""
    hand = HandClock()
    settings = Settings(token_requests_per_second=10, token_requests_burst=5, bearer_failures_per_minute=6)
    rates = BearerRates(settings, ThrottleLog(), monotonic=hand)
    async with playing(database, bearer_rates=rates) as service:
        people = [await operator(service) for _ in range(2)]
        for token in (service.access_token, *(person.token for person in people)):
            statuses = [(await service.request("GET", TERMINALS, token=token)).status for _ in range(7)]
            assert statuses == [200] * 5 + [429] * 2
        guesses = [(await service.request("GET", TERMINALS, token="PDO-guessed")).status for _ in range(7)]
        assert guesses == [401] * 6 + [429]


async def test_production_has_no_virtual_terminals(database: Database) -> None:
    """No operation, no address of a page."""
    async with running(database, workers=False) as service:
        for method, path in (("GET", TERMINALS), ("POST", TERMINALS), ("GET", f"{TERMINALS}/{UNKNOWN}/screen")):
            assert (await service.request(method, path, {} if method == "POST" else None)).code == "not_found"
        await service.terminal()
        (listed,) = (await (await operator(service)).did("GET", "terminals"))["data"]
        assert "page_url" not in listed


def test_the_key_of_a_page() -> None:
    """It is one terminal's, of any server key that there is, and nothing else is valid."""
    keys = Keys(2, {1: b"a" * 32, 2: b"b" * 32})
    address = page_keys.page_url("http://127.0.0.1:8377", keys, UNKNOWN)
    found = re.fullmatch(rf"http://127\.0\.0\.1:8377/virtual/{UNKNOWN}\?key=(2-[0-9a-f]{{32}})", address)
    assert found is not None
    key = found[1]
    old = page_keys.page_url("", Keys(1, {1: b"a" * 32}), UNKNOWN).partition("key=")[2]
    assert page_keys.is_valid(keys, UNKNOWN, key)
    assert page_keys.is_valid(keys, UNKNOWN, old)
    assert not page_keys.is_valid(Keys(2, {2: b"b" * 32}), UNKNOWN, old)
    other = "PAYDESK_VIRTUAL__C2AFE1BB4D94"
    assert not page_keys.is_valid(keys, other, key)
    guesses = ["", "-", "2", "2-", "3-", "x", "\0", "\u00b2-", "\u00e9", "2-\ud800", "0" * 10_000]
    guesses += [f" {key}", f"{key} ", f"{key}0", key[:-1], key.replace("2-", "1-"), f"0{key}", f"\uff12{key[1:]}"]
    for guess in guesses:
        assert not page_keys.is_valid(keys, UNKNOWN, guess), guess
