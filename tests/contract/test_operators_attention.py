"""GET /operator/v1/attention: what needs a person."""

from __future__ import annotations

import re
from typing import Any

import pytest

from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock
from paydesk.operators.attention import store
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Row, Transaction
from plain_rows import DELIVERY, EVENT, REFUND, REVERSAL, SUBSCRIBE, SUBSCRIPTION, run
from print_scene import print_on
from resolving_scene import unknown
from service import running

OFFLINE = "UPDATE terminals SET last_seen_ms = 1000 WHERE terminal_id = $1"
ONLINE = "UPDATE terminals SET last_seen_ms = 4102444800000 WHERE terminal_id = $1"
SENTENCE = re.compile(r"[A-Z0-9].*\.")


async def items(desk: Operator) -> list[dict[str, Any]]:
    """Return what needs a person; every item has sentences."""
    found: list[dict[str, Any]] = (await desk.did("GET", "attention"))["data"]
    for item in found:
        assert SENTENCE.fullmatch(item["message"]), item
        assert SENTENCE.fullmatch(item["do"]), item
        assert item["since_date"] in item["message"] or "never been online" in item["message"]
    return found


async def test_nothing_needs_a_person_at_first(database: Database) -> None:
    """Also while an order is at a terminal that is online."""
    async with running(database, workers=False) as service:
        desk, device = await operator(service, "support"), await service.device(await service.terminal())
        assert await items(desk) == []
        await run(database, ONLINE, device.terminal.id)
        assert (await service.create(device.terminal)).status == 201
        assert await items(desk) == []


async def test_an_unknown_outcome_needs_a_person(database: Database) -> None:
    """It says from when on the order can be resolved, and then that it can."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        desk, device = await operator(service), await service.device(await service.terminal())
        order_id = await unknown(service, device)
        (item,) = await items(desk)
        assert (item["kind"], item["subject"], item["order_id"]) == ("outcome_unknown", order_id, order_id)
        assert item["terminal_id"] == device.terminal.id
        assert item["live_mode"] is False
        assert "24.90 BRL" in item["message"]
        assert "you can resolve the order from" in item["do"]
        assert item["resolvable_date"] in item["do"]
        clock.advance(180_000)
        (item,) = await items(desk)
        assert "then resolve the order" in item["do"]
        body = {"outcome": "declined", "reason": "Not in the portal."}
        await desk.did("POST", f"orders/{order_id}/resolve", body)
        assert await items(desk) == []


async def test_an_order_at_an_offline_terminal_needs_a_person(database: Database) -> None:
    """It says since when the terminal is offline, and whether it can be released."""
    async with running(database, workers=False) as service:
        desk, device = await operator(service), await service.device(await service.terminal())
        order_id = (await service.create(device.terminal)).body["id"]
        assert (await device.ack(order_id[3:])).status == 200
        await run(database, OFFLINE, device.terminal.id)
        (item,) = await items(desk)
        assert (item["kind"], item["order_id"], item["since_date"]) == (
            "order_stuck",
            order_id,
            "1970-01-01T00:00:01.000Z",
        )
        assert "release the terminal" in item["do"]
        assert (await device.authorizing(order_id[3:])).status == 200
        await run(database, OFFLINE, device.terminal.id)
        (item,) = await items(desk)
        assert "the card may have been charged" in item["do"]
        never = await service.terminal()
        await run(database, "UPDATE terminals SET last_seen_ms = NULL WHERE terminal_id = $1", never.id)
        assert (await service.create(never)).status == 201
        assert "has never been online" in {one["terminal_id"]: one for one in await items(desk)}[never.id]["message"]


async def test_an_unanswered_cancel_request_needs_a_person(database: Database) -> None:
    """After half of the time in which the terminal should answer."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        desk, device = await operator(service), await service.device(await service.terminal())
        order_id = (await service.create(device.terminal)).body["id"]
        assert (await device.ack(order_id[3:])).status == 200
        headers = {"X-Allow-Cancelable-Status": "at_terminal"}
        assert (await service.cancel(order_id, headers=headers)).status == 202
        await run(database, ONLINE, device.terminal.id)
        assert await items(desk) == []
        clock.advance(15_000)
        (item,) = await items(desk)
        assert (item["kind"], item["order_id"]) == ("cancel_unanswered", order_id)


