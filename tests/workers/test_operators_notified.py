"""Operators are notified of events and of what needs a person: what is sent, to which subscription, and how often."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import pytest

import webhooks_scene as hooks
from notified_scene import CONSOLE, Notified, notified
from operator_calls import operator
from paydesk.core.secrets import Secret
from paydesk.engine.events.relay import sweep as number_events
from paydesk.engine.invariants import check
from paydesk.engine.webhooks.schemas import OPERATORS
from paydesk.operators.attention import notifying
from paydesk.operators.attention.notifying import EACH_MAX, ITEMS_MAX, page_of
from paydesk.platform import operator_events
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.storage.database import Database
from plain_rows import SELLER, STORE, TERMINAL, run
from retention_scene import sweep

ORDER = "ORD01J67CQQH5904WDBVZEM4JMEP3"
SUBSCRIPTION = "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"
UNANNOUNCED = "SELECT COUNT(*) FROM operator_events WHERE announced_ms IS NULL"
HOUR_MS, FUTURE_MS = 3_600_000, 4_102_444_800_000


def actions(got: list[dict[str, Any]]) -> list[str]:
    """Return the actions of notifications."""
    return [one["action"] for one in got]


async def record(one: Notified, *events: OperatorEvent) -> None:
    """Record operator events."""
    for event in events:
        await one.service.database.write(partial(operator_events.record, event=event, now_ms=one.now_ms))


@pytest.mark.on_postgres
async def test_an_operator_event_is_sent_once_with_valid_signatures(database: Database) -> None:
    """What happened is in the body, with a link to the console; what the event has as evidence is not."""
    async with notified(database) as one:
        made = await one.subscribe()
        await one.desk.did("POST", "operators", {"name": "Ada", "role": "owner", "email": "ada@shop.example"})
        (got,) = await one.step()
        received = one.receiver.got[0]
        subject = got["data"].pop("subject")
        assert got == {
            "id": received.headers["webhook-id"],
            "action": "event.owner_added",
            "api_version": "v1",
            "type": "operators",
            "date_created": got["date_created"],
            "data": {
                "kind": "owner_added",
                "message": "An operator has become an owner.",
                "since_date": got["date_created"],
                "url": f"{CONSOLE}/console/operators/{subject}",
            },
        }
        assert received.url.query["type"] == "operators"
        secret: Secret = made["secret"]
        seconds = int(received.headers["webhook-timestamp"])
        assert hooks.validity(secret, received, seconds) == (True, True)
        assert b"ada@shop.example" not in received.body
        assert await one.step() == await one.minute() == []


@pytest.mark.on_postgres
async def test_without_a_subscription_nothing_is_announced(database: Database) -> None:
    """Later ones get only what happens after them; after the last one is deleted nothing is announced."""
    async with notified(database) as one:
        await record(one, OperatorEvent("acquirer_reachable", "main", "It answers."))
        assert await one.step() == []
        one.clock.advance(1)
        made = await one.subscribe()
        assert await one.step() == []
        one.clock.advance(1)
        await record(one, OperatorEvent("late_approval", ORDER, "Late.", 7))
        (got,) = await one.step()
        assert (got["data"]["seller_id"], got["data"]["url"]) == (7, f"{CONSOLE}/console/orders/{ORDER}")
        await one.desk.ask("DELETE", f"subscriptions/{made['id']}")
        await record(one, OperatorEvent("late_approval", ORDER, "Late.", 7))
        assert await one.minute() == []
        row = await database.read(lambda tx: tx.one(UNANNOUNCED))
        assert row is not None
        assert row[0] == 2


async def test_a_subscription_gets_the_actions_that_it_names(database: Database) -> None:
    """A group, a kind, or everything."""
    async with notified(database) as one:
        application = await one.application()
        await one.step()
        for path, chosen in {"all": (), "a": ("attention",), "e": ("event",), "k": ("event.late_approval",)}.items():
            await one.subscribe(*chosen, url=f"{one.receiver.url}&at={path}")
        await one.step()
        await one.fail(application, one.now_ms)
        await record(one, OperatorEvent("late_approval", ORDER, "Late.", 7))
        await record(one, OperatorEvent("acquirer_reachable", "main", "It answers."))
        await one.minute()
        by_path: dict[str, set[str]] = {}
        for got in one.receiver.got:
            by_path.setdefault(got.url.query["at"], set()).add(got.body.decode().split('"')[7])
        late, reachable, failing = "event.late_approval", "event.acquirer_reachable", "attention.subscription_failing"
        assert by_path == {
            "all": {late, reachable, failing},
            "a": {failing},
            "e": {late, reachable},
            "k": {late},
        }


@pytest.mark.on_postgres
async def test_an_item_is_sent_when_it_appears_and_when_it_is_gone(database: Database) -> None:
    """In this order; not while it stays, and not if it ends within a minute."""
    async with notified(database) as one:
        application = await one.application()
        await one.subscribe()
        assert await one.step() == []
        await one.fail(application, one.now_ms)
        one.clock.advance(59_000)
        await one.fail(application, None)
        assert await one.minute() == []
        since_ms = one.now_ms
        await one.fail(application, since_ms)
        (got,) = await one.minute()
        (item,) = (await one.desk.did("GET", "attention"))["data"]
        url = f"{CONSOLE}/console/webhooks/subscriptions/{application}"
        assert (got["action"], got["data"]) == (
            "attention.subscription_failing",
            {**item, "state": "open", "url": url},
        )
        assert await one.minute() == []
        await one.fail(application, None)
        (gone,) = await one.minute()
        assert gone["data"]["state"] == "gone"
        assert (gone["data"]["subject"], gone["data"]["since_date"]) == (application, item["since_date"])
        assert gone["data"]["message"] == "Notifications fail: this no longer needs a person."
        assert await one.minute() == []
        await number_events(one.context, asyncio.Event())
        assert await check.check(database, one.now_ms) == []


async def test_terminals_of_a_seller_and_of_a_store_with_its_number_are_two_items(database: Database) -> None:
    """Each is sent."""
    now_ms = round(time.time() * 1000)
    for seller_id, store_id, count in ((5, 1, 10), (5, 2, 10), (6, 5, 10), (6, 9, 40)):
        await run(database, SELLER, seller_id, f"{seller_id}@shop.example", "Shop")
        await run(database, STORE, seller_id, store_id, "Centro")
        for number in range(count):
            await run(database, TERMINAL, seller_id, f"N950__{seller_id}{store_id}{number:04}", store_id, FUTURE_MS)
    async with notified(database) as one:
        await one.subscribe()
        assert await one.step() == []
        for condition in ("seller_id = 5", "store_id = 5"):
            await run(database, f"UPDATE terminals SET last_seen_ms = $1 WHERE {condition}", now_ms - HOUR_MS)
            (got,) = await one.minute()
            assert (got["data"]["kind"], got["data"]["subject"]) == ("terminals_offline", "5")


async def test_what_is_open_at_first_is_not_sent(database: Database) -> None:
    """Its end is."""
    async with notified(database) as one:
        application = await one.application()
        await one.fail(application, 1)
        await one.subscribe()
        assert await one.minute() == await one.minute() == []
        await one.fail(application, None)
        assert [got["data"]["state"] for got in await one.minute()] == ["gone"]


async def test_a_thousand_items_at_once_are_one_notification(database: Database) -> None:
    """With their number; so is their end."""
    async with notified(database) as one:
        await one.subscribe()
        await one.step()
        made = [await one.application() for _ in range(EACH_MAX + 1)]
        for application in made:
            await one.fail(application, one.now_ms)
        (got,) = await one.minute()
        assert (got["data"]["count"], got["data"]["state"]) == (EACH_MAX + 1, "open")
        assert got["data"]["message"] == f"Notifications fail: {EACH_MAX + 1} at once."
        for application in made[1:]:
            await one.fail(application, None)
        assert [got["data"]["state"] for got in await one.minute()] == ["gone"] * EACH_MAX
        await one.fail(made[0], None)
        (last,) = await one.minute()
        assert last["data"]["subject"] == made[0]


async def test_what_a_list_at_its_limit_leaves_out_is_not_gone(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is gone once the list is whole again."""
    async with notified(database) as one:
        first, second = sorted([await one.application(), await one.application()])
        await one.subscribe()
        await one.step()
        await one.fail(first, one.now_ms)
        await one.fail(second, one.now_ms)
        assert len(await one.minute()) == 2
        monkeypatch.setattr(notifying, "ITEMS_MAX", 1)
        await one.fail(first, None)
        assert await one.minute() == []
        monkeypatch.setattr(notifying, "ITEMS_MAX", ITEMS_MAX)
        assert [got["data"]["subject"] for got in await one.minute()] == [first]


