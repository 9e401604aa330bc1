"""`POST /dev/reset` removes orders with everything that depends on them, and issued tokens; what was made stays."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from acquirer_scene import card
from operator_calls import audited, operator
from paydesk.core.clock import SystemClock
from paydesk.core.faults import parse
from paydesk.engine.events.readers import Readers
from paydesk.engine.invariants import check
from paydesk.engine.payments.acquirer import Card, NotSent, Payment, Unknown
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.simulator.acquirer import Simulator
from paydesk.engine.payments.simulator.removals import REMEMBERED_MAX, Removals
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.platform.storage.database import Database
from paydesk.platform.storage.migrate import shipped
from paydesk_dev.faults.active import Faults
from paydesk_dev.reset.reset import CHANGED, EMPTIED, LOCK_ON_POSTGRES
from print_scene import print_on
from recording_database import RecordingDatabase
from reset_scene import Resettable, resettable
from service import KEYS, Service, Terminal, access_token, running
from virtual_scene import create, ended
from waiting import until, until_found

KEPT = {
    "applications": "made by operators",
    "application_secrets": "made by operators",
    "sellers": "made by operators",
    "stores": "made by operators",
    "pos": "made by operators",
    "terminal_owners": "made by operators",
    "device_tokens": "made by operators",
    "terminal_sessions": "terminals stay connected",
    "subscription_secrets": "made by operators",
    "operators": "made by operators",
    "operator_links": "made by operators",
    "operator_sessions": "operators stay signed in",
    "operator_audit": "what operators did",
    "operator_events": "what operators were alerted about",
    "attention_items": "operators are notified that what is removed is gone",
    "attention_watch": "when that is compared",
    "database_mark": "never changed",
    "clock_settings": "the clock stays",
    "authorizations": "what sellers agreed to",
    "application_events": "what sellers agreed to",
    "seller_sessions": "sellers stay signed in",
    "consent_requests": "pages that sellers look at",
    "pairings": "terminals that show a code",
}
"""The tables that a reset leaves as they are, each with the reason."""
MADE = (*(table for table in KEPT if table != "operator_audit"), "subscriptions")


@pytest.fixture
async def one(database: Database, tmp_path: Path) -> AsyncIterator[Resettable]:
    """A service with a credentials file."""
    async with resettable(database, tmp_path) as found:
        yield found


async def paid(one: Resettable) -> str:
    """Create an order and move it to processed."""
    order_id: str = (await one.service.create(await one.service.terminal())).body["id"]
    await simulate(one.service, order_id, "processed")
    return order_id


async def simulate(service: Service, order_id: str, status: str) -> None:
    """Move a test order to the status."""
    reply = await service.request("POST", f"/v1/orders/{order_id}/events", {"status": status}, key=None)
    assert reply.status == 204, reply.body


async def inbox(one: Resettable) -> list[dict[str, Any]]:
    """Return the notifications in the demo inbox."""
    data: list[dict[str, Any]] = (await one.service.request("GET", "/demo/inbox", token=None)).body["data"]
    return data


async def received(one: Resettable, count: int) -> list[dict[str, Any]]:
    """Return the notifications in the demo inbox once there are so many."""

    async def find() -> list[dict[str, Any]] | None:
        found = await inbox(one)
        return found if len(found) >= count else None

    return await until_found(find) or []


def test_every_table_is_emptied_or_kept_for_a_reason() -> None:
    """A new table must be in one of the lists."""
    script = "\n".join(migration.script for migration in shipped())
    tables = re.findall(r"^CREATE TABLE (?!\w+_new\b)(\w+)", script, re.MULTILINE)
    assert sorted(tables) == sorted((*EMPTIED, *CHANGED, *KEPT))
    locked = LOCK_ON_POSTGRES.removeprefix("LOCK TABLE ").partition(" IN ")[0].split(", ")
    assert sorted(locked) == sorted((*EMPTIED, *CHANGED))


async def test_orders_and_what_depends_on_them_are_removed(one: Resettable) -> None:
    """What was made stays, the trail names the operator, and every invariant holds."""
    await one.subscribe()
    await paid(one)
    refunded = await one.service.request("POST", f"/v1/orders/{await paid(one)}/refund", {})
    assert refunded.status == 201
    terminal = await one.service.terminal()
    printed = await print_on(one.service, terminal)
    assert printed.status == 201, printed.body
    made = await one.counts(*MADE)
    assert (await one.reset()).status == 204
    assert set((await one.counts(*EMPTIED)).values()) == {0}
    assert await one.counts(*MADE) == made
    assert (await audited(one.service))[-1].action == "dev.reset"
    assert await check.check(one.service.database) == []
    assert (await one.service.create(terminal)).status == 201


async def test_removed_order_is_unknown(one: Resettable) -> None:
    """Its idempotency key is free, and its terminal takes another order."""
    terminal, key = await one.service.terminal(), str(uuid.uuid4())
    first = (await one.service.create(terminal, key=key)).body["id"]
    assert (await one.reset()).status == 204
    assert (await one.service.request("GET", f"/v1/orders/{first}")).code == "order_not_found"
    assert (await one.service.cancel(first)).code == "order_not_found"
    second = await one.service.create(terminal, key=key)
    assert (second.status, second.body["id"] != first) == (201, True)


async def test_physical_terminal_finds_its_lease_gone(one: Resettable) -> None:
    """It gets the next order at once, in the same session."""
    device = await one.service.device(await one.service.terminal())
    first = (await one.service.create(device.terminal)).body["id"]
    assert (await device.next()).body["lease_id"] == first[3:]
    assert (await device.ack(first[3:])).status == 200
    assert (await device.authorizing(first[3:])).status == 200
    assert (await one.reset()).status == 204
    assert (await device.approve(first[3:])).code == "lease_not_found"
    assert (await device.authorizing(first[3:])).code == "lease_not_found"
    polled = asyncio.create_task(device.next(wait=20))
    await one.service.polls(device.terminal)
    second = (await one.service.create(device.terminal)).body["id"]
    assert (await polled).body["lease_id"] == second[3:]
    assert await check.check(one.service.database) == []


@pytest.mark.parametrize(("script", "shown"), [("manual", "present_card"), ("hold", "present_card")])
async def test_virtual_terminal_is_idle_in_the_middle_of_a_payment(one: Resettable, script: str, shown: str) -> None:
    """At once; its journal is empty, and it takes the next order."""
    virtual = await create(one.service, script=script)
    await virtual.order()
    await virtual.screen(shown)
    assert (await one.reset()).status == 204
    screen = await virtual.screen()
    assert (screen["screen"], screen.get("order_id")) == ("idle", None)
    second = await virtual.order()
    assert (await virtual.screen(shown))["order_id"] == second
    journal = one.file.parent / "terminals" / f"{virtual.id}.json"
    assert second[3:] in journal.read_text()
    assert journal.read_text().count('"lease_id"') == 1
    if script == "manual":
        await virtual.act("tap", card="visa_approved")
        await ended(one.service, second, "processed")
        assert await check.check(one.service.database) == []


async def test_virtual_terminal_starts_its_playlist_anew(one: Resettable) -> None:
    """The first order after a reset is the first of the script."""
    virtual = await create(one.service, script="approve:0s,decline:card_disabled:0s")
    for _ in range(2):
        await ended(one.service, await virtual.order(), "processed")
        await virtual.screen("approved")
        assert (await one.reset()).status == 204


@pytest.mark.on_postgres
async def test_virtual_terminal_that_is_off_stays_off(one: Resettable) -> None:
    """It forgets its order, too."""
    virtual = await create(one.service, script="hold")
    first = await virtual.order()
    await virtual.screen("present_card")
    await virtual.act("power_off")
    assert (await one.reset()).status == 204
    assert (await virtual.screen())["screen"] == "off"
    assert first[3:] not in (one.file.parent / "terminals" / f"{virtual.id}.json").read_text()
    await virtual.act("power_on")
    await virtual.screen("idle")


async def test_terminal_that_is_deleted_during_a_reset_stays_off(one: Resettable) -> None:
    """It is not switched on again afterwards."""
    virtual, fleet = await create(one.service, script="hold"), one.service.fleet
    assert fleet is not None
    async with fleet.reset():
        await fleet.remove(virtual.id)
    assert virtual.id not in fleet.terminals()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == f"terminal of {virtual.id}"]


async def test_terminals_go_on_if_a_reset_fails(one: Resettable) -> None:
    """With their journals."""
    virtual, fleet = await create(one.service, script="manual"), one.service.fleet
    assert fleet is not None
    order_id = await virtual.order()
    await virtual.screen("present_card")
    with pytest.raises(ZeroDivisionError):
        async with fleet.reset():
            raise ZeroDivisionError
    assert (await virtual.screen("present_card"))["order_id"] == order_id
    await virtual.act("tap", card="visa_approved")
    await ended(one.service, order_id, "processed")


async def test_only_tokens_of_the_credentials_file_stay(one: Resettable) -> None:
    """Others are refused at once, whether cached or not, and codes too."""
    service, document = one.service, one.document()
    other = await access_token(service.scene, service.clock.now_ms(), live=False)
    uncached = await access_token(service.scene, service.clock.now_ms(), live=False)
    code = await service.scene.code()
    assert (await service.request("GET", "/terminals/v1/list", token=other)).status == 200
    assert (await one.reset()).status == 204
    for token in (other, uncached):
        assert (await service.request("GET", "/terminals/v1/list", token=token)).code == "unauthorized"
    exchanged = await service.request("POST", "/oauth/token", service.scene.exchange(code), token=None, key=None)
    assert exchanged.code == "invalid_grant"
    for token in (service.access_token, service.live_access_token, document["test"]["access_token"]):
        assert (await service.request("GET", "/terminals/v1/list", token=token)).status == 200
    assert one.document() == document
    assert await check.check(service.database) == []


async def refresh(one: Resettable, refresh_token: str) -> Any:
    """Refresh with the client of the credentials file."""
    document = one.document()
    body = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": document["client_id"],
            "client_secret": document["client_secret"]}  # fmt: skip
    return await one.service.request("POST", "/oauth/token", body, token=None, key=None)


async def test_used_refresh_token_of_the_file_can_be_used_again(one: Resettable) -> None:
    """Its successors are removed: the family goes back to the tokens of the file."""
    document = one.document()
    first = await refresh(one, document["test"]["refresh_token"])
    second = await refresh(one, first.body["refresh_token"])
    assert (first.status, second.status) == (200, 200)
    assert (await one.reset()).status == 204
    assert one.document() == document
    for token in (first.body["access_token"], second.body["access_token"]):
        assert (await one.service.request("GET", "/terminals/v1/list", token=token)).code == "unauthorized"
    assert (await refresh(one, second.body["refresh_token"])).code == "invalid_grant"
    assert await check.check(one.service.database) == []
    assert (await refresh(one, document["test"]["refresh_token"])).status == 200
    assert await check.check(one.service.database) == []


async def test_revoked_tokens_of_the_file_are_replaced(one: Resettable) -> None:
    """After a reset the file has valid tokens."""
    document = one.document()
    for grant in (await one.owner.did("GET", "grants"))["data"]:
        if grant["client_id"] == document["client_id"]:
            assert (await one.owner.ask("DELETE", f"grants/{grant['id']}")).status == 204
    assert (await one.reset()).status == 204
    renewed = one.document()
    assert renewed["test"] != document["test"]
    assert {**renewed, "test": None, "live": None} == {**document, "test": None, "live": None}
    for mode in ("test", "live"):
        token = renewed[mode]["access_token"]
        assert (await one.service.request("GET", "/terminals/v1/list", token=token)).status == 200


async def test_cursors_from_before_stay_valid(one: Resettable) -> None:
    """They get no events at first, then the new ones, each once and in order."""
    await paid(one)
    pages = [(await one.service.request("GET", "/v1/events")).body]
    assert len(pages[0]["data"]) == 3
    await paid(one)
    assert (await one.reset()).status == 204
    for cursor in (f"?after={pages[0]['next']}", ""):
        page = await one.service.request("GET", f"/v1/events{cursor}")
        assert (page.status, page.body["data"]) == (200, [])
    waiting = asyncio.create_task(one.service.request("GET", f"/v1/events?after={pages[0]['next']}&wait=20"))
    await until(lambda: one.service.shared.objects[Readers].requests_waiting == 1)
    order_id = await paid(one)
    assert (await waiting).body["data"][0]["data"]["id"] == order_id
    page = await one.service.request("GET", f"/v1/events?after={pages[0]['next']}")
    assert [event["data"]["version"] for event in page.body["data"]] == [1, 2, 3]
    assert await check.check(one.service.database) == []
    assert (await one.reset()).status == 204
    assert (await one.reset()).status == 204
    assert await check.check(one.service.database) == []
    page = await one.service.request("GET", f"/v1/events?after={page.body['next']}")
    assert (page.status, page.body["data"]) == (200, [])


@pytest.mark.on_postgres
async def test_deliveries_about_authorizations_stay(one: Resettable) -> None:
    """With their attempts."""
    service, url = one.service, f"{one.service.base_url}/demo/inbox"
    application_id = service.scene.application.application_id
    await service.database.write(
        lambda tx: subscriptions.create(
            tx, KEYS, application_id=application_id, live=False, url=url, actions=(), now_ms=0, topic="mp-connect"
        )
    )
    await one.subscribe()
    await service.scene.code()
    await paid(one)
    assert len(await received(one, 4)) == 4
    assert (await one.reset()).status == 204
    assert await inbox(one) == []
    assert await service.scene.value("SELECT COUNT(*) FROM deliveries WHERE order_id LIKE 'ORD%'") == 0
    assert await service.scene.value("SELECT COUNT(*) FROM deliveries") == 1
    assert await check.check(service.database) == []


async def test_clock_stays(one: Resettable) -> None:
    """Frozen and advanced."""
    for move in ({"freeze": True}, {"advance": "3h"}):
        moved = await one.service.request("POST", "/dev/clock", move, token=one.owner.token, key=None)
    assert (await one.reset()).status == 204
    shown = await one.service.request("GET", "/dev/clock", token=one.owner.token)
    assert (shown.body["now"], shown.body["frozen"]) == (moved.body["now"], True)


@pytest.mark.on_postgres
async def test_virtual_terminals_are_removed_on_request(one: Resettable, tmp_path: Path) -> None:
    """With `terminals`: those with a point of sale of their own, and it; any other stays and takes an order."""
    service = one.service
    before = await one.counts("pos", "terminals")
    made = [await create(service) for _ in range(2)]
    await made[0].order()
    shop = await one.owner.did("POST", "stores", {"seller_id": service.seller_id, "name": "Shop"})
    pos = await one.owner.did(
        "POST", "pos", {"seller_id": service.seller_id, "store_id": shop["store_id"], "external_pos_id": "TILL"}
    )
    placed = await one.owner.did("POST", "terminals", {"seller_id": service.seller_id, "pos_id": pos["pos_id"]})
    assert (await one.reset({"terminals": True})).status == 204
    after = {table: count + 1 for table, count in before.items()}
    assert await one.counts("pos", "terminals") == after
    assert service.fleet is not None
    assert service.fleet.terminals() == (placed["id"],)
    assert [path.stem for path in (tmp_path / "terminals").iterdir()] == [placed["id"]]
    assert (await service.request("GET", f"/virtual/v1/terminals/{made[1].id}/screen")).code == "terminal_not_found"
    order = await service.create(Terminal(placed["id"], ""))
    assert order.status == 201
    await ended(service, order.body["id"], "processed")


async def test_invalid_reset_changes_nothing(one: Resettable) -> None:
    """The body is an empty object; the role support may not reset, and an application's token is refused."""
    order_id = await paid(one)
    for body, code in (({"all": True}, "unsupported_properties"), ([], "property_type"), ("x", "property_type")):
        reply = await one.service.request("POST", "/dev/reset", body, token=one.owner.token, key=None)
        assert (reply.status, reply.code) == (400, code)
    support = await operator(one.service, "support")
    for token, status in ((support.token, 403), (one.service.access_token, 401), (None, 401)):
        assert (await one.service.request("POST", "/dev/reset", {}, token=token, key=None)).status == status
    assert (await one.service.get(order_id))["status"] == "processed"


