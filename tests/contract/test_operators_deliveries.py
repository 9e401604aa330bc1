"""Deliveries for operators: their list, one with its attempts, and requests of resends and replays."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from accounts import other_seller
from moved_time import advance
from operator_calls import Operator, audited, operator
from paydesk.core.clock import MovableClock, rfc3339
from paydesk.engine.webhooks.delivery import replaying
from paydesk.engine.webhooks.schedule import PARKED_MS
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Service, access_token, running
from webhooks_scene import subscribe

UNKNOWN = f"{uuid.UUID(int=1)}.{uuid.UUID(int=2)}"
UNKNOWN_SUBSCRIPTION = str(uuid.UUID(int=2))
UNKNOWN_ORDER = "ORD01J67CQQH5904WDBVZEM4JMEP3"
URL = "https://8.8.8.8/hooks?token=s3cretvalue&shop=7"


@dataclass(frozen=True)
class Desk:
    """A service without workers whose application has a subscription, with two operators."""

    service: Service
    subscription_id: str
    support: Operator
    owner: Operator

    async def order(self, *statuses: str, versions: int = 1) -> tuple[str, list[str]]:
        """Create an order, canceled with two versions; set its deliveries' statuses, return its id and theirs."""
        order_id = (await self.service.create(await self.service.terminal())).body["id"]
        if versions == 2:
            assert (await self.service.cancel(order_id)).status == 200
        listed = await self.listed(f"order={order_id}")
        for delivery, status in zip(listed, statuses, strict=False):
            await self.change(delivery["id"], "status = $3, attempts = 5, ended_ms = 1", status)
        return order_id, [delivery["id"] for delivery in listed]

    async def change(self, delivery_id: str, assignments: str, *values: Any) -> None:
        """Change a delivery's row; `$3` is the first value."""
        sql = f"UPDATE deliveries SET {assignments} WHERE seller_id = $1 AND delivery_id = $2"
        await self.service.database.write(lambda tx: tx.run(sql, self.service.seller_id, delivery_id, *values))

    async def row(self, delivery_id: str) -> tuple[Any, ...]:
        """Return status, attempts, uncounted, next_ms, ended_ms and resend_ms of a delivery."""
        sql = """SELECT status, attempts, uncounted, next_ms, ended_ms, resend_ms FROM deliveries
                  WHERE seller_id = $1 AND delivery_id = $2"""
        row = await self.service.database.read(lambda tx: tx.one(sql, self.service.seller_id, delivery_id))
        assert row is not None
        return tuple(row)

    async def listed(self, query: str) -> list[dict[str, Any]]:
        """Return the data of a list of deliveries."""
        data: list[dict[str, Any]] = (await self.support.did("GET", f"deliveries?{query}"))["data"]
        return data

    async def resend(self, delivery_id: str) -> dict[str, Any]:
        """Request a resend that must be accepted."""
        reply = await self.support.ask("POST", f"deliveries/{delivery_id}/resend")
        assert reply.status == 202, reply.raw
        document: dict[str, Any] = reply.body
        return document

    async def replay(self, **body: Any) -> int:
        """Request a replay that must be accepted; return its count."""
        reply = await self.support.ask("POST", "deliveries/replay", body)
        assert (reply.status, list(reply.body)) == (202, ["count"]), reply.raw
        return int(reply.body["count"])

    async def run(self, sql: str, *args: Any) -> None:
        """Run a statement."""
        await self.service.database.write(lambda tx: tx.run(sql, *args))


@asynccontextmanager
async def desk(
    database: Database, clock: MovableClock | None = None, settings: Settings | None = None
) -> AsyncIterator[Desk]:
    """Run a service without workers: deliveries stay as the test sets them."""
    async with running(database, workers=False, clock=clock, settings=settings) as service:
        application_id = service.scene.application.application_id
        subscription_id, _ = await subscribe(database, URL, application_id=application_id)
        yield Desk(service, subscription_id, await operator(service, "support"), await operator(service))


async def seller_of_same_application(service: Service) -> Service:
    """Return the service with the token of another seller who has authorized the same application."""
    other = await other_seller(service)
    scene = replace(other.scene, application=service.scene.application)
    return replace(other, scene=scene, access_token=await access_token(scene, service.clock.now_ms(), live=False))


