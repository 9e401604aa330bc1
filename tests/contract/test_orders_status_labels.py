"""Extended statuses: two more status labels on every surface; the moves are the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from operator_calls import operator
from paydesk.core.clock import MovableClock
from paydesk.engine.orders import expiry, status, status_labels
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from service import KEYS, Service, running
from webhooks_scene import receiver, step, subscribe, worker

OrderStatuses = Literal["plain", "extended"]
EXTENDED = {"expired": "expired", "check_on_terminal": "action_required"}
"""The extended status by `status_detail`."""
SECOND_MS = 1000
NAMED = {"any": (), "further": ("order.expired", "order.action_required"), "canceled": ("order.canceled",)}
"""Actions by the name of their subscription."""


@dataclass
class Surfaces:
    """What each surface shows in a scene: an order's role, status and detail, for each occurrence."""

    statuses: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    actions: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    found: dict[str, list[str]] = field(default_factory=dict)
    same: dict[str, Any] = field(default_factory=dict)
    """What must not depend on the labels."""

    def add(self, surface: str, role: str, shown: dict[str, Any]) -> None:
        """Add an order as a surface shows it; its payment has the same status."""
        self.statuses.setdefault(surface, []).append((role, shown["status"], shown["status_detail"]))
        for payment in shown.get("transactions", {}).get("payments", ()):
            assert payment["status"] == shown["status"], surface


async def play(database: Database, order_statuses: OrderStatuses) -> Surfaces:
    """Create orders in every state and collect what each surface shows."""
    seen, clock = Surfaces(), MovableClock()
    clock.freeze()
    settings = Settings(order_statuses=order_statuses)
    async with receiver() as receiving, running(database, clock=clock, settings=settings, workers=False) as service:
        names = {}
        for name, actions in NAMED.items():
            application_id = service.scene.application.application_id
            url = f"{receiving.url}&name={name}"
            subscription_id, _ = await subscribe(database, url, actions=actions, application_id=application_id)
            names[subscription_id] = name
        roles = await _orders(service, clock, seen, settings)
        async with worker(database, clock) as delivering:
            await step(delivering)
        for received in receiving.got:
            body = msgspec.json.decode(received.body)
            # A delivery of the previous scene may still arrive.
            if received.url.query["name"] == "any" and body["data"]["id"] in roles:
                seen.add("webhook", roles[body["data"]["id"]], body["data"])
                seen.actions.setdefault("webhook", []).append((body["action"], body["data"]["status"]))
        await _responses(service, roles, seen)
        await _rows(service, roles, seen, names)
    return seen


async def _orders(service: Service, clock: MovableClock, seen: Surfaces, settings: Settings) -> dict[str, str]:
    """Create an order for each end and each open state; return their roles by id."""
    roles: dict[str, str] = {}

    async def made(role: str, **fields: Any) -> tuple[str, Any, Any]:
        terminal = await service.terminal()
        reply = await service.create(terminal, external_reference=role, **fields)
        seen.add("create", role, reply.body)
        roles[reply.body["id"]] = role
        return reply.body["id"], terminal, await service.device(terminal)

    await made("created")
    canceled, _, _ = await made("canceled")
    seen.add("cancel", "canceled", (await service.cancel(canceled)).body)
    await made("expired", expiration_time="PT30S")
    for role, outcome in (
        ("processed", {}),
        ("failed", {"outcome": "declined", "status_detail": "card_disabled"}),
        ("check", None),
        ("at_terminal", None),
    ):
        order_id, _, device = await made(role)
        seen.same[f"ack {role}"] = (await device.ack(order_id[3:])).body["order"]["status"]
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
        seen.same[f"result {role}"] = (answer.body["order"]["status"], answer.body["order"]["status_detail"])
    clock.advance(31 * SECOND_MS)
    context = WorkerContext(service.database, settings, clock, KEYS)
    assert await expiry.EXPIRY.step(context) == 1
    return roles


async def _responses(service: Service, roles: dict[str, str], seen: Surfaces) -> None:
    """Collect each order, searches by each status, refusals, and the operator's view."""
    desk = await operator(service)
    for order_id, role in sorted(roles.items(), key=lambda pair: pair[1]):
        seen.add("get", role, await service.get(order_id))
        inspected = await desk.did("GET", f"orders/{order_id}")
        seen.add("operator", role, inspected)
        for event in inspected["events"]:
            seen.add("operator's history", role, event)
            seen.actions.setdefault("operator's history", []).append((event["action"], event["status"]))
        refused = await service.cancel(order_id, headers={"X-Allow-Cancelable-Status": "none"})
        seen.same[f"cancel {role}"] = refused.status
        if role == "check":
            seen.found["cancel_detail"] = refused.details
    for order in (await service.request("GET", "/v1/orders?sort_order=asc")).body["data"]:
        seen.add("search", roles[order["id"]], order)
    for label in status_labels.EXTENDED.all:
        reply = await service.request("GET", f"/v1/orders?status={label}")
        listed = reply.body.get("data", [])
        seen.found[label] = sorted(roles[order["id"]] for order in listed) if reply.status == 200 else [reply.code]
        for order in listed:
            assert order["status"] == label
    for detail in EXTENDED:
        reply = await service.request("GET", f"/v1/orders?status_detail={detail}")
        seen.same[f"detail {detail}"] = sorted(roles[order["id"]] for order in reply.body["data"])


