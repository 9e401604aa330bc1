"""Print actions at the terminal: the message, when it is offered again, and the report."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from moved_time import advance
from paydesk.engine.invariants import check
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from print_scene import TEXT, print_on, report, status_of
from service import Service, running
from tables import each


@pytest.mark.on_postgres
async def test_a_terminal_fetches_prints_and_reports(service: Service) -> None:
    """A waiting poll gets the action at once; the terminal is free after its report, and the content is deleted."""
    device = await service.device(await service.terminal())
    poll = asyncio.create_task(device.next(wait=30))
    await service.polls(device.terminal)
    action_id = (await print_on(service, device.terminal)).body["id"]
    message = await poll
    assert message.body == {"type": "print", "action_id": action_id, "subtype": "custom", "content": TEXT}
    assert await status_of(service, action_id) == "on_terminal"
    assert (await device.next(wait=0)).status == 204

    for outcome in ("printed", "printed", "failed"):
        reply = await report(device, action_id, outcome)
        assert (reply.status, reply.body) == (200, {"action": {"id": action_id, "status": "processed"}})
    rows = await service.database.read(lambda tx: tx.all("SELECT content FROM print_actions"))
    assert [row[0] for row in rows] == [None]
    assert (await service.create(device.terminal)).status == 201
    assert (await device.next()).body["type"] == "order"
    assert await check.check(service.database) == []


async def test_a_failed_print_ends_the_action(service: Service) -> None:
    """As failed."""
    device = await service.device(await service.terminal())
    action_id = (await print_on(service, device.terminal)).body["id"]
    await device.next()
    assert (await report(device, action_id, "failed")).body["action"]["status"] == "failed"
    assert await status_of(service, action_id) == "failed"
    assert await check.check(service.database) == []


async def test_reports_of_one_action_at_once_end_it_once(service: Service) -> None:
    """One of them decides, all are answered alike, and no transaction waits for another for ever."""
    device = await service.device(await service.terminal())
    for _ in range(5):
        action_id = (await print_on(service, device.terminal)).body["id"]
        await device.next()
        replies = await asyncio.gather(*(report(device, action_id, outcome) for outcome in ["printed", "failed"] * 4))
        assert {reply.status for reply in replies} == {200}
        assert len({reply.raw for reply in replies}) == 1
    assert await check.check(service.database) == []


async def test_an_action_is_offered_again_without_a_report(database: Database) -> None:
    """After a time, and at once to a later start of the terminal, which may print it a second time."""
    async with running(database, settings=Settings(offer_again_seconds=50)) as service:
        device = await service.device(await service.terminal())
        action_id = (await print_on(service, device.terminal)).body["id"]
        first = await device.next()
        assert (await device.next(wait=0)).status == 204
        again = asyncio.create_task(device.next(wait=55))
        await service.polls(device.terminal)
        advance(50)
        assert (await again).body == first.body
        restarted = await service.device(device.terminal)
        assert (await restarted.next(wait=0)).body == first.body
        assert (await report(device, action_id)).code == "stale_session"
        assert (await report(restarted, action_id)).body["action"]["status"] == "processed"


async def test_an_action_waits_for_a_terminal_that_is_away(service: Service) -> None:
    """It is fetched with the first poll."""
    terminal = await service.terminal()
    action_id = (await print_on(service, terminal)).body["id"]
    device = await service.device(terminal)
    assert (await device.next()).body["action_id"] == action_id


async def test_a_report_of_anything_else_is_refused(service: Service) -> None:
    """Another terminal's, an unknown and an unfetched action do not exist; a session must be the newest."""
    device, other = [await service.device(await service.terminal()) for _ in range(2)]
    action_id = (await print_on(service, device.terminal)).body["id"]
    for reporter, reported in ((device, action_id), (other, action_id), (device, str(uuid.uuid4()))):
        reply = await report(reporter, reported)
        assert (reply.status, reply.code) == (404, "action_not_found")
    await device.next()
    reply = await report(other, action_id)
    assert (reply.status, reply.code) == (404, "action_not_found")
    reply = await report(device, action_id, boot_id=str(uuid.uuid4()))
    assert (reply.status, reply.code) == (409, "stale_session")
    reply = await report(device, action_id, "jammed")
    assert (reply.status, reply.code) == (400, "property_value")
    assert await status_of(service, action_id) == "on_terminal"


@each("malformed", ["x", "%00", "é", "' OR 1=1"])
async def test_a_malformed_id_is_refused(service: Service, malformed: str) -> None:
    """Before the database sees it."""
    device = await service.device(await service.terminal())
    reply = await report(device, malformed)
    assert (reply.status, reply.code) == (400, "invalid_path_param")


async def test_a_canceled_action_is_not_handed_out(service: Service) -> None:
    """Neither one that is canceled while the terminal polls."""
    device = await service.device(await service.terminal())
    action_id = (await print_on(service, device.terminal)).body["id"]
    assert (await service.request("POST", f"/terminals/v1/actions/{action_id}/cancel")).status == 200
    assert (await device.next(wait=0)).status == 204