async def test_delivery_has_notification_and_attempts(database: Database) -> None:
    """Attempts have number, time, request, and the answer or the error; secret parameters are masked."""
    async with desk(database) as one:
        order_id, (delivery_id,) = await one.order()
        attempt = """INSERT INTO attempts (seller_id, delivery_id, attempt, started_ms, duration_ms, answer_status,
                                           answer_body, error, request) VALUES ($1, $2, $3, $4, 12, $5, $6, $7, $8)"""
        sent = {"url": f"{URL}&%73ig=abc&data.id=x", "headers": {"X-Retry": "0", "X-Signature": "ts=1,v1=" + "a" * 64}}
        key = one.service.seller_id, delivery_id
        await one.run(attempt, *key, 1, 1_000, 500, "no", None, json.dumps(sent))
        await one.run(attempt, *key, 2, 2_000, None, "", "refused", json.dumps({**sent, "resend": True}))
        await one.run(attempt, *key, 3, 3_000, 204, "", None, "")
        await one.change(delivery_id, "attempts = $3", 3)
        found = await one.support.did("GET", f"deliveries/{delivery_id.upper()}")
        (listed,) = await one.listed(f"order={order_id}")
        assert {**found, **listed} == found
        assert found["notification"]["data"]["id"] == order_id
        assert (found["notification"]["id"], found["attempts"]) == (delivery_id.partition(".")[0], 3)
        masked = {**sent, "url": "https://8.8.8.8/hooks?token=***&shop=7&%73ig=***&data.id=x"}
        dates = [{"date": rfc3339(number * 1000), "duration_ms": 12, "number": number} for number in (1, 2, 3)]
        assert found["history"] == [
            {**dates[0], "request": masked, "answer": {"status": 500, "body": "no"}},
            {**dates[1], "request": masked, "error": "refused", "resend": True},
            {**dates[2], "answer": {"status": 204, "body": ""}},
        ]


@pytest.mark.on_postgres
async def test_consent_delivery_has_notification(database: Database) -> None:
    """The delivery of an application's authorization names the application instead of an order."""
    async with running(database, workers=False) as service:
        application_id = service.scene.application.application_id
        await subscribe(database, URL, application_id=application_id, topic="mp-connect")
        one = await operator(service)
        (grant, *_) = (await one.did("GET", "grants"))["data"]
        assert (await one.ask("DELETE", f"grants/{grant['id']}")).status == 204
        (listed,) = (await one.did("GET", "deliveries"))["data"]
        assert (listed["topic"], listed["client_id"]) == ("mp-connect", str(application_id))
        found = await one.did("GET", f"deliveries/{listed['id']}")
        assert (found["notification"]["action"], found["history"]) == ("application.deauthorized", [])
        assert (await one.ask("POST", f"deliveries/{listed['id']}/resend")).status == 202


async def test_list_filters(database: Database, clock: MovableClock) -> None:
    """By status, time, subscription and order, alone and together; invalid values return 400."""
    clock.freeze()
    async with desk(database, clock) as one:
        first, (early,) = await one.order("exhausted")
        since = clock.now_ms() + 1_000
        clock.advance(1_000)
        second, (late,) = await one.order()
        assert clock.now_ms() == since
        for query, expected in (
            ("", {early, late}),
            ("status=exhausted", {early}),
            (f"since={rfc3339(since)}", {late}),
            (f"since={rfc3339(since - 1)}", {late}),
            (f"since={rfc3339(since + 1)}", set()),
            ("since=2020-01-31", {early, late}),
            (f"subscription={one.subscription_id.upper()}", {early, late}),
            (f"subscription={UNKNOWN_SUBSCRIPTION}", set()),
            (f"seller={one.service.seller_id}&status=pending", {late}),
            ("seller=1", set()),
            (f"order={first.lower()}&status=exhausted", {early}),
            (f"order={first}&status=pending", set()),
            (f"order={second}&since={rfc3339(since)}&subscription={one.subscription_id}", {late}),
            (f"order={second}&since={rfc3339(since + 1)}", set()),
            (f"order={second}&subscription={UNKNOWN_SUBSCRIPTION}", set()),
        ):
            assert {delivery["id"] for delivery in await one.listed(query)} == expected, query
        for query in (
            *("since=yesterday", "since=", "since=2026-13-01", "since=%00", "since=1e400", "status=lost"),
            *("subscription=x", "subscription=", "subscription=%00", f"order={first}&since=x"),
        ):
            assert await one.support.refused("GET", f"deliveries?{query}") == (400, "property_value"), query


