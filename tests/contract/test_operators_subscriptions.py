"""Subscriptions over the operator interface: list, change, pause, resume, delete, and rotate their secrets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import webhooks_scene as scene
from accounts import other_application
from operator_calls import Operator, audited, operator
from paydesk.core.clock import MovableClock
from paydesk.core.keys import Keys
from paydesk.engine.webhooks.delivery import parking
from paydesk.platform.storage.database import Database
from service import Service, running
from tables import each

URL = "https://93.184.216.34/hooks"
UNKNOWN = "0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51"


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service whose workers the tests run themselves."""
    async with running(database, workers=False) as service:
        yield service


async def subscribed(owner: Operator, **fields: Any) -> dict[str, Any]:
    """Subscribe an application, by default that of the service; return the document without the secret."""
    body = {"client_id": owner.service.scene.application.application_id, "url": URL, **fields}
    made = await owner.did("POST", "subscriptions", body)
    assert made.pop("secret").startswith("whsec_")
    return made


def path_of(made: dict[str, Any]) -> str:
    """Return the path of a subscription."""
    return f"subscriptions/{made['id']}"


async def test_a_new_subscription_is_active_with_one_secret(service: Service, owner: Operator) -> None:
    """The response of POST is the document of GET with the secret; the list has the same document."""
    made = await subscribed(owner, actions=["order.failed", "order.created"])
    assert made == {
        "id": made["id"],
        "client_id": str(service.scene.application.application_id),
        "topic": "orders",
        "live_mode": False,
        "url": URL,
        "actions": ["order.created", "order.failed"],
        "status": "active",
        "created_date": made["created_date"],
        "secrets": [{"id": "1", "is_primary": True, "created_date": made["created_date"]}],
    }
    assert await owner.did("GET", path_of(made)) == made
    assert await owner.did("GET", path_of(made).upper().replace("SUBSCRIPTIONS", "subscriptions")) == made
    assert (await owner.did("GET", "subscriptions"))["data"] == [made]


@pytest.mark.on_postgres
async def test_list_is_paged_and_filtered_by_application(service: Service, owner: Operator) -> None:
    """Each subscription once, with its own secrets; deleted ones are not listed."""
    other = (await other_application(service)).scene.application
    mine = [await subscribed(owner) for _ in range(3)]
    others = [await subscribed(owner, client_id=other.application_id) for _ in range(2)]
    gone = await subscribed(owner)
    await owner.ask("DELETE", path_of(gone))
    await owner.did("POST", f"{path_of(mine[1])}/secrets")
    mine[1] = await owner.did("GET", path_of(mine[1]))
    assert len(mine[1]["secrets"]) == 2
    listed: list[Any] = []
    page: dict[str, Any] = {"next": ""}
    while "next" in page:
        after = f"&after={page['next']}" if page["next"] else ""
        page = await owner.did("GET", f"subscriptions?limit=2{after}")
        listed += page["data"]
    assert listed == sorted(mine + others, key=lambda one: str(one["id"]))
    filtered = await owner.did("GET", f"subscriptions?client_id={other.application_id}")
    assert filtered["data"] == sorted(others, key=lambda one: str(one["id"]))
    for nothing in ("0", "999999999999"):
        assert (await owner.did("GET", f"subscriptions?client_id={nothing}"))["data"] == []
    for invalid in ("", "x", "-1", "1" * 19, "%00"):
        assert await owner.refused("GET", f"subscriptions?client_id={invalid}") == (400, "property_value")


async def test_only_the_fields_that_are_sent_change(service: Service, owner: Operator) -> None:
    """Each change is audited once with before and after; one that changes nothing is not."""
    made = await subscribed(owner, actions=["order.failed"])
    moved = await owner.did("PATCH", path_of(made), {"url": f"{URL}/2"})
    assert moved == {**made, "url": f"{URL}/2"}
    narrowed = await owner.did("PATCH", path_of(made), {"actions": ["order.processed", "order.failed"]})
    assert narrowed == {**moved, "actions": ["order.processed", "order.failed"]}
    everything = await owner.did("PATCH", path_of(made), {"actions": []})
    assert everything == {**moved, "actions": []}
    assert await owner.did("PATCH", path_of(made), {"actions": [], "url": f"{URL}/2"}) == everything
    lines = [line for line in await audited(service) if line.action == "subscriptions.change"]
    assert [(line.subject, line.before, line.after) for line in lines] == [
        (made["id"], made, moved),
        (made["id"], moved, narrowed),
        (made["id"], narrowed, everything),
    ]


