"""Webhook faults over HTTP: set, shown, cleared, and what an application's receiver gets."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from aiohttp import web

import webhooks_scene as scene
from every_operation import API
from faulty_database import FaultyDatabase
from moved_time import advance
from operator_calls import Operator, audited, operator
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, T, Work
from paydesk.service.api import OWN
from paydesk_dev.faults import held_answers
from paydesk_dev.faults import store as fault_store
from paydesk_dev.faults.kinds import KINDS, Fault
from service import Reply, Service, Terminal, running
from tables import each
from virtual_scene import create, ended, playing
from waiting import until, until_found

URL = "http://127.0.0.1:9/hooks"
UNKNOWN = "0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51"


@pytest.fixture
async def development(database: Database) -> AsyncIterator[Service]:
    """A service for development."""
    async with running(database, development=True) as service:
        yield service


async def subscribed(owner: Operator, url: str = URL, **fields: Any) -> str:
    """Subscribe the service's application; return the subscription's id."""
    client_id = owner.service.scene.application.application_id
    made = await owner.did("POST", "subscriptions", {"client_id": client_id, "url": url, **fields})
    return str(made["id"])


async def set_fault(owner: Operator, subscription_id: str, kind: str, **fields: Any) -> dict[str, Any]:
    """Set a fault."""
    return await owner.did("PUT", f"subscriptions/{subscription_id}/fault", {"kind": kind, **fields})


async def shown(owner: Operator, subscription_id: str) -> Any:
    """Return the fault in the subscription's document, None without one, the same as in the list."""
    one = await owner.did("GET", f"subscriptions/{subscription_id}")
    (listed,) = [row for row in (await owner.did("GET", "subscriptions"))["data"] if row["id"] == subscription_id]
    assert listed == one
    return one.get("fault")


@pytest.mark.on_postgres
@each("kind", KINDS)
async def test_a_fault_is_set_shown_and_cleared(development: Service, kind: str) -> None:
    """Fields that were not sent have their defaults; a delay is shown if the kind has one."""
    owner = await operator(development)
    subscription_id = await subscribed(owner)
    assert await shown(owner, subscription_id) is None
    delay = {"delay_seconds": 10} if kind in ("late", "out_of_order") else {}
    assert await set_fault(owner, subscription_id, kind) == {"kind": kind, "every": 1, **delay}
    replaced = await set_fault(owner, subscription_id.upper(), kind, every=1000, seed=-7, delay_seconds=600)
    assert replaced == {"kind": kind, "every": 1000, **({"delay_seconds": 600} if delay else {}), "seed": -7}
    assert await shown(owner, subscription_id) == replaced
    cleared = await owner.ask("DELETE", f"subscriptions/{subscription_id}/fault")
    assert (cleared.status, cleared.raw) == (204, b"")
    assert (await owner.ask("DELETE", f"subscriptions/{subscription_id}/fault")).status == 204
    assert await shown(owner, subscription_id) is None


async def test_changes_of_faults_are_audited(database: Database) -> None:
    """With before and after; clearing nothing is not audited."""
    async with running(database, development=True) as service:
        owner = await operator(service)
        subscription_id = await subscribed(owner)
        await set_fault(owner, subscription_id, "late", every=3)
        await set_fault(owner, subscription_id, "drop")
        for _ in range(2):
            await owner.ask("DELETE", f"subscriptions/{subscription_id}/fault")
        late, drop = {"kind": "late", "every": 3, "delay_seconds": 10}, {"kind": "drop", "every": 1}
        entries = [one for one in await audited(service) if one.action.endswith("_fault")]
        assert {one.subject for one in entries} == {subscription_id}
        assert [(one.action, one.before, one.after) for one in entries] == [
            ("subscriptions.set_fault", None, late),
            ("subscriptions.set_fault", late, drop),
            ("subscriptions.clear_fault", drop, None),
        ]