async def test_list_has_pages_with_filters(database: Database) -> None:
    """Each row is on one page."""
    async with desk(database) as one:
        expected = {(await one.order("exhausted"))[1][0] for _ in range(3)}
        found, query = [], f"limit=2&status=exhausted&subscription={one.subscription_id}"
        page = await one.support.did("GET", f"deliveries?{query}")
        found += page["data"]
        page = await one.support.did("GET", f"deliveries?{query}&after={page['next']}")
        found += page["data"]
        assert ({delivery["id"] for delivery in found}, len(found), "next" in page) == (expected, 3, False)


async def test_parked_delivery_is_paused_without_next_date(database: Database) -> None:
    """A delivery of a paused subscription shows `paused` until it is resumed."""
    async with desk(database) as one:
        order_id, (delivery_id,) = await one.order()
        assert "paused" not in (await one.listed(f"order={order_id}"))[0]
        await one.change(delivery_id, "next_ms = $3", PARKED_MS)
        (listed,) = await one.listed(f"order={order_id}")
        assert (listed["paused"], "next_date" in listed) == (True, False)
        await one.change(delivery_id, "status = $3, ended_ms = 1", "exhausted")
        (listed,) = await one.listed(f"order={order_id}")
        assert ("paused" in listed, listed["ended_date"]) == (False, rfc3339(1))


async def test_resend_is_requested_and_audited(database: Database, clock: MovableClock) -> None:
    """In every status, also twice; the status stays, and support may request it."""
    clock.freeze()
    async with desk(database, clock) as one:
        for status in ("pending", "delivered", "exhausted", "superseded", "withdrawn"):
            _, (delivery_id,) = await one.order(*([] if status == "pending" else [status]))
            before = await one.row(delivery_id)
            answer = await one.resend(delivery_id)
            assert (answer["id"], answer["status"]) == (delivery_id, status)
            assert answer["resend_date"] == rfc3339(clock.now_ms())
            first = (await one.row(delivery_id))[-1]
            assert (await one.row(delivery_id))[:-1] == before[:-1]
            await one.resend(delivery_id)
            assert (await one.row(delivery_id))[-1] > first, "another request, in case the first is being attempted"
            entries = [entry for entry in await audited(one.service) if entry.subject == delivery_id]
            assert {(entry.operator_id, entry.action) for entry in entries} == {
                (one.support.operator_id, "deliveries.resend")
            }
            assert [entry.before["status"] for entry in entries] == [status] * 2
            assert sorted("resend_date" in entry.before for entry in entries) == [False, True]
            assert all("resend_date" in entry.after for entry in entries)


async def test_concurrent_resends_are_all_accepted(database: Database) -> None:
    """No request is lost or refused."""
    async with desk(database) as one:
        _, (delivery_id,) = await one.order("exhausted")
        answers = await asyncio.gather(*[one.resend(delivery_id) for _ in range(8)])
        assert {answer["status"] for answer in answers} == {"exhausted"}
        entries = [entry for entry in await audited(one.service) if entry.action == "deliveries.resend"]
        assert len(entries) == 8


async def test_resends_of_an_operator_have_a_rate(database: Database) -> None:
    """The receiver gets no flood; each operator has a limit of its own, and minutes restore it."""
    async with desk(database, settings=Settings(resends_per_minute=3)) as one:
        _, (delivery_id,) = await one.order("delivered")
        for _ in range(3):
            await one.resend(delivery_id)
        reply = await one.support.ask("POST", f"deliveries/{delivery_id}/resend")
        assert (reply.status, reply.code) == (429, "too_many_requests")
        assert 0 < int(reply.headers["Retry-After"]) <= 20
        assert (await one.owner.ask("POST", f"deliveries/{delivery_id}/resend")).status == 202
        advance(20)
        await one.resend(delivery_id)


async def test_resend_to_paused_subscription_returns_409(database: Database) -> None:
    """The detail says how to resume it; nothing is requested."""
    async with desk(database) as one:
        _, (delivery_id,) = await one.order("exhausted")
        await one.run("UPDATE subscriptions SET paused_ms = 1, paused_by = 'operator'")
        reply = await one.support.ask("POST", f"deliveries/{delivery_id}/resend")
        assert (reply.status, reply.code) == (409, "subscription_paused")
        assert reply.details == [f"Resume it first: paydesk subscriptions resume {one.subscription_id}"]
        assert (await one.row(delivery_id))[-1] is None
        assert await audited(one.service) == []