async def test_a_failing_receiver_is_retried_and_makes_no_further_notifications(database: Database) -> None:
    """By the same schedule. Of its failures another subscription gets one item of each kind, and no event."""
    async with notified(database, hooks.failing(500), webhook_retry_seconds=(10, 20)) as one:
        made, other = await one.subscribe(), await one.subscribe("event")
        await one.step()
        await record(one, OperatorEvent("late_approval", ORDER, "Late.", 7))
        await one.step()
        for _ in range(3):
            await one.minute()
        attempts = [got.headers["X-Retry"] for got in one.receiver.got if b"late_approval" in got.body]
        assert sorted(attempts) == ["0", "0", "1", "1", "2", "2"]
        refused = OperatorEvent("webhook_address_refused", made["id"], "Refused.")
        await record(one, refused, OperatorEvent("webhook_paused", other["id"], "Paused."))
        for _ in range(6):
            await one.minute()
        assert await one.minute() == []
        rows = (await one.desk.did("GET", "deliveries"))["data"]
        # The first is notified that the other one fails: of nothing else, and not of itself.
        assert sorted((row["subscription_id"], row["action"]) for row in rows) == sorted(
            [
                (made["id"], "event.late_approval"),
                (made["id"], "attention.deliveries_exhausted"),
                (made["id"], "attention.subscription_failing"),
                (other["id"], "event.late_approval"),
            ]
        )


