"""Extended statuses: the same orders told in two more words, on every surface; the machine is the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import pytest

from operator_calls import operator
from paydesk.core.clock import MovableClock
from paydesk.core.worker import WorkerContext
from paydesk.orders import expiry, status, status_labels
from paydesk.settings import Settings
from paydesk.storage.database import Database
from service import KEYS, Service, running
from webhooks_scene import receiver, step, subscribe, worker

pytestmark = pytest.mark.sqlite_alone

Words = Literal["plain", "extended"]
EXTENDED = {"expired": "expired", "check_on_terminal": "action_required"}
"""The status that a detail has of its own where statuses are extended."""
SECOND_MS = 1000
NAMED = {"any": (), "further": ("order.expired", "order.action_required"), "canceled": ("order.canceled",)}
"""Subscriptions, by the actions that they name."""


@pytest.fixture(autouse=True)
def _plain_again() -> Iterator[None]:
    """What a test chose is not the next one's."""
    yield
    status_labels.choose("plain")


@dataclass
class Told:
    """What each surface says of one scene: of an order (by its role) its status and detail, as often as it is told."""

    statuses: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    actions: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    found: dict[str, list[str]] = field(default_factory=dict)
    same: dict[str, Any] = field(default_factory=dict)
    """What is told in the machine's own words."""

    def add(self, surface: str, role: str, shown: dict[str, Any]) -> None:
        """An order as a surface shows it; its payment has its status."""
        self.statuses.setdefault(surface, []).append((role, shown["status"], shown["status_detail"]))
        for payment in shown.get("transactions", {}).get("payments", ()):
            assert payment["status"] == shown["status"], surface


async def play(database: Database, words: Words) -> Told:
    """Orders in every state, and what is said of them."""
    told, clock = Told(), MovableClock()
    clock.freeze()
    settings = Settings(order_statuses=words)
    async with receiver() as hearing, running(database, clock=clock, settings=settings, workers=False) as service:
        names = {}
        for name, actions in NAMED.items():
            application_id = service.scene.application.application_id
            url = f"{hearing.url}&name={name}"
            subscription_id, _ = await subscribe(database, url, actions=actions, application_id=application_id)
            names[subscription_id] = name
        roles = await _orders(service, clock, told)
        async with worker(database, clock) as delivering:
            await step(delivering)
        for received in hearing.got:
            body = msgspec.json.decode(received.body)
            # Of the scene before what came after its receiver's end may come here.
            if received.url.query["name"] == "any" and body["data"]["id"] in roles:
                told.add("webhook", roles[body["data"]["id"]], body["data"])
                told.actions.setdefault("webhook", []).append((body["action"], body["data"]["status"]))
        await _asked(service, roles, told)
        await _rows(service, roles, told, names)
    return told


async def _orders(service: Service, clock: MovableClock, told: Told) -> dict[str, str]:
    """One order for each way to end, and those that have not; their roles by their ids."""
    roles: dict[str, str] = {}

    async def made(role: str, **fields: Any) -> tuple[str, Any, Any]:
        terminal = await service.terminal()
        reply = await service.create(terminal, external_reference=role, **fields)
        told.add("create", role, reply.body)
        roles[reply.body["id"]] = role
        return reply.body["id"], terminal, await service.device(terminal)

    await made("created")
    canceled, _, _ = await made("canceled")
    told.add("cancel", "canceled", (await service.cancel(canceled)).body)
    await made("expired", expiration_time="PT30S")
    for role, outcome in (
        ("processed", {}),
        ("failed", {"outcome": "declined", "status_detail": "card_disabled"}),
        ("check", None),
        ("at_terminal", None),
    ):
        order_id, _, device = await made(role)
        told.same[f"ack {role}"] = (await device.ack(order_id[3:])).body["order"]["status"]
        if role == "at_terminal":
            continue
        assert (await device.authorizing(order_id[3:])).status == 200
        if role == "check":
            answer = await device.result(order_id[3:], outcome="unknown")
        elif role == "failed":
            answer = await device.result(order_id[3:], **(outcome or {}))
        else:
            answer = await device.approve(order_id[3:])
        assert answer.status == 200, answer
        told.same[f"result {role}"] = (answer.body["order"]["status"], answer.body["order"]["status_detail"])
    clock.advance(31 * SECOND_MS)
    context = WorkerContext(service.database, Settings(), clock, KEYS)
    assert await expiry.expire_step(context) == 1
    return roles


async def _asked(service: Service, roles: dict[str, str], told: Told) -> None:
    """Everything that can be asked: each order, searches by each status, refusals, and the operator's view."""
    desk = await operator(service)
    for order_id, role in sorted(roles.items(), key=lambda pair: pair[1]):
        told.add("get", role, await service.get(order_id))
        inspected = await desk.did("GET", f"orders/{order_id}")
        told.add("operator", role, inspected)
        for event in inspected["events"]:
            told.add("operator's history", role, event)
            told.actions.setdefault("operator's history", []).append((event["action"], event["status"]))
        refused = await service.cancel(order_id, headers={"X-Allow-Cancelable-Status": "none"})
        told.same[f"cancel {role}"] = refused.status
        if role == "check":
            told.found["cancel_detail"] = refused.details
    for order in (await service.request("GET", "/v1/orders?sort_order=asc")).body["data"]:
        told.add("search", roles[order["id"]], order)
    for asked in status_labels.ALL_LABELS:
        reply = await service.request("GET", f"/v1/orders?status={asked}")
        listed = reply.body.get("data", [])
        told.found[asked] = sorted(roles[order["id"]] for order in listed) if reply.status == 200 else [reply.code]
        for order in listed:
            assert order["status"] == asked
    for detail in EXTENDED:
        reply = await service.request("GET", f"/v1/orders?status_detail={detail}")
        told.same[f"detail {detail}"] = sorted(roles[order["id"]] for order in reply.body["data"])