@pytest.mark.parametrize(
    "ending",
    [
        "UPDATE subscriptions SET deleted_ms = 1, paused_ms = 1, paused_by = 'operator'",
        "UPDATE authorizations SET withdrawn_ms = 1",
    ],
    ids=["deleted", "withdrawn"],
)
async def test_resend_to_ended_subscription_returns_409(database: Database, ending: str) -> None:
    """A deleted one, also if it was paused, and one whose seller has withdrawn the authorization."""
    async with desk(database) as one:
        _, (delivery_id,) = await one.order("withdrawn")
        await one.run(ending)
        assert await one.support.refused("POST", f"deliveries/{delivery_id}/resend") == (409, "subscription_ended")
        assert (await one.row(delivery_id))[-1] is None


async def test_unknown_deliveries_return_404(database: Database) -> None:
    """And malformed ids return 400, whatever they contain."""
    async with desk(database) as one:
        await one.order()
        for method, tail in (("GET", ""), ("POST", "/resend")):
            assert await one.support.refused(method, f"deliveries/{UNKNOWN}{tail}") == (404, "delivery_not_found")
            for bad in ("x", "%00", UNKNOWN + "0", f"{'a' * 37}.{UNKNOWN_SUBSCRIPTION}", UNKNOWN.replace(".", "%2E%00"),
                        "9" * 5000, UNKNOWN.replace(".", ":"), "é." + UNKNOWN_SUBSCRIPTION):  # fmt: skip
                refused = await one.support.refused(method, f"deliveries/{bad}{tail}")
                assert refused == (400, "invalid_path_param"), bad


async def test_replay_of_order(database: Database) -> None:
    """Exhausted and superseded ones become pending with a new schedule; others stay; again, nothing changes."""
    async with desk(database) as one:
        order_id, (first, second) = await one.order("superseded", "delivered", versions=2)
        _, (other,) = await one.order("exhausted")
        assert await one.replay(order=order_id) == 1
        status, attempts, uncounted, next_ms, ended_ms, _ = await one.row(first)
        assert (status, attempts, uncounted, ended_ms) == ("pending", 5, 5, None)
        assert abs(next_ms - one.service.clock.now_ms()) < 60_000
        assert (await one.row(second))[0] == "delivered"
        assert (await one.row(other))[0] == "exhausted"
        assert await one.replay(order=order_id) == 0
        (entry,) = await audited(one.service)
        assert (entry.operator_id, entry.action, entry.subject) == (
            one.support.operator_id,
            "deliveries.replay",
            order_id,
        )
        assert entry.after == {"count": 1}