async def test_a_paused_subscription_keeps_its_notifications(database: Database) -> None:
    """They are sent when it is resumed; one that was given up is sent again by an operator."""
    async with notified(database) as one:
        made = await one.subscribe()
        await one.desk.did("POST", f"subscriptions/{made['id']}/pause")
        await record(one, OperatorEvent("late_approval", ORDER, "Late.", 7))
        assert await one.step() == []
        (waiting,) = (await one.desk.did("GET", f"deliveries?subscription={made['id']}"))["data"]
        assert (waiting["status"], waiting["paused"]) == ("pending", True)
        await one.desk.did("POST", f"subscriptions/{made['id']}/resume")
        got = await one.step() + await one.step()
        assert actions(got) == ["event.late_approval"]


@pytest.mark.on_postgres
async def test_deliveries_for_operators_are_pruned(database: Database) -> None:
    """As those of sellers are."""
    async with notified(database) as one:
        await one.subscribe()
        await record(one, OperatorEvent("late_approval", ORDER, "Late.", 7))
        assert len(await one.step()) == 1
        one.clock.advance(31 * 24 * HOUR_MS)
        count = f"SELECT COUNT(*) FROM deliveries WHERE seller_id = {OPERATORS}"
        await sweep(database, one.clock)
        row = await database.read(lambda tx: tx.one(count))
        assert row is not None
        assert row[0] == 0


async def test_a_clock_that_was_set_back_does_not_stop_the_comparison(database: Database) -> None:
    """The next one is made at once."""
    async with notified(database) as one:
        await one.subscribe()
        application = await one.application()
        await one.step()
        await one.fail(application, one.now_ms)
        await run(database, "UPDATE attention_watch SET next_ms = $1", one.now_ms + 24 * HOUR_MS)
        assert actions(await one.minute()) == ["attention.subscription_failing"]


async def test_viewers_read_the_deliveries(database: Database) -> None:
    """The list, one with its body, the verdicts on its signatures, the search."""
    async with notified(database) as one:
        made = await one.subscribe()
        await record(one, OperatorEvent("late_approval", ORDER, "Late.", 7))
        await one.step()
        viewer = await operator(one.service, "viewer")
        (row,) = (await viewer.did("GET", "deliveries"))["data"]
        assert (row["topic"], row["action"], row["status"]) == ("operators", "event.late_approval", "delivered")
        assert "order_id" not in row
        assert "client_id" not in row
        shown = await viewer.did("GET", f"deliveries/{row['id']}")
        assert shown["notification"]["data"]["subject"] == ORDER
        (hit,) = (await viewer.did("GET", f"search?q={row['id']}"))["data"]
        assert (hit["type"], hit["detail"]) == ("delivery", "operators")
        assert await viewer.refused("POST", f"deliveries/{row['id']}/resend") == (403, "forbidden")
        support = await operator(one.service, "support")
        assert (await support.ask("POST", f"deliveries/{row['id']}/resend")).status == 202
        assert row["subscription_id"] == made["id"]


@pytest.mark.parametrize(
    ("kind", "subject", "page"),
    [
        ("acquirer_unreachable", "main", "/console/acquirers"),
        ("acquirer_answer_differs", ORDER, f"/console/orders/{ORDER}"),
        ("webhook_paused", SUBSCRIPTION, f"/console/webhooks/subscriptions/{SUBSCRIPTION}"),
        ("webhook_address_refused", "7", "/console"),
        ("terminal_session_conflict", "A__1/2", "/console/terminals/A__1%2F2"),
        ("sign_in_failures", "unknown_email", "/console"),
    ],
)
def test_an_event_leads_to_a_page(kind: str, subject: str, page: str) -> None:
    """That of its subject, if it has one."""
    assert page_of(kind, subject) == page