async def test_reset_is_absent_in_production(database: Database) -> None:
    """Like the other operations of development."""
    async with running(database, workers=False) as service:
        owner = await operator(service)
        reply = await service.request("POST", "/dev/reset", {}, token=owner.token, key=None)
        assert (reply.status, reply.code) == (404, "not_found")


async def test_acquirer_charges_nothing_for_a_removed_order(database: Database) -> None:
    """Whatever the request, also one that has begun before; the ledger stays as it is."""
    removals, payment = Removals(), Payment(1, "T", "PAY01J67CQQH5904WDBVZEM4JMEP3", 100, "BRL")
    simulator = Simulator(database, SystemClock(), removals=removals)
    shown = Card("visa", "credit_card", "503175", "6351", "contactless")
    removals.remember(["ORD01J67CQQH5904WDBVZEM4JMEP3"])
    for request in (
        simulator.authorize(payment, shown),
        simulator.refund(payment, key="REF1", amount_minor=1),
        simulator.confirm(payment, key="CNF1", reference_id="1"),
        simulator.reverse(payment, key="REV1", amount_minor=1),
        simulator.inquire(payment),
    ):
        assert isinstance(await request, NotSent)
    rows = "SELECT (SELECT COUNT(*) FROM simulator_payments) + (SELECT COUNT(*) FROM simulator_movements)"
    ((count,),) = await database.read(lambda tx: tx.all(rows))
    assert count == 0