@each(
    "change, code",
    [
        ({}, "minimum_properties"),
        ({"url": None}, "property_type"),
        ({"url": 1}, "property_type"),
        ({"url": ["https://shop.example/"]}, "property_type"),
        ({"url": ""}, "property_value"),
        ({"url": "x" * 2001}, "property_value"),
        ({"url": "https://93.184.216.34/4111111111111111"}, "property_value"),
        ({"actions": None}, "property_type"),
        ({"actions": "order.created"}, "property_type"),
        ({"actions": {}}, "property_type"),
        ({"actions": [1]}, "property_type"),
        ({"actions": ["order.sold"]}, "property_value"),
        ({"actions": ["application.authorized"]}, "property_value"),
        ({"actions": ["order.created"] * 51}, "maximum_items"),
        ({"topic": "orders"}, "unsupported_properties"),
        ({"live_mode": True}, "unsupported_properties"),
        ({"client_id": 1}, "unsupported_properties"),
        ({"secret": "whsec_x"}, "unsupported_properties"),
        ({"status": "paused"}, "unsupported_properties"),
        ([], "property_type"),
    ],
)
async def test_an_invalid_change_changes_nothing(service: Service, owner: Operator, change: Any, code: str) -> None:
    """Also beside a valid field."""
    made = await subscribed(owner)
    assert await owner.refused("PATCH", path_of(made), change) == (400, code)
    if isinstance(change, dict) and change:
        both = {"url": f"{URL}/2", "actions": ["order.failed"], **change}
        assert await owner.refused("PATCH", path_of(made), both) == (400, code)
    assert await owner.did("GET", path_of(made)) == made
    assert {line.action for line in await audited(service)} == {"subscriptions.create"}


async def test_actions_of_a_change_are_those_of_the_topic(owner: Operator) -> None:
    """A subscription to consents takes their actions alone."""
    made = await subscribed(owner, topic="mp-connect")
    changed = await owner.did("PATCH", path_of(made), {"actions": ["application.authorized"]})
    assert changed["actions"] == ["application.authorized"]
    assert await owner.refused("PATCH", path_of(made), {"actions": ["order.created"]}) == (400, "property_value")


async def test_pause_and_resume_can_be_repeated(service: Service, owner: Operator) -> None:
    """The second one has no effect and no entry in the audit trail."""
    made = await subscribed(owner)
    paused = await owner.did("POST", f"{path_of(made)}/pause")
    assert paused == {**made, "status": "paused", "paused_by": "operator", "paused_date": paused["paused_date"]}
    assert await owner.did("POST", f"{path_of(made)}/pause") == paused
    assert (await owner.did("GET", "subscriptions"))["data"] == [paused]
    assert (await owner.did("PATCH", path_of(made), {"url": f"{URL}/2"}))["status"] == "paused"
    resumed = await owner.did("POST", f"{path_of(made)}/resume")
    assert resumed == {**made, "url": f"{URL}/2"}
    assert await owner.did("POST", f"{path_of(made)}/resume") == resumed
    lines = [(line.action, line.before["status"], line.after["status"]) for line in (await audited(service))[1:]]
    assert lines == [
        ("subscriptions.pause", "active", "paused"),
        ("subscriptions.change", "paused", "paused"),
        ("subscriptions.resume", "paused", "active"),
    ]


@pytest.mark.on_postgres
async def test_a_failing_subscription_shows_since_when(service: Service, owner: Operator) -> None:
    """Until its URL changes: the new one has not failed."""
    made = await subscribed(owner)
    await service.database.write(
        lambda tx: tx.run("UPDATE subscriptions SET failing_since_ms = 1742505638000, failed_ms = 1742505638000")
    )
    since = "2025-03-20T21:20:38.000Z"
    assert (await owner.did("GET", path_of(made)))["failing_since_date"] == since
    assert (await owner.did("PATCH", path_of(made), {"actions": ["order.failed"]}))["failing_since_date"] == since
    assert "failing_since_date" not in await owner.did("PATCH", path_of(made), {"url": f"{URL}/2"})


async def test_a_deleted_subscription_is_gone(service: Service, owner: Operator) -> None:
    """For every operation; the others stay. The entry of the audit trail has what was deleted."""
    made, kept = await subscribed(owner), await subscribed(owner)
    reply = await owner.ask("DELETE", path_of(made))
    assert (reply.status, reply.raw) == (204, b"")
    for method, tail in (
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/secrets"),
        ("POST", "/secrets/1/promote"),
        ("DELETE", "/secrets/1"),
    ):
        assert await owner.refused(method, path_of(made) + tail) == (404, "subscription_not_found"), (method, tail)
    assert await owner.refused("PATCH", path_of(made), {"actions": []}) == (404, "subscription_not_found")
    assert (await owner.did("GET", "subscriptions"))["data"] == [kept]
    (line,) = [line for line in await audited(service) if line.action == "subscriptions.delete"]
    assert (line.subject, line.before, line.after) == (made["id"], made, None)


