"""GET /operator/v1/attention: what needs a person."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

import pytest

from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock
from paydesk.operators.attention import store
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Row, Transaction
from plain_rows import DELIVERY, EVENT, REFUND, REVERSAL, SELLER, STORE, SUBSCRIBE, SUBSCRIPTION, TERMINAL, run
from print_scene import print_on
from resolving_scene import unknown
from service import running

OFFLINE = "UPDATE terminals SET last_seen_ms = 1000 WHERE terminal_id = $1"
SEEN_MS = 4102444800000
GO = "UPDATE terminals SET last_seen_ms = $4 WHERE seller_id = $1 AND store_id = $2 AND terminal_id >= $3"
GO_ONE = "UPDATE terminals SET last_seen_ms = $2 WHERE terminal_id = $1"
BACK = "UPDATE terminals SET last_seen_ms = $2 WHERE store_id = $1"
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


@dataclass(frozen=True)
class Shops:
    """Terminals of sellers, which are seen or not."""

    database: Database

    async def add(self, seller_id: int, store_id: int, name: str, count: int) -> None:
        """Add a store with terminals that are online."""
        await run(self.database, SELLER, seller_id, f"{seller_id}@example.com", f"Seller {seller_id}")
        await run(self.database, STORE, seller_id, store_id, name)
        for number in range(count):
            await run(self.database, TERMINAL, seller_id, f"N950__{seller_id}{store_id}{number:04}", store_id, SEEN_MS)

    async def silence(self, seller_id: int, store_id: int, ago_ms: int, besides: int = 0) -> None:
        """Let all terminals of a store be seen last at a time, besides some."""
        since_ms = round(time.time() * 1000) - ago_ms
        least = f"N950__{seller_id}{store_id}{besides:04}"
        await run(self.database, GO, seller_id, store_id, least, since_ms)


@pytest.mark.on_postgres
async def test_terminals_that_went_offline_together_are_one_item(database: Database) -> None:
    """Of a store, of a seller or of all, with how many of how many; not if they went one after the other."""
    async with running(database, workers=False) as service:
        desk, shops = await operator(service), Shops(database)
        await shops.add(71, 1, "Centro", 12)
        await shops.add(71, 2, "Norte", 20)
        await shops.add(72, 3, "Sul", 30)
        assert await items(desk) == []
        await shops.silence(71, 1, 3_600_000, besides=2)
        (item,) = await items(desk)
        assert (item["kind"], item["subject"], item["count"], item["total"]) == ("terminals_offline", "1", 10, 12)
        assert item["message"].startswith("10 of 12 terminals of Seller 71, Centro, are offline, most since ")
        assert (item["seller_id"], item["store_id"], item["live_mode"]) == (71, 1, True)
        await shops.silence(71, 2, 3_590_000)
        (item,) = await items(desk)
        assert (item["subject"], item["count"], item["total"]) == ("71", 30, 32)
        assert "terminals of Seller 71 are" in item["message"]
        await shops.silence(72, 3, 3_580_000)
        (item,) = await items(desk)
        assert (item["subject"], item["count"], item["total"]) == ("all", 60, 62)
        assert "terminals of all sellers are" in item["message"]
        for store_id in (1, 2):
            await run(database, BACK, store_id, SEEN_MS)
        # The store that has all terminals of its seller is named.
        assert [one["subject"] for one in await items(desk)] == ["3"]
        for number in range(30):
            since_ms = round(time.time() * 1000) - 600_000 * (number + 1)
            await run(database, GO_ONE, f"N950__723{number:04}", since_ms)
        assert await items(desk) == []


async def test_an_order_at_a_terminal_that_went_with_others_is_no_item_of_its_own(database: Database) -> None:
    """Until a card may have been charged."""
    async with running(database, workers=False) as service:
        desk, shops = await operator(service), Shops(database)
        device = await service.device(await service.terminal())
        order_id = (await service.create(device.terminal)).body["id"]
        assert (await device.ack(order_id[3:])).status == 200
        await shops.add(service.seller_id, 1, "Centro", 12)
        await run(database, "UPDATE terminals SET live = 0")
        await run(database, "UPDATE terminals SET store_id = 1 WHERE terminal_id = $1", device.terminal.id)
        await shops.silence(service.seller_id, 1, 600_000)
        await run(database, "UPDATE terminals SET last_seen_ms = $1", round(time.time() * 1000) - 600_000)
        (item,) = await items(desk)
        assert (item["kind"], item["count"], item["live_mode"]) == ("terminals_offline", 13, False)
        assert (await device.authorizing(order_id[3:])).status == 200
        await run(database, "UPDATE terminals SET last_seen_ms = $1", round(time.time() * 1000) - 600_000)
        assert [one["kind"] for one in await items(desk)] == ["terminals_offline", "order_stuck"]


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
