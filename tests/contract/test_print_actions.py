"""Print actions of applications: create, get and cancel, what is refused, and what holds the terminal."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from accounts import other_application, other_seller
from operator_calls import audited, operator
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.engine.printing import expiry
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from print_scene import PATH, TEXT, action_body, in_base64, jpeg, png, print_on, report, status_of
from service import KEYS, Reply, Service, order_body, running
from tables import each

OCCUPIED = (409, "already_queued_order_on_terminal")
LIFETIME_MS = 900_000


async def contents(service: Service) -> list[str | None]:
    """Return the stored contents of all print actions."""
    rows = await service.database.read(lambda tx: tx.all("SELECT content FROM print_actions ORDER BY created_ms"))
    return [row[0] for row in rows]


def refusal(reply: Reply) -> tuple[int, str]:
    """Return the status and the code."""
    return reply.status, reply.code


async def test_create_returns_the_action_without_its_content(service: Service) -> None:
    """So does every later answer; ids are matched in any case."""
    terminal = await service.terminal()
    created = await print_on(service, terminal)
    assert created.status == 201
    date = created.body["created_date"]
    assert created.body == {
        "id": str(uuid.UUID(created.body["id"])),
        "type": "print",
        "external_reference": "coupon_1234",
        "status": "created",
        "config": {"point": {"terminal_id": terminal.id, "subtype": "custom"}},
        "created_date": date,
        "last_updated_date": date,
    }
    for action_id in (created.body["id"], created.body["id"].upper()):
        assert (await service.request("GET", f"{PATH}/{action_id}")).body == created.body
    assert await contents(service) == [TEXT]
    assert await check.check(service.database) == []


@pytest.mark.parametrize("image", [png(576, 400), jpeg(576, 400)], ids=["png", "jpeg"])
async def test_an_image_is_printed_as_it_was_sent(service: Service, image: bytes) -> None:
    """The terminal gets the same base64."""
    device = await service.device(await service.terminal())
    created = await service.request("POST", PATH, action_body(device.terminal.id, in_base64(image), "image"))
    assert created.status == 201, created
    assert (await device.next()).body == {
        "type": "print",
        "action_id": created.body["id"],
        "subtype": "image",
        "content": in_base64(image),
    }


BROKEN_RULES: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"type": "scan"}, "property_value", "$.type"),
    ({"external_reference": None}, "property_type", "$.external_reference"),
    ({"external_reference": "a b"}, "property_value", "$.external_reference"),
    ({"content": "x" * 99}, "property_value", "$.content' - must have 100 to 4096 characters"),
    ({"content": "x" * 4_097}, "property_value", "$.content' - must have 100 to 4096 characters"),
    ({"content": "x" * 100 + "\n"}, "property_value", "$.content' - must not contain control characters"),
    ({"content": TEXT + "{u}x{/u}"}, "property_value", f"the tag {{u}} at character {len(TEXT) + 1} is unknown"),
    ({"content": TEXT + "{b}x"}, "property_value", f"the tag {{b}} at character {len(TEXT) + 1} is not closed"),
    ({"content": TEXT + "4509 9535 6623 3704"}, "property_value", "$.content' - must not contain a card number"),
    ({"content": TEXT + "{b}45099535{/b}66233704"}, "property_value", "must not contain a card number"),
    ({"content": TEXT + "{4509953566233704}"}, "property_value", "the tag {***} at character"),
    ({"content": 1}, "property_type", "$.content"),
    ({"surprise": 1}, "unsupported_properties", "$.surprise"),
    ({"config": {"point": {"terminal_id": "T"}}}, "required_properties", "$.config.point.subtype"),
    ({"config": {"point": {"terminal_id": "T", "subtype": "invoice"}}}, "property_value", "$.config.point.subtype"),
    ({"config": {"point": {"terminal_id": "T", "subtype": "image"}}}, "property_value", "must be an image in base64"),
)


@each("change, code, detail", BROKEN_RULES)
async def test_an_invalid_field_is_refused_with_its_rule(
    service: Service, change: dict[str, Any], code: str, detail: str
) -> None:
    """Nothing is created, and no card number is in the answer."""
    body = action_body((await service.terminal()).id)
    reply = await service.request("POST", PATH, {**body, **change})
    assert refusal(reply) == (400, code), reply.body
    assert len(reply.details) == 1
    assert detail in reply.details[0]
    assert b"66233704" not in reply.raw
    assert await contents(service) == []


async def test_a_missing_field_is_refused(service: Service) -> None:
    """Every field is required."""
    body = action_body((await service.terminal()).id)
    for name in body:
        reply = await service.request("POST", PATH, {key: value for key, value in body.items() if key != name})
        assert refusal(reply) == (400, "required_properties")
        assert f"$.{name}'" in reply.details[0]


async def test_an_image_of_many_pixels_is_refused_with_the_bounds(service: Service) -> None:
    """Before a pixel is decoded."""
    content = in_base64(png(10_000, 10_000, pixels=b""))
    reply = await service.request("POST", PATH, action_body((await service.terminal()).id, content, "image"))
    assert refusal(reply) == (400, "property_value")
    assert reply.details == ["'$.content' - must be at most 1,000 pixels wide and 5,000 high, but is 10,000 by 10,000"]


async def test_a_terminal_that_takes_no_orders_takes_no_action(service: Service) -> None:
    """Of another seller or mode it does not exist; in another operating mode it is refused."""
    other = await other_seller(service)
    for terminal in (await service.terminal(live=True), await other.terminal()):
        assert refusal(await print_on(service, terminal)) == (404, "terminal_not_found")
    for mode in ("STANDALONE", "UNDEFINED"):
        terminal = await service.terminal(mode=mode)
        assert refusal(await print_on(service, terminal)) == (409, "terminal_not_in_pdv_mode")
    terminal = await service.terminal(mode="SELF_SERVICE")
    assert (await print_on(service, terminal)).status == 201


async def test_live_and_test_and_sellers_never_meet(service: Service) -> None:
    """Another application of the seller sees the action; a live token and another seller do not."""
    action_id = (await print_on(service, await service.terminal())).body["id"]
    other = await other_seller(service)
    for token in (service.live_access_token, other.access_token):
        for method, path in (("GET", f"{PATH}/{action_id}"), ("POST", f"{PATH}/{action_id}/cancel")):
            assert refusal(await service.request(method, path, token=token)) == (404, "action_not_found")
    assert refusal(await service.request("GET", f"{PATH}/{uuid.uuid4()}")) == (404, "action_not_found")
    assert refusal(await service.request("GET", f"{PATH}/4711")) == (400, "invalid_path_param")
    application = await other_application(service)
    assert (await service.request("GET", f"{PATH}/{action_id}", token=application.access_token)).status == 200


async def test_one_key_makes_one_action(service: Service) -> None:
    """A repeated request gets the same answer; the key of another request is refused."""
    terminal = await service.terminal()
    replies = await asyncio.gather(*(print_on(service, terminal, key="once") for _ in range(8)))
    assert {reply.status for reply in replies} == {201}
    assert len({reply.raw for reply in replies}) == 1
    assert len(await contents(service)) == 1
    other = await print_on(service, terminal, TEXT + "!", key="once")
    assert refusal(other) == (409, "idempotency_key_already_used")


async def test_cancel_ends_an_action_that_was_not_fetched(service: Service) -> None:
    """Its content is deleted; a second cancel and one of a fetched action are refused."""
    device = await service.device(await service.terminal())
    action_id = (await print_on(service, device.terminal)).body["id"]
    canceled = await service.request("POST", f"{PATH}/{action_id}/cancel", key="c")
    assert (canceled.status, canceled.body["status"]) == (200, "canceled")
    assert (await service.request("POST", f"{PATH}/{action_id}/cancel", key="c")).raw == canceled.raw
    assert await contents(service) == [None]
    again = await service.request("POST", f"{PATH}/{action_id}/cancel")
    assert refusal(again) == (409, "cannot_cancel_action")
    assert again.details == ["the action is canceled"]
    action_id = (await print_on(service, device.terminal)).body["id"]
    assert (await device.next()).body["action_id"] == action_id
    fetched = await service.request("POST", f"{PATH}/{action_id}/cancel")
    assert (refusal(fetched), fetched.details) == ((409, "cannot_cancel_action"), ["the action is on_terminal"])
    assert await check.check(service.database) == []


async def test_an_order_and_an_action_exclude_each_other(service: Service) -> None:
    """The details name the order or action that holds the terminal, if it is of the same application."""
    terminal = await service.terminal()
    action_id = (await print_on(service, terminal)).body["id"]
    for reply in (await service.create(terminal), await print_on(service, terminal)):
        assert refusal(reply) == OCCUPIED
        (detail,) = reply.details
        assert detail.startswith(f"the print action {action_id} is created on this terminal; ")
        assert detail.endswith(f"POST {PATH}/{action_id}/cancel")
    application = await other_application(service)
    foreign = await service.request("POST", "/v1/orders", order_body(terminal.id), token=application.access_token)
    assert (refusal(foreign), action_id.encode() in foreign.raw) == (OCCUPIED, False)
    assert (await service.request("POST", f"{PATH}/{action_id}/cancel")).status == 200

    order_id = (await service.create(terminal)).body["id"]
    refused = await print_on(service, terminal)
    assert refusal(refused) == OCCUPIED
    assert refused.details[0].startswith(f"{order_id} is created on this terminal; ")
    assert (await service.cancel(order_id)).status == 200
    assert (await print_on(service, terminal)).status == 201
    assert await check.check(service.database) == []


async def test_an_overdue_action_is_expired_first(database: Database, clock: MovableClock) -> None:
    """Without a worker: to an order, to another action, and to a cancel, which is refused."""
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        terminal = await service.terminal()
        for follow in (service.create, print_on):
            action_id = (await print_on(service, terminal)).body["id"]
            clock.advance(LIFETIME_MS - 1)
            occupied = await (service.create(terminal) if follow == service.create else print_on(service, terminal))
            assert refusal(occupied) == OCCUPIED
            clock.advance(1)
            made = await (service.create(terminal) if follow == service.create else print_on(service, terminal))
            assert made.status == 201
            assert await status_of(service, action_id) == "canceled"
            if follow == service.create:
                assert (await service.cancel(made.body["id"])).status == 200
        clock.advance(LIFETIME_MS)
        late = await service.request("POST", f"{PATH}/{made.body['id']}/cancel")
        assert refusal(late) == (409, "cannot_cancel_action")
        assert await status_of(service, made.body["id"]) == "canceled"
        assert set(await contents(service)) == {None}
        assert await check.check(database) == []


async def test_an_overdue_order_gives_way_to_an_action(database: Database, clock: MovableClock) -> None:
    """It is expired in the same transaction."""
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        terminal = await service.terminal()
        order_id = (await service.create(terminal, expiration_time="PT30S")).body["id"]
        clock.advance(30_000)
        assert (await print_on(service, terminal)).status == 201
        order = await service.get(order_id)
        assert (order["status"], order["status_detail"]) == ("canceled", "expired")
        assert await check.check(database) == []


@pytest.mark.on_postgres
async def test_the_worker_cancels_overdue_actions(database: Database, clock: MovableClock) -> None:
    """Created ones and fetched ones, on terminals that are away; their contents are deleted."""
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        away, device = await service.terminal(), await service.device(await service.terminal())
        created = (await print_on(service, away)).body["id"]
        fetched = (await print_on(service, device.terminal)).body["id"]
        assert (await device.next()).body["action_id"] == fetched
        worker = WorkerContext(database, Settings(), clock, KEYS)
        assert await expiry.step(worker) == 0
        clock.advance(LIFETIME_MS)
        assert await expiry.step(worker) == 2
        assert [await status_of(service, action_id) for action_id in (created, fetched)] == ["canceled"] * 2
        assert await contents(service) == [None, None]
        assert await expiry.step(worker) == 0
        assert (await report(device, fetched)).body["action"] == {"id": fetched, "status": "canceled"}
        assert (await device.next(wait=0)).status == 204
        assert await check.check(database) == []


@pytest.mark.on_postgres
async def test_an_action_holds_its_terminal_for_operators(service: Service) -> None:
    """The queue shows it; mode, place and token stay; a release cancels it, also at the terminal."""
    person, device = await operator(service), await service.device(await service.terminal())
    terminal_id = device.terminal.id
    for status, waits_for in (("created", "fetch"), ("on_terminal", "printing")):
        action = (await print_on(service, device.terminal)).body
        if status == "on_terminal":
            assert (await device.next()).status == 200
        current = (await person.did("GET", f"terminals/{terminal_id}/queue"))["current"]
        about = {"type": "print", "id": action["id"], "status": status, "waits_for": waits_for}
        assert about.items() <= current.items()
        assert current["application_id"] == str(service.scene.application.application_id)
        assert current["until_date"] in current["message"]
        change = await person.ask("PATCH", f"terminals/{terminal_id}", {"operating_mode": "STANDALONE"})
        assert refusal(change) == (409, "terminal_busy")
        assert action["id"] in change.details[0]
        assert await person.refused("DELETE", f"terminals/{terminal_id}") == (409, "in_use")
        body = {"terminals": [{"id": terminal_id, "operating_mode": "STANDALONE"}]}
        busy = await service.request("PATCH", "/terminals/v1/setup", body)
        expected = "'$.terminals[0]' - has a print action; wait for it to end, or cancel it"
        assert (refusal(busy), busy.details) == ((409, "terminal_busy"), [expected])

        released = await person.did("POST", f"terminals/{terminal_id}/release", {"reason": "The printer is broken."})
        assert released == {"released": {"type": "print", "id": action["id"], "status": "canceled"}}
        assert await status_of(service, action["id"]) == "canceled"
        entry = (await audited(service))[-1]
        assert (entry.action, entry.before["status"], entry.after["status"]) == (
            "terminals.release",
            status,
            "canceled",
        )
        assert await person.did("GET", f"terminals/{terminal_id}/queue") == {}
    assert await contents(service) == [None, None]
    assert await person.did("POST", f"terminals/{terminal_id}/release", {"reason": "Again."}) == {}
    assert await check.check(service.database) == []