@pytest.mark.on_postgres
async def test_held_payment_of_an_ended_order_never_arrives(one: Resettable) -> None:
    """It would be an approval of no order."""
    objects, terminal = one.service.shared.objects, await one.service.terminal()
    order_id = (await one.service.create(terminal)).body["id"]
    await simulate(one.service, order_id, "failed")
    late = objects[Faults].add(parse(f"acquirer payment late order={order_id}"), 0)
    simulator, payment_id = objects[Acquirers].test, f"PAY{order_id[3:]}"
    assert simulator is not None
    payment = Payment(one.service.seller_id, terminal.id, payment_id, 2490, "BRL")
    asking = asyncio.ensure_future(simulator.authorize(payment, card()))
    assert await objects[Faults].until(lambda: late.fired == 1, 30)
    assert (await one.reset()).status == 204
    assert isinstance(await asking, Unknown)
    assert await one.counts("simulator_payments") == {"simulator_payments": 0}


def test_remembered_orders_are_bounded() -> None:
    """The oldest are forgotten."""
    removals = Removals()
    removals.remember(map(str, range(REMEMBERED_MAX + 5)))
    assert [removals.has_removed(one) for one in ("4", "5", str(REMEMBERED_MAX + 4))] == [False, True, True]


@pytest.mark.on_postgres
async def test_notification_of_a_removed_order_is_not_kept(one: Resettable) -> None:
    """One that was being sent during the reset is answered, and dropped."""
    await one.subscribe()
    order_id = (await one.service.create(await one.service.terminal())).body["id"]
    (first,) = await received(one, 1)
    assert (await one.reset()).status == 204
    again = await one.service.request("POST", "/demo/inbox", first["body"], token=None, key=None)
    assert (again.status, first["order_id"]) == (200, order_id)
    assert await inbox(one) == []
    other = {**first["body"], "data": {"id": "ORD01J67CQQH5904WDBVZEM4JMEP3"}}
    await one.service.request("POST", "/demo/inbox", other, token=None, key=None)
    assert len(await inbox(one)) == 1


async def test_reset_asks_the_database_as_often_for_many_orders_as_for_one(database: Database, tmp_path: Path) -> None:
    """Every table is emptied by one statement, so a reset of thousands of orders takes milliseconds."""
    recording = RecordingDatabase(database)
    async with resettable(recording, tmp_path, workers=False) as one:
        await one.subscribe()
        sent = []
        for orders in (1, 20):
            for _ in range(orders):
                await paid(one)
            recording.sent = 0
            assert (await one.reset()).status == 204
            sent.append(recording.sent)
            assert await one.counts("orders", "deliveries") == {"orders": 0, "deliveries": 0}
        assert sent[0] == sent[1]