async def _rows(service: Service, roles: dict[str, str], seen: Surfaces, names: dict[str, str]) -> None:
    """Collect the rows of orders and events, and the deliveries."""
    rows = await service.database.read(
        lambda tx: tx.all(
            "SELECT o.order_id, o.status, o.status_detail, e.move, e.status, e.status_detail FROM orders o"
            " JOIN order_events e ON e.seller_id = o.seller_id AND e.order_id = o.order_id WHERE o.seller_id = $1",
            service.seller_id,
        )
    )
    seen.same["rows"] = sorted((roles[row[0]], *row[1:]) for row in rows)
    deliveries = await service.database.read(
        lambda tx: tx.all("SELECT subscription_id, order_id FROM deliveries WHERE seller_id = $1", service.seller_id)
    )
    for subscription_id, order_id in deliveries:
        seen.found.setdefault(f"delivered to {names[subscription_id]}", []).append(roles[order_id])


def _extended(seen: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [(role, EXTENDED.get(detail, plain), detail) for role, plain, detail in seen]


async def test_every_surface_tells_the_same_extended(database: Database) -> None:
    """Responses, searches, notifications and the operator's view differ in two statuses; rows and terminals in none."""
    plain, extended = await play(database, "plain"), await play(database, "extended")
    surfaces = {"create", "cancel", "get", "search", "webhook", "operator", "operator's history"}
    assert set(plain.statuses) == set(extended.statuses) == surfaces
    for surface in surfaces:
        assert sorted(extended.statuses[surface]) == sorted(_extended(plain.statuses[surface])), surface
        labels = {label for _, label, _ in extended.statuses[surface]}
        if surface not in ("create", "cancel"):
            assert labels >= {"expired", "action_required"}, surface
            assert not {label for _, label, _ in plain.statuses[surface]} & {"expired", "action_required"}
    assert extended.same == plain.same
    assert any("canceled" in row and "expired" in row for row in extended.same["rows"])


async def test_actions_follow_the_statuses(database: Database) -> None:
    """In notifications and in the history; a subscription to an action gets it if it is used."""
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
        for seen in (plain, extended):
            assert all(action == f"order.{label}" for action, label in seen.actions[surface])
    assert "delivered to further" not in plain.found
    assert sorted(extended.found["delivered to further"]) == ["check", "expired"]
    assert sorted(plain.found["delivered to canceled"]) == ["canceled", "created", "expired"]
    assert sorted(extended.found["delivered to canceled"]) == ["canceled", "created"]
    assert sorted(plain.found["delivered to any"]) == sorted(extended.found["delivered to any"])


async def test_a_search_uses_the_statuses_of_responses(database: Database) -> None:
    """Each order is found by the status in its response, and by no other."""
    plain, extended = await play(database, "plain"), await play(database, "extended")
    common = {
        "processed": ["processed"],
        "failed": ["failed"],
        "refunded": [],
    }
    assert {label: plain.found[label] for label in status_labels.EXTENDED.all} == {
        **common,
        "at_terminal": ["at_terminal", "check"],
        "canceled": ["canceled", "created", "expired"],
        "expired": ["property_value"],
        "action_required": ["property_value"],
        "created": [],
    }
    assert {label: extended.found[label] for label in status_labels.EXTENDED.all} == {
        **common,
        "at_terminal": ["at_terminal"],
        "canceled": ["canceled", "created"],
        "expired": ["expired"],
        "action_required": ["check"],
        "created": [],
    }
    unknown = "; its outcome is unknown, and it will end as processed or failed"
    assert plain.found["cancel_detail"] == [f"the order is at_terminal{unknown}"]
    assert extended.found["cancel_detail"] == [f"the order is action_required{unknown}"]


def test_labels_are_chosen_by_the_setting() -> None:
    """Every status and detail has one label for each value of the setting."""
    extended = status_labels.labels_of(Settings(order_statuses="extended"))
    assert extended.all == (*status.STATUSES, *EXTENDED.values())
    assert {detail: extended.of_status("-", detail) for detail in EXTENDED} == EXTENDED
    plain = status_labels.labels_of(Settings(order_statuses="plain"))
    assert plain.all == status.STATUSES
    assert plain.of_status("canceled", "expired") == "canceled"


async def test_refusals_use_the_extended_statuses(database: Database) -> None:
    """The details of a refusal name the order's extended status."""
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