async def test_unknown_and_malformed_ids_are_refused(owner: Operator) -> None:
    """Also in a path with a secret, whose subscription is not the last part."""
    made = await subscribed(owner)
    assert await owner.refused("GET", f"subscriptions/{UNKNOWN}") == (404, "subscription_not_found")
    assert await owner.refused("GET", "subscriptions/1") == (400, "invalid_path_param")
    for unknown in (UNKNOWN, "1", "%00", "%ff", "é", "a" * 300):
        status, _ = await owner.refused("POST", f"subscriptions/{unknown}/secrets/1/promote")
        assert status in (400, 404), unknown
    for secret_id in ("2", "0", "9" * 18):
        assert await owner.refused("DELETE", f"{path_of(made)}/secrets/{secret_id}") == (404, "secret_not_found")
    for secret_id in ("x", "-1", "1.0", "9" * 19, "１"):  # noqa: RUF001 - a digit, but not an ASCII one
        assert await owner.refused("DELETE", f"{path_of(made)}/secrets/{secret_id}") == (400, "invalid_path_param")


async def test_secrets_are_rotated(service: Service, owner: Operator) -> None:
    """Add, promote, drop; a generation is not used again, so neither is a secret."""
    made = await subscribed(owner)
    path, shown = path_of(made), set()
    for number in range(2, 5):
        added = await owner.did("POST", f"{path}/secrets")
        assert added == {"id": str(number), "secret": added["secret"]}
        shown.add(added["secret"])
        assert [(one["id"], one["is_primary"]) for one in (await owner.did("GET", path))["secrets"]] == [
            (str(number - 1), True),
            (str(number), False),
        ]
        reply = await owner.ask("POST", f"{path}/secrets")
        assert (reply.status, reply.code) == (409, "too_many_secrets")
        assert reply.body["errors"][0]["message"] == "The subscription already has 2 valid secrets."
        assert reply.details == [f"the valid secrets are {number - 1} and {number}: drop one first"]
        promoted = await owner.did("POST", f"{path}/secrets/{number}/promote")
        assert [one["is_primary"] for one in promoted["secrets"]] == [False, True]
        assert await owner.did("POST", f"{path}/secrets/{number}/promote") == promoted
        dropped = await owner.did("DELETE", f"{path}/secrets/{number - 1}")
        assert dropped["secrets"] == promoted["secrets"][1:]
        assert await owner.refused("DELETE", f"{path}/secrets/{number - 1}") == (404, "secret_not_found")
        assert await owner.refused("POST", f"{path}/secrets/{number - 1}/promote") == (404, "secret_not_found")
    assert len(shown) == 3
    lines = (await audited(service))[1:]
    assert [line.action for line in lines] == [
        f"subscriptions.secrets.{name}" for name in ("add", "promote", "drop")
    ] * 3
    assert [[one["id"] for one in line.after["secrets"]] for line in lines[:3]] == [["1", "2"], ["1", "2"], ["2"]]
    assert not any(secret in str(line) for line in lines for secret in shown)


async def test_a_second_secret_can_be_dropped_unpromoted(owner: Operator) -> None:
    """The next one gets a new id all the same."""
    path = path_of(await subscribed(owner))
    first = await owner.did("POST", f"{path}/secrets")
    await owner.did("DELETE", f"{path}/secrets/{first['id']}")
    second = await owner.did("POST", f"{path}/secrets")
    assert (second["id"], second["secret"] == first["secret"]) == ("3", False)


async def test_the_primary_secret_cannot_be_dropped(owner: Operator) -> None:
    """The message says why, and the detail what to do instead."""
    path = path_of(await subscribed(owner))
    reply = await owner.ask("DELETE", f"{path}/secrets/1")
    assert (reply.status, reply.code) == (409, "in_use")
    assert reply.body["errors"][0]["message"] == "The primary secret makes X-Signature and can't be dropped."
    assert reply.details == ["1 is the primary secret; add another one and promote that first"]
    await owner.did("POST", f"{path}/secrets")
    assert (await owner.ask("DELETE", f"{path}/secrets/1")).details == ["1 is the primary secret; promote 2 first"]


async def test_support_may_read_only(service: Service, owner: Operator) -> None:
    """Every change is refused before anything is looked up."""
    made, support = await subscribed(owner), await operator(service, "support")
    await owner.did("POST", f"{path_of(made)}/secrets")
    before = await support.did("GET", path_of(made))
    for path in (path_of(made), f"subscriptions/{UNKNOWN}"):
        for method, tail, body in (
            ("PATCH", "", {"url": "https://10.0.0.1/"}),
            ("DELETE", "", None),
            ("POST", "/pause", None),
            ("POST", "/resume", None),
            ("POST", "/secrets", None),
            ("POST", "/secrets/2/promote", None),
            ("DELETE", "/secrets/2", None),
        ):
            assert await support.refused(method, path + tail, body) == (403, "forbidden"), (method, tail)
    assert (await support.did("GET", "subscriptions"))["data"] == [before]


