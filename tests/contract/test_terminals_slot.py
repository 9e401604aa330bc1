"""A terminal's slot: what holds it, its release by an operator, and the times of an order."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from device_scene import Desk, answered, new_boot, open_desk
from jobs_scene import FakeAcquirer
from operator_calls import Operator, audited, operator
from paydesk.core.clock import MovableClock
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from resolving_scene import scene, typed, unknown
from service import Device, Service, running
from waiting import HANGS_SECONDS

BROKEN = {"reason": "The terminal is broken."}
CANCEL = {"X-Allow-Cancelable-Status": "at_terminal"}


def later(date: str, seconds: int) -> str:
    """Return the date so much later."""
    moved = datetime.fromisoformat(date) + timedelta(seconds=seconds)
    return moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def slot(person: Operator, device: Device) -> dict[str, Any]:
    """Return what holds the terminal."""
    current: dict[str, Any] = (await person.did("GET", f"terminals/{device.terminal.id}/queue"))["current"]
    return current


async def test_the_slot_says_what_it_waits_for_and_until_when(database: Database, clock: MovableClock) -> None:
    """From the creation of an order to its end; afterwards the terminal is free."""
    async with scene(database, clock, FakeAcquirer()) as (service, device, person):
        assert await person.did("GET", f"terminals/{device.terminal.id}/queue") == {}
        order = (await service.create(device.terminal)).body
        now = order["created_date"]
        current = await slot(person, device)
        about = {"type": "order", "id": order["id"], "application_id": str(service.scene.application.application_id)}
        assert about.items() <= current.items()
        assert (current["status"], current["since_date"]) == ("created", now)
        assert (current["waits_for"], current["until_date"]) == ("acknowledgement", later(now, 900))
        assert current["terminal_presence"] == "offline"
        assert current["until_date"] in current["message"]

        await device.ack(order["id"][3:])
        current = await slot(person, device)
        assert (current["waits_for"], current["until_date"]) == ("payment", later(now, 900))
        assert (await service.cancel(order["id"], headers=CANCEL)).status == 202
        current = await slot(person, device)
        assert (current["waits_for"], current["until_date"]) == ("cancel_answer", later(now, 30))
        await device.post(f"/leases/{order['id'][3:]}/cancel-result", {"boot_id": device.boot_id, "done": True})
        assert await person.did("GET", f"terminals/{device.terminal.id}/queue") == {}


@pytest.mark.on_postgres
async def test_the_slot_of_a_permitted_order(database: Database, clock: MovableClock) -> None:
    """It waits for the result, then for the acquirer: with the next inquiry, and when not found counts."""
    async with scene(database, clock, FakeAcquirer()) as (service, device, person):
        order = (await service.create(device.terminal)).body
        now, lease_id = order["created_date"], order["id"][3:]
        await device.ack(lease_id)
        await device.authorizing(lease_id)
        current = await slot(person, device)
        assert (current["waits_for"], current["until_date"]) == ("result", later(now, 40))
        await device.result(lease_id, outcome="unknown")
        async with asyncio.timeout(HANGS_SECONDS):
            while (current := await slot(person, device))["next_date"] == now:  # noqa: ASYNC110 - the worker asks at once
                await asyncio.sleep(0.02)
        assert current["waits_for"] == "inquiry"
        assert current["reason"]
        assert current["not_found_date"] == later(now, 120)
        assert current["resolvable_date"] == later(now, 180)
        assert "until_date" not in current


@pytest.mark.on_postgres
async def test_without_an_acquirer_the_slot_waits_for_an_operator(database: Database, clock: MovableClock) -> None:
    """From the time at which the order can be resolved."""
    async with scene(database, clock, None) as (service, device, person):
        order_id = await unknown(service, device)
        current = await slot(person, device)
        assert (current["waits_for"], current["status"]) == ("operator", "at_terminal")
        order = await person.did("GET", f"orders/{order_id}")
        assert current["resolvable_date"] == later(order["last_updated_date"], 180)


async def test_release_cancels_a_created_order(service: Service) -> None:
    """The history and the audit trail say so; the terminal takes the next order."""
    terminal, person = await service.terminal(), await operator(service, "operator")
    order_id = (await service.create(terminal)).body["id"]
    released = await person.did("POST", f"terminals/{terminal.id}/release", BROKEN)
    assert released == {"released": {"type": "order", "id": order_id, "status": "canceled"}}
    order = await person.did("GET", f"orders/{order_id}")
    assert order["transactions"]["payments"][0]["status_detail"] == "canceled_by_api"
    assert [event["move"] for event in order["events"]] == ["create", "release"]
    (line,) = await audited(service)
    assert (line.operator_id, line.action, line.subject) == (person.operator_id, "terminals.release", terminal.id)
    assert line.before == {"order_id": order_id, "status": "created", "version": 1}
    assert line.after == {"order_id": order_id, "status": "canceled", "version": 2, **BROKEN}
    assert (await service.create(terminal)).status == 201


@pytest.mark.parametrize("cancel_requested", [False, True])
async def test_release_before_the_permit_detaches_the_order(service: Service, cancel_requested: bool) -> None:  # noqa: FBT001
    """The terminal gets `cancel`, and no permit."""
    terminal, person = await service.terminal(), await operator(service, "owner")
    device = await service.device(terminal)
    order_id = (await service.create(terminal)).body["id"]
    assert (await device.next()).body["type"] == "order"
    assert (await device.ack(order_id[3:])).status == 200
    if cancel_requested:
        assert (await service.cancel(order_id, headers=CANCEL)).status == 202
    poll = asyncio.create_task(device.next(wait=20))
    released = await person.did("POST", f"terminals/{terminal.id}/release", BROKEN)
    assert released["released"]["id"] == order_id
    message = (await poll).body
    assert (message["type"], message["lease_id"]) == ("cancel", order_id[3:])
    assert (await device.authorizing(order_id[3:])).code == "order_canceled"
    assert (await service.create(terminal)).status == 201
    late = await device.approve(order_id[3:])
    assert (late.status, late.body["recorded"]) == (409, True)
    assert (await service.get(order_id))["status"] == "canceled"


async def test_release_after_the_permit_is_refused(service: Service) -> None:
    """The error says what the order waits for and until when; nothing changes and nothing is audited."""
    terminal, person = await service.terminal(), await operator(service, "operator")
    device = await service.device(terminal)
    order_id = (await service.create(terminal)).body["id"]
    await device.ack(order_id[3:])
    await device.authorizing(order_id[3:])
    reply = await person.ask("POST", f"terminals/{terminal.id}/release", BROKEN)
    assert (reply.status, reply.code) == (409, "cannot_release_terminal")
    (detail,) = reply.details
    assert order_id in detail
    assert (await slot(person, device))["until_date"] in detail
    await device.result(order_id[3:], outcome="unknown")
    assert (await person.ask("POST", f"terminals/{terminal.id}/release", BROKEN)).status == 409
    assert await audited(service) == []
    assert (await service.get(order_id))["status"] == "at_terminal"


async def test_release_without_an_order_changes_nothing(database: Database, clock: MovableClock) -> None:
    """An overdue order expires first, as everywhere."""
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        terminal, person = await service.terminal(), await operator(service, "operator")
        path = f"terminals/{terminal.id}/release"
        assert await person.did("POST", path, BROKEN) == {}
        order_id = (await service.create(terminal, expiration_time="PT30S")).body["id"]
        clock.advance(30_000)
        assert await person.did("POST", path, BROKEN) == {}
        assert (await service.get(order_id))["status_detail"] == "expired"
        assert await audited(service) == []


async def test_who_may_release(service: Service) -> None:
    """Not the role `support`; a reason is required; an unknown terminal is 404, the case of its serial counts."""
    terminal, support = await service.terminal(), await operator(service, "support")
    person = await operator(service, "operator")
    path = f"terminals/{terminal.id}/release"
    assert await support.refused("POST", path, BROKEN) == (403, "forbidden")
    assert (await support.did("GET", f"terminals/{terminal.id}/queue")) == {}
    assert await person.refused("POST", path, {}) == (400, "minimum_properties")
    assert await person.refused("POST", path, {"reason": " "}) == (400, "property_value")
    unknown_id = terminal.id.replace("F", "f") + "x"
    assert await person.refused("GET", f"terminals/{unknown_id}/queue") == (404, "terminal_not_found")
    assert await person.refused("GET", "terminals/NEWLAND/queue") == (400, "invalid_path_param")


async def test_the_command_line_shows_and_releases(service: Service, tmp_path: Path) -> None:
    """In words, with the command that frees the terminal; exit code 1 once the card may be charged."""
    terminal, person = await service.terminal(), await operator(service, "operator")
    words = "terminals", "release", terminal.id, "--reason", "The terminal is broken."
    assert await typed(person, tmp_path, "terminals", "queue", terminal.id) == (
        f"{terminal.id} is free: no order and no print action holds it.\n"
    )
    order_id = (await service.create(terminal)).body["id"]
    shown = await typed(person, tmp_path, "terminals", "queue", terminal.id)
    assert f"{order_id} holds {terminal.id}: created since " in shown
    assert "The terminal is offline, never seen.\n" in shown
    assert f"paydesk terminals release {terminal.id} --reason" in shown
    listed = await typed(person, tmp_path, "terminals", "list")
    assert listed.split("\t")[:4] == [terminal.id, "offline", f"{order_id} created", "PDV"]
    assert await typed(person, tmp_path, *words) == (
        f"{order_id} is canceled.\n{terminal.id} is free: no order and no print action holds it.\n"
    )
    assert await typed(person, tmp_path, *words, "--json") == "{}\n"
    device = await service.device(terminal)
    lease_id = (await service.create(terminal)).body["id"][3:]
    await device.ack(lease_id)
    await device.authorizing(lease_id)
    refused = await typed(person, tmp_path, *words)
    assert refused.startswith("1: ")
    assert "(cannot_release_terminal)" in refused
    shown = await typed(person, tmp_path, "terminals", "queue", terminal.id)
    assert "cannot be released now" in shown
    await device.result(lease_id, outcome="unknown")
    assert "paydesk orders resolve ORD" in await typed(person, tmp_path, "terminals", "queue", terminal.id)


async def test_an_order_shows_its_times(service: Service, tmp_path: Path) -> None:
    """Created, offered, acknowledged, permitted and ended; those it has not reached are absent."""
    terminal, person = await service.terminal(), await operator(service, "support")
    device = await service.device(terminal)
    order_id = (await service.create(terminal)).body["id"]

    async def times() -> dict[str, str]:
        shown: dict[str, str] = (await person.did("GET", f"orders/{order_id}"))["times"]
        return shown

    assert list(await times()) == ["created_date"]
    assert (await device.next()).body["type"] == "order"
    assert list(await times()) == ["created_date"]
    await device.ack(order_id[3:])
    assert list(await times()) == ["created_date", "offered_date", "acknowledged_date"]
    await device.authorizing(order_id[3:])
    assert (await device.approve(order_id[3:])).status == 200
    shown = await times()
    assert list(shown) == ["created_date", "offered_date", "acknowledged_date", "permitted_date", "ended_date"]
    assert list(shown.values()) == sorted(shown.values())
    events = (await person.did("GET", f"orders/{order_id}"))["events"]
    assert [shown["created_date"], shown["acknowledged_date"], shown["ended_date"]] == [
        event["created_date"] for event in events
    ]
    printed = await typed(person, tmp_path, "orders", "get", order_id)
    assert ["offered_date", shown["offered_date"]] in [line.split() for line in printed.splitlines()]


async def test_offered_is_the_first_offer(database: Database) -> None:
    """An offer that is repeated, in another session too, keeps its time."""
    desk = await _settled_desk(database)
    order = await desk.order()
    first_ms = desk.clock.now_ms()
    answered(await desk.next())
    for boot_id in (desk.boot_id, new_boot()):
        desk.clock.advance(5000)
        answered(await desk.hello(boot_id=boot_id))
        await desk.next()
    answered(await desk.acknowledge(order))
    assert await desk.rows("SELECT offered_ms, acknowledged_ms FROM leases") == [(first_ms, first_ms + 10_000)]


async def test_offered_is_absent_if_another_node_offered(database: Database) -> None:
    """Only the node that handed out the offer knows when."""
    desk = await _settled_desk(database)
    order = await desk.order()
    answered(await desk.acknowledge(order))
    assert [tuple(row) for row in await desk.rows("SELECT offered_ms FROM leases")] == [(None,)]


async def _settled_desk(database: Database) -> Desk:
    desk = await open_desk(database)
    desk.settings = Settings()
    answered(await desk.hello())
    return desk