@pytest.mark.on_postgres
async def test_answers_to_changes_of_a_subscription_have_its_fault(development: Service) -> None:
    """As the operator reads it; a subscription with a fault is changed and deleted as any other."""
    owner = await operator(development)
    subscription_id = await subscribed(owner)
    path, fault = f"subscriptions/{subscription_id}", await set_fault(owner, subscription_id, "late", every=3)
    assert (await owner.did("PATCH", path, {"actions": ["order.processed"]}))["fault"] == fault
    for action in ("pause", "resume"):
        assert (await owner.did("POST", f"{path}/{action}"))["fault"] == fault
    secret_id = (await owner.did("POST", f"{path}/secrets"))["id"]
    assert (await owner.did("POST", f"{path}/secrets/{secret_id}/promote"))["fault"] == fault
    assert (await owner.did("DELETE", f"{path}/secrets/1"))["fault"] == fault
    assert (await owner.ask("DELETE", path)).status == 204
    assert (await owner.did("GET", "subscriptions"))["data"] == []


async def test_without_the_kit_a_subscription_has_no_fault(database: Database) -> None:
    """Neither in an answer, though one is stored, nor in the OpenAPI document."""
    async with running(database, workers=False) as service:
        owner = await operator(service)
        subscription_id, _ = await scene.subscribe(
            database, URL, application_id=service.scene.application.application_id
        )
        await database.write(lambda tx: fault_store.set_fault(tx, subscription_id, Fault("drop", 1)))
        assert await shown(owner, subscription_id) is None
        assert (await owner.ask("DELETE", f"subscriptions/{subscription_id}/fault")).status == 404
    assert '"fault"' in API.openapi_json("operators")
    assert '"fault"' not in OWN.openapi_json("operators")


async def test_deliveries_that_a_fault_dropped_need_a_person_who_clears_it(database: Database) -> None:
    """Others have a receiver to repair."""
    async with shop(database) as one:
        other, _ = await scene.subscribe(
            database, one.receiver.url, application_id=one.service.scene.application.application_id
        )
        for subscription_id in (one.subscription_id, other):
            await set_fault(one.owner, subscription_id, "drop")
        reply, _ = await one.order()
        assert await ends(one.owner, reply.body["id"]) == ["exhausted", "exhausted"]
        await one.owner.ask("DELETE", f"subscriptions/{other}/fault")
        items = (await one.owner.did("GET", "attention"))["data"]
        assert {item["subject"]: item["do"] for item in items if item["kind"] == "deliveries_exhausted"} == {
            one.subscription_id: "Clear the fault that is set for the subscription, then send them again.",
            other: "Repair the receiver, then send them again.",
        }


@each(
    "body, code",
    [
        ({}, "minimum_properties"),
        ({"every": 3}, "required_properties"),
        ({"kind": "later"}, "property_value"),
        ({"kind": None}, "property_type"),
        ({"kind": ["late"]}, "property_type"),
        ({"kind": "late", "every": 0}, "property_value"),
        ({"kind": "late", "every": 1001}, "property_value"),
        ({"kind": "late", "every": "3"}, "property_type"),
        ({"kind": "late", "every": 1.5}, "property_type"),
        ({"kind": "late", "every": True}, "property_type"),
        ({"kind": "late", "delay_seconds": -1}, "property_value"),
        ({"kind": "late", "delay_seconds": 601}, "property_value"),
        ({"kind": "late", "delay_seconds": 10**18}, "property_value"),
        ({"kind": "late", "seed": 2**53}, "property_value"),
        ({"kind": "late", "seed": -(10**18)}, "property_value"),
        ({"kind": "late", "seed": "7"}, "property_type"),
        ({"kind": "late", "chance": 1}, "unsupported_properties"),
        ([], "property_type"),
    ],
)
async def test_an_invalid_fault_is_refused_and_changes_nothing(development: Service, body: Any, code: str) -> None:
    """Wrong types, values out of bounds, unknown fields."""
    owner = await operator(development)
    subscription_id = await subscribed(owner)
    before = await set_fault(owner, subscription_id, "drop", every=5)
    reply = await owner.ask("PUT", f"subscriptions/{subscription_id}/fault", body)
    assert (reply.status, reply.code) == (400, code), reply.body
    assert await shown(owner, subscription_id) == before