async def test_concurrent_changes_of_different_fields_both_take_effect(owner: Operator) -> None:
    """Each sets only what was sent."""
    made = await subscribed(owner)
    await asyncio.gather(
        owner.did("PATCH", path_of(made), {"url": f"{URL}/2"}),
        owner.did("PATCH", path_of(made), {"actions": ["order.failed"]}),
        owner.did("POST", f"{path_of(made)}/pause"),
        owner.did("POST", f"{path_of(made)}/secrets"),
    )
    after = await owner.did("GET", path_of(made))
    assert (after["url"], after["actions"], after["status"]) == (f"{URL}/2", ["order.failed"], "paused")
    assert len(after["secrets"]) == 2


async def test_a_secret_is_made_with_the_active_key(database: Database) -> None:
    """The first one keeps its key: `X-Signature` is signed with both keys in turn."""
    keys = Keys(2, {1: b"k" * 32, 2: b"l" * 32})
    async with running(database, workers=False, keys=keys) as service:
        owner = await operator(service)
        made = await subscribed(owner)
        await service.database.write(lambda tx: tx.run("UPDATE subscription_secrets SET key_version = 1"))
        await owner.did("POST", f"{path_of(made)}/secrets")
        rows = await service.database.read(
            lambda tx: tx.all("SELECT generation, key_version FROM subscription_secrets ORDER BY generation")
        )
        assert [tuple(row) for row in rows] == [(1, 1), (2, 2)]


@pytest.mark.on_postgres
@pytest.mark.parametrize("state", ["waiting", "paused", "failing"])
async def test_deletion_withdraws_what_is_pending_at_once(
    service: Service, owner: Operator, clock: MovableClock, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Whether it waits for its retry, for the end of a pause, or is being sent at the moment. In bounded steps."""
    monkeypatch.setattr(parking, "STEP_ROWS_MAX", 2)
    made = await subscribed(owner)
    await service.database.write(lambda tx: tx.run("UPDATE subscriptions SET application_id = $1", scene.APPLICATION))
    orders = [scene.order_id() for _ in range(3)]
    async with scene.receiver(scene.failing(500)) as receiver, scene.worker(service.database, clock) as worker:
        await service.database.write(lambda tx: tx.run("UPDATE subscriptions SET url = $1", receiver.url))
        for order in orders:
            await scene.announce(service.database, clock.now_ms(), order)
        if state == "paused":
            await owner.did("POST", f"{path_of(made)}/pause")
        if state == "failing":
            assert await worker.start_due() > 0
        else:
            await scene.step(worker)
        assert await service.database.read(scene.pending_count) == 3
        assert (await owner.ask("DELETE", path_of(made))).status == 204
        await worker.settle()
        for _ in range(2):
            assert await scene.step(worker) == 0
    assert await service.database.read(scene.pending_count) == 0
    for order in orders:
        (delivery,) = await scene.deliveries(service.database, order)
        assert (delivery.status, delivery.ended_ms is None) == ("withdrawn", False)


async def test_a_retry_uses_the_current_url(service: Service, owner: Operator, clock: MovableClock) -> None:
    """The events that were announced before the change too; the old URL gets nothing any more."""
    made = await subscribed(owner)
    order = scene.order_id()
    async with (
        scene.receiver(scene.failing(500)) as old,
        scene.receiver() as new,
        scene.worker(service.database, clock) as worker,
        running(service.database, workers=False, development=True) as development,
    ):
        owner = await operator(development)
        path = path_of(made)
        await owner.did("PATCH", path, {"url": old.url})
        await service.database.write(
            lambda tx: tx.run("UPDATE subscriptions SET application_id = $1", scene.APPLICATION)
        )
        await scene.announce(service.database, clock.now_ms(), order)
        assert await scene.step(worker) == 1
        await owner.did("PATCH", path, {"url": new.url, "actions": ["order.failed"]})
        clock.advance(60_000)
        assert await scene.step(worker) == 1
        await scene.announce(service.database, clock.now_ms(), scene.order_id(), 1, "order.created")
        await scene.announce(service.database, clock.now_ms(), scene.order_id(), 1, "order.failed")
        assert await scene.step(worker) == 1
    assert (len(old.got), len(new.got)) == (1, 2)
    assert [one.status for one in await scene.deliveries(service.database, order)] == ["delivered"]
