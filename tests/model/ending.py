"""The end of a run: all comes to rest, every order is looked at once more, and every promise is held to account."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from functools import partial
from pathlib import Path

from faults import checker, final_state
from faults.final_state import Facts
from model.shop import Shop, listed
from model.world import USUAL_MINOR, Op, overdue
from paydesk.invariants import check
from paydesk.storage.connect import open_database

LATE_MS, SETTLE_MS, FURTHER_MS = 31_000, 240_000, 270_000
"""Answers that are late arrive, then all comes due, also what a node that died had claimed, and what was asked for in
vain is asked for again."""
LAST_SALES = (
    # Nobody tells of the charge: the acquirer must be asked.
    (0, USUAL_MINOR, 900, ("result", "create", "ack", "authorizing", "charge")),
    # All of it is under way for a while: no more can be had.
    (1, 9_990_034, 900, ("result", "create", "ack", "authorizing", "result", "refund", "refund_part", "refund")),
    # The charge is told of when the order has expired: it must go back.
    (1, USUAL_MINOR, 30, ("result", "create", "ack", "charge")),
    # The acquirer does not want to give it back.
    (2, 9_990_030, 900, ("result", "create", "ack", "authorizing", "result", "refund", "refund_part")),
)
"""So that every run has these: which terminal, the price, the seconds that there are, and what happens."""
SETTLE_SECONDS_MAX, PATIENCE_SECONDS = 40.0, 0.7
PAGES_MAX = 50

Seen = dict[str, tuple[str, ...]]
"""Orders as they were shown: status and version."""


async def settle(shop: Shop) -> None:
    """Let everything come due and be done; then nothing may be left that a worker should have moved."""
    for terminal, price, seconds, kinds in LAST_SALES:
        for kind in kinds:
            await shop.perform([shop.op(kind, terminal, price=price, seconds=seconds)])
    shop.receiver.calm()
    await shop.pass_time(LATE_MS)
    await _tell_of_charges(shop)
    await shop.pass_time(SETTLE_MS)
    deadline, patience = time.monotonic() + SETTLE_SECONDS_MAX, time.monotonic() + PATIENCE_SECONDS
    while (left := await final_state.unsettled(shop.database_url)) != (0, 0):
        await shop.up()
        assert time.monotonic() < deadline, f"notifications and orders that are due are not done: {left}"
        if time.monotonic() > patience:
            await shop.pass_time(FURTHER_MS)
            patience = time.monotonic() + PATIENCE_SECONDS
        await asyncio.sleep(0.05)
    for terminal in range(len(shop.orders)):
        await _look_at_all(shop, terminal, deadline)
    await shop.refresh(1)
    shop.family.works_at_the_end = True


async def _tell_of_charges(shop: Shop) -> None:
    """Whoever charged a card and was never let do so says it at last."""
    for terminal, orders in enumerate(shop.orders):
        for order_id in set(orders) & set(shop.purse.missed_wakeups()):
            number = shop.next_number()
            amount_minor = shop.notes.amounts[order_id]
            await shop.perform(
                [Op("result", terminal, number, order_id, shop.sessions[terminal], amount_minor=amount_minor)]
            )


async def _look_at_all(shop: Shop, terminal: int, deadline: float) -> None:
    # One after the other: at once there would be too many ways in which it may have been.
    for back in range(len(shop.orders[terminal])):
        await shop.perform([shop.op("get", terminal, back=back)])
    while any(overdue(world, shop.now_ms) for world in shop.worlds[terminal]):
        assert time.monotonic() < deadline, f"overdue:\n{listed(shop.worlds[terminal])}"
        await asyncio.sleep(0.1)
        await shop.perform([shop.op("get", terminal)])


async def hold_to_account(shop: Shop) -> list[str]:
    """Every promise, read off the answers, the notifications, the log, and the database that nobody serves."""
    found_by_search = await _searched(shop)
    told = await _told(shop)
    await shop.stop()
    log = await asyncio.to_thread(shop.node.log.read_text)
    found = [*checker.defects("the node", log), *shop.records.violations]
    database = await open_database(shop.database_url)
    try:
        facts = await final_state.read(database, shop.records)
        found += checker.violations(shop.records, facts)
        found += _other_than_searched(facts, found_by_search)
        found += _other_than_told(facts, told)
        found += [f"ledger: {finding}" for finding in await check.check(database, shop.now_ms)]
    finally:
        await database.close()
    if database.name == "sqlite":
        content = await asyncio.to_thread(Path(shop.database_url.removeprefix("sqlite:")).read_bytes)
        found += [f"{name} is in the database" for name in _secrets_in(shop, content)]
    return found + [f"{name} is in the log" for name in _secrets_in(shop, log.encode())]


async def _searched(shop: Shop) -> Seen:
    """All orders, as searching by their terminals shows them."""
    seen: Seen = {}
    for seed in shop.seeds:
        path, page = f"/v1/orders?terminal_id={seed.terminal_id}&limit=100", 0
        while page < PAGES_MAX:
            headers = {"Authorization": f"Bearer {seed.access_token}"}
            answer = await shop.repeated(partial(shop.ask, "GET", f"{path}&offset={page * 100}", None, headers))
            assert answer.status == 200, answer
            seen |= {one["id"]: (one["status"], str(one["version"])) for one in answer.body["data"]}
            page += 1
            if len(answer.body["data"]) < 100:
                break
    return seen


def _other_than_searched(facts: Facts, seen: Seen) -> list[str]:
    """Promise 10 and a write is found by the next read: a search shows every order, as it is."""
    kept = {one.order_id: (one.shown[0], str(one.version)) for one in facts.orders.values()}
    return [
        f"{order_id} is {kept.get(order_id)}, and searching shows {seen.get(order_id)}"
        for order_id in sorted(kept.keys() | seen.keys())
        if kept.get(order_id) != seen.get(order_id)
    ]


Feeds = dict[tuple[int, bool], list[tuple[str, int]]]
"""Of each seller, live or test, the order and version of every event of the feed, as they came."""


async def _told(shop: Shop) -> Feeds:
    """Every feed of events from its beginning to its end."""
    feeds: Feeds = {}
    for seed in shop.seeds:
        feed: list[tuple[str, int]] = []
        after, headers = "", {"Authorization": f"Bearer {seed.access_token}"}
        for _ in range(PAGES_MAX):
            path = f"/v1/events{after}"
            answer = await shop.repeated(partial(shop.ask, "GET", path, None, headers))
            assert answer.status == 200, answer
            if not answer.body["data"]:
                break
            feed += [(one["data"]["id"], one["data"]["version"]) for one in answer.body["data"]]
            after = f"?after={answer.body['next']}"
        feeds[seed.seller, seed.live] = feed
    return feeds


def _other_than_told(facts: Facts, feeds: Feeds) -> list[str]:
    """Promises 7 and 10: a feed tells of every event of its seller's, live or test, once, an order's in their order."""
    found, told = [], Counter(event for feed in feeds.values() for event in feed)
    for order in facts.orders.values():
        found += [
            f"version {event.version} of {order.order_id} is told {told[order.order_id, event.version]} times"
            for event in order.events
            if told[order.order_id, event.version] != 1
        ]
    for (seller, live), feed in feeds.items():
        latest: dict[str, int] = {}
        for order_id, version in feed:
            if version != latest.get(order_id, 0) + 1:
                found.append(f"version {version} of {order_id} is told after {latest.get(order_id)}")
            if order_id in facts.orders and facts.orders[order_id].live != live:
                found.append(f"{order_id} is told to seller {seller} as {'live' if live else 'test'}")
            latest[order_id] = version
    return found


def _secrets_in(shop: Shop, content: bytes) -> list[str]:
    named = {f"device token {number}": seed.device_token for number, seed in enumerate(shop.seeds)}
    named |= {f"access token {number}": seed.access_token for number, seed in enumerate(shop.seeds)}
    named["client secret"] = shop.application.credentials["client_secret"]
    for number, (_, given) in enumerate(shop.family.steps):
        for access_token, refresh_token in given:
            named |= {f"refreshed access {number}": access_token, f"refreshed refresh {number}": refresh_token}
    return [name for name, secret in named.items() if secret.encode() in content]
