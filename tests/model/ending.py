"""The end of a run: all work settles, every order is read once more, and every promise is checked."""

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
from paydesk.engine.invariants import check
from paydesk.platform.storage.connect import open_database

LATE_MS, SETTLE_MS, FURTHER_MS = 31_000, 240_000, 270_000
"""Late responses arrive; then all work is due, including expired leases and retries."""
LAST_SALES = (
    # The charge is not reported: the acquirer must be asked.
    (0, USUAL_MINOR, 900, ("result", "create", "ack", "authorizing", "charge")),
    # The full amount is reserved for a while: a further refund is rejected.
    (1, 9_990_034, 900, ("result", "create", "ack", "authorizing", "result", "refund", "refund_part", "refund")),
    # The charge is reported after the expiry: it must be reversed.
    (1, USUAL_MINOR, 30, ("result", "create", "ack", "charge")),
    # The acquirer declines the refund.
    (2, 9_990_030, 900, ("result", "create", "ack", "authorizing", "result", "refund", "refund_part")),
)
"""Sales of every run: the terminal, the amount, the expiration in seconds, and the requests."""
SETTLE_SECONDS_MAX = 180.0
"""Only a hang takes so long."""
PATIENCE_SECONDS, MORE_PATIENCE = 0.7, 1.5
"""How long the work has before time passes again, which may restart the node: longer each time, for a busy machine."""
PAGES_MAX = 50

Seen = dict[str, tuple[str, ...]]
"""Status and version by order id."""


async def settle(shop: Shop) -> None:
    """Make all work due and wait for it; then no order may be overdue."""
    for terminal, price, seconds, kinds in LAST_SALES:
        for kind in kinds:
            await shop.perform([shop.op(kind, terminal, price=price, seconds=seconds)])
    shop.receiver.calm()
    await shop.pass_time(LATE_MS)
    await _report_charges(shop)
    await shop.pass_time(SETTLE_MS)
    patience = PATIENCE_SECONDS
    deadline, later = time.monotonic() + SETTLE_SECONDS_MAX, time.monotonic() + patience
    while (left := await final_state.unsettled(shop.database_url)) != (0, 0):
        await shop.up()
        assert time.monotonic() < deadline, f"notifications and orders that are due are not done: {left}"
        if time.monotonic() > later:
            await shop.pass_time(FURTHER_MS)
            patience *= MORE_PATIENCE
            later = time.monotonic() + patience
        await asyncio.sleep(0.05)
    for terminal in range(len(shop.orders)):
        await _read_all(shop, terminal, deadline)
    await shop.refresh(1)
    shop.family.works_at_the_end = True


async def _report_charges(shop: Shop) -> None:
    """Report the charges that only terminals can report."""
    for terminal, orders in enumerate(shop.orders):
        for order_id in set(orders) & set(shop.purse.unreported()):
            number = shop.next_number()
            amount_minor = shop.notes.amounts[order_id]
            await shop.perform(
                [Op("result", terminal, number, order_id, shop.sessions[terminal], amount_minor=amount_minor)]
            )


async def _read_all(shop: Shop, terminal: int, deadline: float) -> None:
    # Sequentially: concurrent requests would have too many possible orders.
    for back in range(len(shop.orders[terminal])):
        await shop.perform([shop.op("get", terminal, back=back)])
    while any(overdue(world, shop.now_ms) for world in shop.worlds[terminal]):
        assert time.monotonic() < deadline, f"overdue:\n{listed(shop.worlds[terminal])}"
        await asyncio.sleep(0.1)
        await shop.perform([shop.op("get", terminal)])


async def violations(shop: Shop) -> list[str]:
    """Return the violations found in responses, notifications, the log, and the database of the stopped node."""
    found_by_search = await _searched(shop)
    feeds = await _feeds(shop)
    await shop.stop()
    log = await asyncio.to_thread(shop.node.log.read_text)
    found = [*checker.defects("the node", log), *shop.records.violations]
    database = await open_database(shop.database_url)
    try:
        facts = await final_state.read(database, shop.records)
        found += checker.violations(shop.records, facts)
        found += _search_differences(facts, found_by_search)
        found += _feed_differences(facts, feeds)
        found += [f"ledger: {finding}" for finding in await check.check(database, shop.now_ms)]
    finally:
        await database.close()
    if database.name == "sqlite":
        content = await asyncio.to_thread(Path(shop.database_url.removeprefix("sqlite:")).read_bytes)
        found += [f"{name} is in the database" for name in _secrets_in(shop, content)]
    return found + [f"{name} is in the log" for name in _secrets_in(shop, log.encode())]


async def _searched(shop: Shop) -> Seen:
    """Return all orders as found by their terminals."""
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


def _search_differences(facts: Facts, seen: Seen) -> list[str]:
    """Return violations of promise 10 and of "a write is found by the next read" in searches."""
    kept = {one.order_id: (one.shown[0], str(one.version)) for one in facts.orders.values()}
    return [
        f"{order_id} is {kept.get(order_id)}, and searching shows {seen.get(order_id)}"
        for order_id in sorted(kept.keys() | seen.keys())
        if kept.get(order_id) != seen.get(order_id)
    ]


Feeds = dict[tuple[int, bool], list[tuple[str, int]]]
"""The order id and version of each feed's events, in order, by seller and mode."""


async def _feeds(shop: Shop) -> Feeds:
    """Read every feed of events completely."""
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


def _feed_differences(facts: Facts, feeds: Feeds) -> list[str]:
    """Return violations of promises 7 and 10: a feed has every event of its seller and mode once, in order."""
    found, counts = [], Counter(event for feed in feeds.values() for event in feed)
    for order in facts.orders.values():
        found += [
            f"version {event.version} of {order.order_id} is in the feeds {counts[order.order_id, event.version]} times"
            for event in order.events
            if counts[order.order_id, event.version] != 1
        ]
    for (seller, live), feed in feeds.items():
        latest: dict[str, int] = {}
        for order_id, version in feed:
            if version != latest.get(order_id, 0) + 1:
                found.append(f"version {version} of {order_id} follows {latest.get(order_id)}")
            if order_id in facts.orders and facts.orders[order_id].live != live:
                found.append(f"{order_id} is in the feed of seller {seller} as {'live' if live else 'test'}")
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