async def test_who_may_not_set_a_fault_and_where_there_is_none(database: Database) -> None:
    """Support may only read; unknown and deleted subscriptions have no fault; consents have no response to hold."""
    async with running(database, development=True) as service:
        owner, support = await operator(service), await operator(service, "support")
        subscription_id = await subscribed(owner)
        path, body = f"subscriptions/{subscription_id}/fault", {"kind": "drop"}
        assert await support.refused("PUT", path, body) == (403, "forbidden")
        assert await support.refused("DELETE", path) == (403, "forbidden")
        for method in ("PUT", "DELETE"):
            sent = body if method == "PUT" else None
            unknown = await owner.refused(method, f"subscriptions/{UNKNOWN}/fault", sent)
            assert unknown == (404, "subscription_not_found")
            malformed = await owner.refused(method, "subscriptions/1%00/fault", sent)
            assert malformed == (400, "invalid_path_param")
        assert (await owner.ask("DELETE", f"subscriptions/{subscription_id}")).status == 204
        assert await owner.refused("PUT", path, body) == (404, "subscription_not_found")
        consents = await subscribed(owner, topic="mp-connect")
        refused = await owner.ask("PUT", f"subscriptions/{consents}/fault", {"kind": "before_answer"})
        assert (refused.status, refused.code) == (400, "property_value")
        assert "mp-connect" not in json.dumps(refused.details)
        assert refused.details == ["'$.kind' - must not be before_answer: the subscription's topic is not orders"]
        await set_fault(owner, consents, "drop")


async def test_concurrent_changes_leave_one_fault(database: Database) -> None:
    """The audit trail is a chain that ends with what is shown."""
    async with running(database, development=True) as service:
        owner = await operator(service)
        subscription_id = await subscribed(owner)
        await asyncio.gather(*(set_fault(owner, subscription_id, "drop", every=number) for number in range(1, 9)))
        entries = [one for one in await audited(service) if one.action == "subscriptions.set_fault"]
        assert len(entries) == 8
        after = {json.dumps(one.after) for one in entries} | {"null"}
        before = {json.dumps(one.before) for one in entries}
        assert after - before == {json.dumps(await shown(owner, subscription_id))}


# What the receiver of `paydesk dev` gets.


async def inbox(service: Service) -> list[dict[str, Any]]:
    """Return the demo inbox."""
    found: list[dict[str, Any]] = (await service.request("GET", "/demo/inbox", token=None)).body["data"]
    return found


async def settled_inbox(service: Service, count: int) -> list[dict[str, Any]]:
    """Return the demo inbox once it has so many notifications."""

    async def find() -> list[dict[str, Any]] | None:
        found = await inbox(service)
        return found if len(found) >= count else None

    return await until_found(find) or []


async def ends(owner: Operator, order_id: str) -> list[str]:
    """Return the statuses of the order's deliveries by version, once none is pending."""

    async def find() -> list[str] | None:
        listed = (await owner.did("GET", f"deliveries?order={order_id}"))["data"]
        statuses = [one["status"] for one in sorted(listed, key=lambda one: int(one["version"]))]
        return None if "pending" in statuses else statuses

    return await until_found(find) or []


@pytest.mark.parametrize("kind", ["twice", "out_of_order", "bad_signature", "old_timestamp", "drop", "late"])
async def test_the_demo_inbox_shows_the_fault(database: Database, kind: str) -> None:
    """A payment on a virtual terminal, with a fault on every second notification."""
    async with playing(database) as service:
        owner = await operator(service)
        subscription_id = await subscribed(owner, f"{service.base_url}/demo/inbox")
        # What is out of order waits for the newer version, however long that takes.
        await set_fault(owner, subscription_id, kind, every=2, delay_seconds=600 if kind == "out_of_order" else 1)
        virtual = await create(service, script="approve:0.1s")
        order_id = await virtual.order()
        await ended(service, order_id, "processed")
        got = await settled_inbox(service, {"twice": 4, "drop": 2}.get(kind, 3))
        assert {one["order_id"] for one in got} == {order_id}
        # The second one is counted among those that a newer version can overtake.
        versions = {"twice": [1, 2, 2, 3], "out_of_order": [1, 3, 2], "drop": [1, 3]}.get(kind, [1, 2, 3])
        assert [one["version"] for one in got] == versions
        valid = {"bad_signature": [True, False, True], "old_timestamp": [True, False, True]}
        assert [one["signature_valid"] for one in got] == valid.get(kind, [True] * len(got))
        if kind == "late":
            first, second, _ = (datetime.fromisoformat(one["received_date"]) for one in got)
            assert (second - first).total_seconds() > 0.9
        assert await ends(owner, order_id) == ["delivered", "exhausted" if kind == "drop" else "delivered", "delivered"]