async def test_slow_refunds_and_reversals_need_a_person(database: Database) -> None:
    """After three minutes, or at once if operators were alerted."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        desk, own = await operator(service), service.seller_id
        await run(database, REFUND.replace("'processed'", "'processing'"), own, "REF01J67CQQH5904WDBVZEM4JMEP3")
        await run(database, REVERSAL.replace("'reversed'", "'pending'"), own, "01J67CQQH5904WDBVZEM4JMEP4", "x")
        await run(database, "UPDATE refunds SET created_ms = $1, next_ms = $1", clock.now_ms())
        await run(database, "UPDATE reversals SET created_ms = $1, next_ms = $1", clock.now_ms())
        assert await items(desk) == []
        await run(database, "UPDATE refunds SET alerted_ms = 1")
        assert [item["kind"] for item in await items(desk)] == ["refund_slow"]
        clock.advance(180_000)
        reversal, refund = await items(desk)
        assert (reversal["kind"], reversal["subject"]) == ("reversal_unconfirmed", "01J67CQQH5904WDBVZEM4JMEP4")
        assert (refund["subject"], refund["order_id"]) == (
            "REF01J67CQQH5904WDBVZEM4JMEP3",
            "ORD01J67CQQH5904WDBVZEM4JMEP3",
        )


async def test_a_failing_subscription_needs_a_person(database: Database) -> None:
    """While it fails, when it was paused for it, and for what could not be delivered in the last seven days."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        desk, now_ms = await operator(service), clock.now_ms()
        await run(database, SUBSCRIBE, SUBSCRIPTION)
        assert await items(desk) == []
        await run(database, "UPDATE subscriptions SET failing_since_ms = $1", now_ms)
        (item,) = await items(desk)
        assert (item["kind"], item["subject"]) == ("subscription_failing", SUBSCRIPTION)
        assert "token=***" in item["message"]
        await run(database, "UPDATE subscriptions SET paused_ms = $1, paused_by = 'failures'", now_ms)
        assert [one["kind"] for one in await items(desk)] == ["subscription_paused"]
        await run(database, "UPDATE subscriptions SET paused_by = 'operator'")
        assert await items(desk) == []
        for number, status in enumerate(("exhausted", "exhausted", "superseded", "delivered")):
            event_id = f"{number:08x}-8f1e-4f0b-9d5c-2b7a90c1e4d6"
            key = f"{event_id}.{SUBSCRIPTION}"
            order_id = f"ORD01J67CQQH5904WDBVZEM4JMEP{number}"
            await run(database, EVENT, service.seller_id, order_id, 1, event_id, "order.processed", 1)
            await run(database, DELIVERY, service.seller_id, key, SUBSCRIPTION, order_id, 1, status, 1)
        await run(database, "UPDATE deliveries SET ended_ms = $1", now_ms)
        (item,) = await items(desk)
        assert (item["kind"], item["count"]) == ("deliveries_exhausted", 2)
        assert item["message"].startswith("2 notifications to https://8.8.8.8")
        assert item["do"] == "Repair the receiver, then send them again."
        clock.advance(8 * 24 * 3_600_000)
        assert await items(desk) == []


@pytest.mark.on_postgres
async def test_a_print_action_that_holds_a_terminal_needs_a_person(database: Database) -> None:
    """After a minute; money comes first."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        desk, terminal = await operator(service), await service.terminal()
        action_id = (await print_on(service, terminal)).body["id"]
        assert await items(desk) == []
        clock.advance(60_000)
        (item,) = await items(desk)
        assert (item["kind"], item["subject"], item["terminal_id"]) == ("print_stuck", action_id, terminal.id)
        device = await service.device(await service.terminal())
        await unknown(service, device)
        assert [one["kind"] for one in await items(desk)] == ["outcome_unknown", "print_stuck"]


@pytest.mark.parametrize(
    ("sql", "args", "index"),
    [
        (store.ORDERS, (1, 2), "orders_live_on_terminal"),
        (store.REFUNDS, (1, 2), "refunds_"),
        (store.REVERSALS, (1, 2), "reversals_due"),
        (store.SUBSCRIPTIONS, (1, 2), "subscriptions"),
        (store.ACTIONS, (1, 2), "print_actions_"),
    ],
)
async def test_only_what_is_open_is_read(sqlite_url: str, sql: str, args: tuple[Any, ...], index: str) -> None:
    """By an index of open rows."""

    async def explained(tx: Transaction) -> list[Row]:
        return await tx.all(f"EXPLAIN QUERY PLAN {sql}", *args)

    database = await open_database(sqlite_url)
    steps = [row[3] for row in await database.read(explained)]
    await database.close()
    assert index in steps[0], steps
    read = [step for step in steps if step.startswith(("SCAN", "SEARCH")) and step != "SCAN counted"]
    assert all("USING" in step for step in read), steps
    assert all("deliveries_exhausted" in step for step in read if step.startswith("SEARCH d ")), steps


async def test_many_superseded_deliveries_hide_none_that_is_exhausted(database: Database) -> None:
    """Also one that was exhausted last."""
    async with running(database, workers=False) as service:
        desk, now_ms = await operator(service), service.clock.now_ms()
        await run(database, SUBSCRIBE, SUBSCRIPTION)
        for number in range(store.DELIVERIES_MAX + 2):
            event_id = f"{number:08x}-8f1e-4f0b-9d5c-2b7a90c1e4d6"
            order_id, key = f"ORD01J67CQQH5904WDBVZEM4J{number:04}", f"{event_id}.{SUBSCRIPTION}"
            status = "exhausted" if number > store.DELIVERIES_MAX else "superseded"
            await run(database, EVENT, service.seller_id, order_id, 1, event_id, "order.processed", 1)
            await run(database, DELIVERY, service.seller_id, key, SUBSCRIPTION, order_id, 1, status, 1)
        await run(database, "UPDATE deliveries SET ended_ms = $1", now_ms)
        (item,) = await items(desk)
        assert (item["kind"], item["count"]) == ("deliveries_exhausted", 1)