async def test_replay_of_subscription_in_steps(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all sellers, and of no other subscription; the count is of all steps, each of which is audited."""
    monkeypatch.setattr(replaying, "STEP_ROWS_MAX", 2)
    async with desk(database) as one:
        ids = [delivery for _ in range(3) for delivery in (await one.order("exhausted", "superseded", versions=2))[1]]
        other_id, _ = await subscribe(database, URL, application_id=one.service.scene.application.application_id)
        _, (_, foreign) = await one.order("exhausted", "exhausted")
        mine = [found["id"] for found in await one.listed(f"subscription={one.subscription_id}&status=exhausted")]
        assert await one.replay(subscription_id=one.subscription_id.upper()) == len({*ids, *mine})
        for delivery_id in (*ids, *mine):
            assert (await one.row(delivery_id))[:3] == ("pending", 5, 5)
        others = [found["id"] for found in await one.listed(f"subscription={other_id}")]
        assert {(await one.row(delivery_id))[0] for delivery_id in others} == {"exhausted"}, foreign
        assert await one.replay(subscription_id=one.subscription_id) == 0
        counts = [entry.after["count"] for entry in await audited(one.service)]
        assert (sum(counts), max(counts)) == (len({*ids, *mine}), 2)


async def test_replay_of_subscription_with_sellers(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A seller who has withdrawn the authorization is left out, the others are replayed."""
    monkeypatch.setattr(replaying, "STEP_SELLERS_MAX", 1)
    async with desk(database) as one:
        _, (mine,) = await one.order("exhausted")
        sellers = [await seller_of_same_application(one.service) for _ in range(2)]
        for seller in sellers:
            assert (await seller.create(await seller.terminal())).status == 201
        await one.run("UPDATE deliveries SET status = 'exhausted', ended_ms = 1, attempts = 11")
        await one.run("UPDATE authorizations SET withdrawn_ms = 1 WHERE seller_id = $1", sellers[0].seller_id)
        assert await one.replay(subscription_id=one.subscription_id) == 2
        statuses = {found["seller_id"]: found["status"] for found in await one.listed("")}
        assert statuses == {
            one.service.seller_id: "pending",
            sellers[0].seller_id: "exhausted",
            sellers[1].seller_id: "pending",
        }
        assert (await one.row(mine))[0] == "pending"


@pytest.mark.on_postgres
async def test_replay_since(database: Database, clock: MovableClock) -> None:
    """Only deliveries created from that time on, of an order and of a subscription."""
    clock.freeze()
    async with desk(database, clock) as one:
        early_order, (early,) = await one.order("exhausted")
        clock.advance(60_000)
        since = rfc3339(clock.now_ms())
        _, (late,) = await one.order("exhausted")
        assert await one.replay(order=early_order, since=since) == 0
        assert await one.replay(subscription_id=one.subscription_id, since=since) == 1
        assert [(await one.row(delivery_id))[0] for delivery_id in (early, late)] == ["exhausted", "pending"]
        assert (await audited(one.service))[0].after == {"count": 1, "since": since}
        assert await one.replay(order=early_order, since="2020-01-31") == 1


@pytest.mark.on_postgres
async def test_replay_to_paused_subscription_waits(database: Database) -> None:
    """The deliveries are pending, and due when it is resumed."""
    async with desk(database) as one:
        order_id, (delivery_id,) = await one.order("exhausted")
        _, (other,) = await one.order("superseded")
        await one.run("UPDATE subscriptions SET paused_ms = 1, paused_by = 'failures'")
        assert await one.replay(order=order_id) == 1
        assert await one.replay(subscription_id=one.subscription_id) == 1
        for one_id in (delivery_id, other):
            status, *_, next_ms, _, _ = await one.row(one_id)
            assert (status, next_ms) == ("pending", PARKED_MS)


async def test_replay_to_ended_subscription(database: Database) -> None:
    """A deleted one returns 409; by order, deliveries of ended subscriptions are left out."""
    async with desk(database) as one:
        order_id, (delivery_id,) = await one.order("exhausted")
        await one.run("UPDATE subscriptions SET deleted_ms = 1")
        refused = await one.support.refused("POST", "deliveries/replay", {"subscription_id": one.subscription_id})
        assert refused == (409, "subscription_ended")
        assert await one.replay(order=order_id) == 0
        assert (await one.row(delivery_id))[0] == "exhausted"
        assert await audited(one.service) == []


async def test_invalid_replays_are_refused(database: Database) -> None:
    """Unknown ids return 404; a body must have exactly one of the two ids, and a valid time."""
    async with desk(database) as one:
        order_id, (delivery_id,) = await one.order("exhausted")
        for body, refusal in (
            ({"order": UNKNOWN_ORDER}, (404, "order_not_found")),
            ({"subscription_id": UNKNOWN_SUBSCRIPTION}, (404, "subscription_not_found")),
            ({}, (400, "property_value")),
            ({"since": "2026-01-31"}, (400, "property_value")),
            ({"order": order_id, "subscription_id": one.subscription_id}, (400, "property_value")),
            ({"order": "ORD1"}, (400, "property_value")),
            ({"order": order_id + "\0"}, (400, "property_value")),
            ({"order": 7}, (400, "property_type")),
            ({"order": None}, (400, "property_value")),
            ({"subscription_id": "x" * 60_000}, (400, "property_value")),
            ({"order": order_id, "since": "soon"}, (400, "property_value")),
            ({"order": order_id, "since": "2026-02-30T00:00:00Z"}, (400, "property_value")),
            ({"order": order_id, "since": 1}, (400, "property_type")),
            ({"order": order_id, "status": "withdrawn"}, (400, "unsupported_properties")),
            ([order_id], (400, "property_type")),
        ):
            assert await one.support.refused("POST", "deliveries/replay", body) == refusal, body
        assert (await one.row(delivery_id))[0] == "exhausted"


async def test_concurrent_replays_count_each_delivery_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their counts add up to the number of deliveries."""
    monkeypatch.setattr(replaying, "STEP_ROWS_MAX", 1)
    async with desk(database) as one:
        for _ in range(4):
            await one.order("exhausted")
        counts = await asyncio.gather(*[one.replay(subscription_id=one.subscription_id) for _ in range(4)])
        assert sum(counts) == 4