# `before_answer`


@dataclass
class Shop:
    """A service with a receiver, which is the application's server."""

    service: Service
    owner: Operator
    receiver: scene.Receiver
    subscription_id: str

    async def order(self) -> tuple[Reply, bool]:
        """Create an order; return the response, and whether the receiver had the notification before."""
        reply = await self.service.create(await self.service.terminal())
        return reply, reply.body["id"] in {got.order_and_version[0] for got in self.receiver.got}

    async def held_order(self) -> asyncio.Task[tuple[Reply, bool]]:
        """Begin to create an order; return once the receiver has its notification, while the response waits."""
        before, ordering = len(self.receiver.got), asyncio.create_task(self.order())
        await until(lambda: len(self.receiver.got) > before)
        assert not ordering.done()
        return ordering


PATIENT = Settings.model_validate({"webhook_timeout_seconds": 600})
"""A response that waits wrongly hangs: no attempt ends without its receiver's answer."""


@asynccontextmanager
async def shop(database: Database, answer: scene.Answering = scene.ok) -> AsyncIterator[Shop]:
    """Run a service for development and a receiver."""
    async with running(database, development=True, settings=PATIENT) as service, scene.receiver(answer) as receiver:
        owner = await operator(service)
        subscription_id = await subscribed(owner, receiver.url)
        yield Shop(service, owner, receiver, subscription_id)


class Gate:
    """A receiver's answer that waits until the gate is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, _: web.BaseRequest) -> web.StreamResponse:
        """Answer once the gate is open."""
        await self.opened.wait()
        return web.Response()


@pytest.fixture
def _held_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a response wait for its notification for as long as the test does."""
    monkeypatch.setattr(held_answers, "HOLD_SECONDS_MAX", 600.0)


@pytest.mark.usefixtures("_held_without_end")
async def test_before_answer_notifies_before_the_response(database: Database) -> None:
    """The order can be read by then; without the fault the response does not wait."""
    async with shop(database) as one:
        seen: list[int] = []
        gate = Gate()

        async def reads_the_order(request: web.BaseRequest) -> web.StreamResponse:
            order_id = request.query["data.id"].upper()
            seen.append((await one.service.request("GET", f"/v1/orders/{order_id}")).status)
            return await gate(request)

        one.receiver.answer = reads_the_order
        await set_fault(one.owner, one.subscription_id, "before_answer")
        for number in (1, 2):
            gate.opened.clear()
            ordering = await one.held_order()
            await until(lambda: len(seen) == number)  # noqa: B023 - it is awaited in this round
            assert not ordering.done()
            gate.opened.set()
            reply, was_first = await ordering
            assert (reply.status, was_first) == (201, True)
        assert seen == [200, 200]
        await one.owner.ask("DELETE", f"subscriptions/{one.subscription_id}/fault")
        gate.opened.clear()
        assert (await one.order())[0].status == 201
        gate.opened.set()


@pytest.mark.usefixtures("_held_without_end")
async def test_before_answer_affects_one_of_every_n_orders(database: Database) -> None:
    """Counted are orders, not their other notifications; the others' responses do not wait."""
    gate = Gate()
    async with shop(database, gate) as one:
        await set_fault(one.owner, one.subscription_id, "before_answer", every=2)
        for waits in (False, True, False, True):
            gate.opened.clear()
            ordering = await one.held_order() if waits else None
            if ordering is not None:
                gate.opened.set()
            reply, _ = await ordering if ordering is not None else await one.order()
            gate.opened.set()
            assert (await one.service.cancel(reply.body["id"])).status == 200
            assert await ends(one.owner, reply.body["id"]) == ["delivered", "delivered"]


@pytest.mark.usefixtures("_held_without_end")
async def test_before_answer_does_not_wait_for_a_receiver_that_fails(database: Database) -> None:
    """The first attempt is enough."""
    async with shop(database, scene.failing(500)) as one:
        await set_fault(one.owner, one.subscription_id, "before_answer")
        reply, was_first = await one.order()
        assert (reply.status, was_first, len(one.receiver.got)) == (201, True, 1)