async def _rows(service: Service, roles: dict[str, str], told: Told, names: dict[str, str]) -> None:
    """What is written down: the states in the machine's words, and who was to hear what."""
    rows = await service.database.read(
        lambda tx: tx.all(
            "SELECT o.order_id, o.status, o.status_detail, e.move, e.status, e.status_detail FROM orders o"
            " JOIN order_events e ON e.seller_id = o.seller_id AND e.order_id = o.order_id WHERE o.seller_id = $1",
            service.seller_id,
        )
    )
    told.same["rows"] = sorted((roles[row[0]], *row[1:]) for row in rows)
    heard = await service.database.read(
        lambda tx: tx.all("SELECT subscription_id, order_id FROM deliveries WHERE seller_id = $1", service.seller_id)
    )
    for subscription_id, order_id in heard:
        told.found.setdefault(f"heard by {names[subscription_id]}", []).append(roles[order_id])


def _in_more_words(told: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [(role, EXTENDED.get(detail, plain), detail) for role, plain, detail in told]


async def test_every_surface_tells_the_same_in_more_words(database: Database) -> None:
    """Answers, searches, notifications and the operator's view differ in two statuses; rows and terminals in none."""
    plain, extended = await play(database, "plain"), await play(database, "extended")
    surfaces = {"create", "cancel", "get", "search", "webhook", "operator", "operator's history"}
    assert set(plain.statuses) == set(extended.statuses) == surfaces
    for surface in surfaces:
        assert sorted(extended.statuses[surface]) == sorted(_in_more_words(plain.statuses[surface])), surface
        told = {word for _, word, _ in extended.statuses[surface]}
        if surface not in ("create", "cancel"):
            assert told >= {"expired", "action_required"}, surface
            assert not {word for _, word, _ in plain.statuses[surface]} & {"expired", "action_required"}
    assert extended.same == plain.same
    assert any("canceled" in row and "expired" in row for row in extended.same["rows"])


async def test_an_action_is_named_as_its_status(database: Database) -> None:
    """In notifications and in the history; who named an action hears of it where it is told."""
    plain, extended = await play(database, "plain"), await play(database, "extended")
    for surface in ("webhook", "operator's history"):
        assert {action for action, _ in plain.actions[surface]} == {
            "order.created",
            "order.at_terminal",
            "order.processed",
            "order.failed",
            "order.canceled",
        }
        assert {action for action, _ in extended.actions[surface]} == {
            *(action for action, _ in plain.actions[surface]),
            "order.expired",
            "order.action_required",
        }
        for told in (plain, extended):
            assert all(action == f"order.{word}" for action, word in told.actions[surface])
    assert "heard by further" not in plain.found
    assert sorted(extended.found["heard by further"]) == ["check", "expired"]
    assert sorted(plain.found["heard by canceled"]) == ["canceled", "created", "expired"]
    assert sorted(extended.found["heard by canceled"]) == ["canceled", "created"]
    assert sorted(plain.found["heard by any"]) == sorted(extended.found["heard by any"])


async def test_a_search_asks_in_the_words_of_the_answers(database: Database) -> None:
    """Each order is found by the status that it is shown with, and by no other."""
    plain, extended = await play(database, "plain"), await play(database, "extended")
    common = {
        "processed": ["processed"],
        "failed": ["failed"],
        "refunded": [],
    }
    assert {asked: plain.found[asked] for asked in status_labels.ALL_LABELS} == {
        **common,
        "at_terminal": ["at_terminal", "check"],
        "canceled": ["canceled", "created", "expired"],
        "expired": ["property_value"],
        "action_required": ["property_value"],
        "created": [],
    }
    assert {asked: extended.found[asked] for asked in status_labels.ALL_LABELS} == {
        **common,
        "at_terminal": ["at_terminal"],
        "canceled": ["canceled", "created"],
        "expired": ["expired"],
        "action_required": ["check"],
        "created": [],
    }
    unknown = "; its outcome is unknown, and it ends as processed or failed"
    assert plain.found["cancel_detail"] == [f"the order is at_terminal{unknown}"]
    assert extended.found["cancel_detail"] == [f"the order is action_required{unknown}"]


def test_what_is_told_is_chosen_once() -> None:
    """Every status and detail has one word; what was chosen last is told."""
    status_labels.choose("extended")
    assert status_labels.told() == status_labels.ALL_LABELS
    assert {detail: status_labels.status_told("-", detail) for detail in EXTENDED} == EXTENDED
    status_labels.choose("plain")
    assert status_labels.told() == status.STATUSES
    assert status_labels.status_told("canceled", "expired") == "canceled"


async def test_refusals_tell_statuses_in_the_same_words(database: Database) -> None:
    """Whoever reads an order as expired is told so too where something can't be done with it."""
    clock = MovableClock()
    clock.freeze()
    settings = Settings(order_statuses="extended")
    async with running(database, clock=clock, settings=settings, workers=False) as service:
        order = (await service.create(await service.terminal(), expiration_time="PT30S")).body
        clock.advance(30 * SECOND_MS)
        path = f"/v1/orders/{order['id']}"
        refund = await service.request("POST", f"{path}/refund")
        event = await service.request("POST", f"{path}/events", {"status": "processed"})
    assert refund.details == ["the order is expired, not processed"]
    assert event.details == ["the order is expired (expired)"]