async def test_before_answer_waits_five_seconds_at_most(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that does not answer lets no order fail. A repeated request gets the stored response."""
    assert held_answers.HOLD_SECONDS_MAX == 5
    # Not before this test moves time.
    monkeypatch.setattr(held_answers, "HOLD_SECONDS_MAX", 120.0)
    gate = Gate()
    async with shop(database, gate) as one:
        await set_fault(one.owner, one.subscription_id, "before_answer")
        key, terminal = str(uuid.uuid4()), await one.service.terminal()
        both = [asyncio.create_task(one.service.create(terminal, key=key)) for _ in range(2)]
        # Both responses wait, so that the time of both has begun.
        await until(lambda: one.service.database.signals.waiting(fault_store.TOPIC_OF_SIGNALS) == 2)
        await until(lambda: bool(one.receiver.got))
        assert not any(creating.done() for creating in both)
        advance(held_answers.HOLD_SECONDS_MAX)
        first, second = await asyncio.gather(*both)
        assert (first.status, first.raw) == (second.status, second.raw) == (201, first.raw)
        gate.opened.set()


@pytest.mark.usefixtures("_held_without_end")
@pytest.mark.on_postgres
async def test_before_answer_ignores_refusals_and_paused_subscriptions(database: Database) -> None:
    """What sends no notification does not wait for one."""
    async with shop(database) as one:
        await set_fault(one.owner, one.subscription_id, "before_answer")
        refused = await one.service.create(Terminal("NEWLAND_N950__UNKNOWN", ""))
        assert refused.status == 403
        await one.owner.did("POST", f"subscriptions/{one.subscription_id}/pause")
        assert (await one.order())[0].status == 201


@pytest.mark.usefixtures("_held_without_end")
@pytest.mark.on_postgres
async def test_other_faults_do_not_delay_the_response(database: Database) -> None:
    """Nor does the fault of a subscription that does not hear of the order."""
    gate = Gate()
    async with shop(database, gate) as one:
        await set_fault(one.owner, one.subscription_id, "late")
        elsewhere = await subscribed(one.owner, one.receiver.url, live_mode=True)
        await set_fault(one.owner, elsewhere, "before_answer")
        not_created = await subscribed(one.owner, one.receiver.url, actions=["order.processed"])
        await set_fault(one.owner, not_created, "before_answer")
        reply, was_first = await one.order()
        assert (reply.status, was_first) == (201, False)
        gate.opened.set()


@pytest.mark.usefixtures("_held_without_end")
async def test_orders_created_at_the_same_time_are_all_notified_before(database: Database) -> None:
    """Also when the fault was set a moment ago."""
    async with shop(database) as one:
        await one.order()
        await set_fault(one.owner, one.subscription_id, "before_answer")
        created = await asyncio.gather(*(one.order() for _ in range(12)))
        assert [(reply.status, was_first) for reply, was_first in created] == [(201, True)] * 12


class Interleaved(FaultyDatabase):
    """A database that sets a fault after a read of the endpoint, before the endpoint continues."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.subscription_id = ""

    async def read(self, work: Work[T], **options: Any) -> T:
        """Read, then set the fault, once."""
        found = await super().read(work, **options)
        if work is fault_store.any_before_answer and self.subscription_id:
            subscription_id, self.subscription_id = self.subscription_id, ""
            # Counting the first order's notification would remind the endpoint.
            await until_found(self._is_settled)
            fault = Fault("before_answer", 1)
            await self.write(lambda tx: fault_store.set_fault(tx, subscription_id, fault))
        return found

    async def _is_settled(self) -> bool:
        return not await super().read(scene.pending_count)


@pytest.mark.usefixtures("_held_without_end")
async def test_a_fault_that_is_set_during_a_request_affects_the_next_one(database: Database) -> None:
    """The endpoint remembers that there is no fault only if none was set since it asked."""
    interleaved = Interleaved(database)
    async with shop(interleaved) as one:
        interleaved.subscription_id = one.subscription_id
        assert (await one.order())[0].status == 201
        assert interleaved.subscription_id == ""
        gate = one.receiver.answer = Gate()
        ordering = await one.held_order()
        gate.opened.set()
        reply, was_first = await ordering
        assert (reply.status, was_first) == (201, True)
