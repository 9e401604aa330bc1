"""`GET /metrics/database`: what the database holds, 0 for what there is none of; and the plans of its statements."""

from __future__ import annotations

import asyncio
import itertools
import math
import re

import pytest
from bench import database_metrics as bench
from prometheus_client.parser import text_string_to_metric_families

from conftest import short_and_long
from faulty_database import FaultyDatabase
from moved_time import advance
from paydesk.core.clock import MovableClock, SystemClock
from paydesk.engine.terminals.presence import NOW_MS
from paydesk.platform.health.clock import WatchedClock
from paydesk.platform.metrics.database import DatabaseMetrics
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Unavailable
from paydesk.platform.storage.migrate import shipped
from paydesk.service.readings import READINGS
from plain_rows import CONFIRMATION, DELIVERY, INQUIRY, REFUND, REVERSAL, SUBSCRIBE, run
from print_scene import print_on
from recording_database import RecordingDatabase
from resolving_scene import unknown
from service import Reply, Service, running

TOKEN = "scrape-" + "0" * 32
SETTINGS = Settings(metrics_token="env:SCRAPE_TOKEN")
Page = dict[tuple[str, ...], float]
"""By its name and the values of its labels, a number."""

KINDS = ("inquiry", "reversal", "refund", "confirmation", "delivery")
WORKERS = (
    "orders.expiry", "orders.unknown_outcome", "orders.cancel_timeout", "printing.expiry", "payments.refunds",
    "payments.confirmations", "payments.inquiries", "payments.reversals", "webhooks.delivery", "events.relay",
)  # fmt: skip
EMPTY: Page = {
    **{(f"jobs_{number}", *of): 0 for number in ("open", "oldest_age_seconds")
       for of in itertools.product(KINDS, ("true", "false"))},
    **{("orders_open", status): 0 for status in ("created", "at_terminal")},
    **{("slots_held", age): 0 for age in ("under_1m", "under_5m", "under_1h", "over_1h")},
    **{("terminals", presence): 0 for presence in ("online", "degraded", "offline")},
    **{("worker_oldest_age_seconds", worker): 0 for worker in WORKERS},
    ("confirmation_deadline_seconds",): math.inf,
    ("subscriptions_failing",): 0,
    ("clock_difference_seconds",): 0,
    ("schema_version",): shipped()[-1].version,
}  # fmt: skip
"""The page of an empty database, but for its size."""

AGED = (
    "UPDATE orders SET created_ms = CAST($2 AS bigint) - $3, expires_ms = CAST($2 AS bigint) - $4 WHERE order_id = $1"
)
SMALL = ("subscriptions", "terminals")
"""Tables that are read as a whole: they do not grow with the orders."""
JOBS = ("inquiries", "reversals", "refunds", "confirmations")
LARGE = ("orders", "order_events", *JOBS, "deliveries", "print_actions", "d")
OPEN_INDEXES = ("orders_live_on_terminal", "print_actions_open", "print_actions_expiring", "order_events_unnumbered",
                *(f"{table}_due" for table in JOBS))  # fmt: skip
"""Partial ones, which have open rows alone: they may be read from one end to the other, up to a limit."""


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPE_TOKEN", TOKEN)


async def scrape(service: Service, token: str = TOKEN) -> Reply:
    """Request the page."""
    return await service.request("GET", "/metrics/database", token=token)


def numbers(page: str) -> Page:
    """Return the numbers of a page, without its size."""
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    found: Page = {(one.name.removeprefix("paydesk_"), *one.labels.values()): one.value for one in samples}
    assert len(found) == len(samples)
    assert found.pop(("database_size_bytes",)) > 100_000
    return found


async def read(database: Database, now_ms: int = 1) -> Page:
    """Return the numbers without a service."""
    clock = MovableClock(frozen_ms=now_ms)
    return numbers(await DatabaseMetrics(database, clock, SETTINGS, READINGS).page())


@pytest.mark.on_postgres
async def test_an_empty_database_has_every_number(database: Database) -> None:
    """So that an alert has something to compare. Of the schema it is the newest migration."""
    assert await read(database) == EMPTY


@pytest.mark.on_postgres
async def test_every_number_is_right(database: Database) -> None:
    """One of each, some live; nothing that has ended, and no notification of a paused subscription, is counted."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, settings=SETTINGS, workers=False) as service:
        now_ms = clock.now_ms()
        await _orders(service, now_ms)
        await _jobs(service, now_ms)
        await run(database, "UPDATE terminals SET last_seen_ms = NULL")
        for place, age_ms in enumerate((0, 60_000)):
            seen = "SELECT terminal_id FROM terminals ORDER BY terminal_id LIMIT 1 OFFSET $2"
            at = f"UPDATE terminals SET last_seen_ms = {NOW_MS} - $1 WHERE terminal_id IN ({seen})"
            await run(database, at, age_ms, place)
        reply = await scrape(service)
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert reply.headers["cache-control"] == "no-store"
    found = numbers(reply.raw.decode())
    jobs = {
        "inquiry": ((1, 61), (2, 71)),
        "reversal": ((1, 62), (1, 72)),
        "refund": ((1, 63), (2, 73)),
        "confirmation": ((1, 64), (1, 74)),
        "delivery": ((1, 65), (1, 75)),
    }
    modes = [(kind, live, of) for kind, both in jobs.items() for live, of in zip(("true", "false"), both, strict=True)]
    changed: Page = {
        **{("jobs_open", kind, live): of[0] for kind, live, of in modes},
        **{("jobs_oldest_age_seconds", kind, live): of[1] for kind, live, of in modes},
        ("orders_open", "created"): 1,
        ("orders_open", "at_terminal"): 3,
        ("slots_held", "under_1m"): 2,
        ("slots_held", "under_5m"): 1,
        ("slots_held", "under_1h"): 1,
        ("slots_held", "over_1h"): 1,
        ("terminals", "online"): 1,
        ("terminals", "degraded"): 1,
        ("terminals", "offline"): 3,
        **{("worker_oldest_age_seconds", worker): 11 + after for after, worker in enumerate(WORKERS)},
        ("confirmation_deadline_seconds",): 300,
        ("subscriptions_failing",): 2,
    }
    expected = EMPTY | changed
    assert {key: (found[key], expected[key]) for key in expected if found[key] != expected[key]} == {}
    assert found.keys() == EMPTY.keys()


async def _orders(service: Service, now_ms: int) -> None:
    """Make an order of each status, age and deadline, and a print action."""
    database = service.database
    created = (await service.create(await service.terminal())).body["id"]
    await run(database, AGED, created, now_ms, 30_000, 11_000)
    device = await service.device(await service.terminal())
    permitted = (await service.create(device.terminal)).body["id"]
    assert (await device.ack(permitted[3:])).status == 200
    assert (await device.authorizing(permitted[3:])).status == 200
    await run(database, AGED, permitted, now_ms, 120_000, -60_000)
    since_ms = now_ms - 12_000 - SETTINGS.unknown_after_seconds * 1000
    await run(database, "UPDATE orders SET permitted_ms = $2 WHERE order_id = $1", permitted, since_ms)
    device = await service.device(await service.terminal())
    canceled = (await service.create(device.terminal)).body["id"]
    assert (await device.ack(canceled[3:])).status == 200
    headers = {"X-Allow-Cancelable-Status": "at_terminal"}
    assert (await service.cancel(canceled, headers=headers)).status == 202
    await run(database, AGED, canceled, now_ms, 600_000, -60_000)
    since_ms = now_ms - 13_000 - SETTINGS.cancel_silence_seconds * 1000
    await run(database, "UPDATE orders SET cancel_requested_ms = $2 WHERE order_id = $1", canceled, since_ms)
    lost = await unknown(service, await service.device(await service.terminal()))
    await run(database, AGED, lost, now_ms, 7_200_000, -60_000)
    await print_on(service, await service.terminal())
    await run(database, "UPDATE print_actions SET expires_ms = $1", now_ms - 14_000)
    await run(database, "UPDATE order_events SET created_ms = $2 WHERE order_id = $1", lost, now_ms - 20_000)


async def _jobs(service: Service, now_ms: int) -> None:
    """Add to each kind of job live and test rows, and one that has ended; the unknown order has an inquiry."""
    database, seller = service.database, service.seller_id
    for place in "0123":
        await run(database, REFUND, seller, place)
        await run(database, REVERSAL, seller, place, place)
        await run(database, CONFIRMATION, seller, place)
        if place < "2":
            await run(database, INQUIRY, seller, place)
    aged = "SET created_ms = CAST($1 AS bigint) - $2, next_ms = CAST($1 AS bigint) - $3"
    is_live, is_test = "live = 1", "live = 0"
    for table, key, opened in (
        ("refunds", "refund_id", "status = 'processing'"),
        ("reversals", "reversal_id", "status = 'pending'"),
        ("confirmations", "order_id", "status = 'provisional'"),
        ("inquiries", "order_id", "ended_ms = NULL"),
    ):
        await run(database, f"UPDATE {table} SET {opened}, {is_live} WHERE {key} = '0'")
        await run(database, f"UPDATE {table} SET {opened}, {is_test} WHERE {key} = '1'")
    # The test one is nearer; so is that of the one that has ended.
    for place, seconds in (("0", 300), ("1", 200), ("2", 100)):
        until_ms = now_ms + seconds * 1000
        await run(database, "UPDATE confirmations SET deadline_ms = $2 WHERE order_id = $1", place, until_ms)
    await run(database, "UPDATE refunds SET status = 'processing' WHERE refund_id = '2'")
    for table, live, age, due in (
        ("inquiries", 1, 61, 1), ("inquiries", 0, 71, 17), ("reversals", 1, 62, 18), ("reversals", 0, 72, 1),
        ("refunds", 1, 63, 1), ("refunds", 0, 73, 15), ("confirmations", 1, 64, 16), ("confirmations", 0, 74, -5),
    ):  # fmt: skip
        await run(database, f"UPDATE {table} {aged} WHERE live = $4", now_ms, age * 1000, due * 1000, live)
    for number, (live, age, due) in enumerate(((1, 65, 19), (0, 75, 2), (0, 90, 1))):
        subscription, at_ms = f"5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d{number}", now_ms - age * 1000
        await run(database, SUBSCRIBE, subscription)
        await run(database, "UPDATE subscriptions SET live = $2 WHERE subscription_id = $1", subscription, live)
        await run(database, DELIVERY, seller, f"e.{number}", subscription, "ORD1", number, "pending", at_ms)
        due_ms = now_ms - due * 1000
        await run(database, "UPDATE deliveries SET next_ms = $2 WHERE delivery_id = $1", f"e.{number}", due_ms)
        await run(database, DELIVERY, seller, f"f.{number}", subscription, "ORD2", number, "delivered", 1)
    await run(database, "UPDATE subscriptions SET failing_since_ms = 1 WHERE live = 0")
    await run(database, "UPDATE subscriptions SET paused_ms = 1 WHERE subscription_id LIKE '%d2'")


async def test_a_refund_that_waits_for_a_confirmation_is_open_and_not_due(database: Database) -> None:
    """Its worker leaves it until then."""
    await run(database, REFUND.replace("'processed'", "'processing'"), 1, "REF1")
    await run(database, CONFIRMATION.replace("'confirmed'", "'confirming'"), 1, "ORD01J67CQQH5904WDBVZEM4JMEP3")
    found = await read(database, 10_001)
    assert found["jobs_open", "refund", "false"] == 1
    assert found["worker_oldest_age_seconds", "payments.refunds"] == 0
    assert found["worker_oldest_age_seconds", "payments.confirmations"] == 10


async def test_rows_are_counted_up_to_a_limit(database: Database) -> None:
    """Of each kind and mode; the oldest job at the acquirer is found whatever their number."""
    await bench.insert(database, bench.OPEN["inquiries"], 20_100)
    older = "UPDATE inquiries SET created_ms = CAST($1 AS bigint) - 10 WHERE live = 1 AND order_id LIKE '%9'"
    await run(database, older, bench.SINCE_MS)
    found = await read(database, bench.SINCE_MS + 1_000_000)
    assert found["jobs_open", "inquiry", "true"] == found["jobs_open", "inquiry", "false"] == 10_001
    assert found["jobs_oldest_age_seconds", "inquiry", "true"] == 1000.01
    assert found["jobs_oldest_age_seconds", "inquiry", "false"] == 1000


async def test_a_page_is_read_once_for_all_that_come_together(database: Database) -> None:
    """And sent again for 15 s."""
    recording = RecordingDatabase(database)
    page = DatabaseMetrics(recording, SystemClock(), SETTINGS, READINGS)
    pages = await asyncio.gather(*(page.page() for _ in range(3)))
    sent = recording.sent
    assert sent == len(recording.asked) + 1, "the statement about notifications is sent for live ones and test ones"
    pages.append(await page.page())
    assert recording.sent == sent
    assert len(set(pages)) == 1
    advance(20)
    await page.page()
    assert recording.sent == 2 * sent


async def test_without_the_database_there_is_no_page(database: Database) -> None:
    """After the time of the last one: 503 as everywhere, and all is well when the database is back."""
    faulty = FaultyDatabase(database)
    async with running(faulty, settings=SETTINGS, workers=False) as service:
        first = await scrape(service)
        faulty.fault = Unavailable("away")
        assert (await scrape(service)).raw == first.raw
        advance(20)
        for _ in range(2):
            reply = await scrape(service)
            assert (reply.status, reply.code, reply.headers["content-type"]) == (
                503,
                "service_unavailable",
                "application/json",
            )
        faulty.fault = None
        assert (await scrape(service)).status == 200


async def test_another_token_is_refused(service: Service) -> None:
    """As at `/metrics`; without a setting every one is."""
    for settings in (Settings(), SETTINGS):
        async with running(service.database, settings=settings, workers=False) as own:
            assert (await scrape(own, token=own.access_token)).status == 401


@pytest.mark.on_postgres
async def test_the_difference_of_the_clocks_is_shown(database: Database) -> None:
    """Of this node's and PostgreSQL's, as it is now; SQLite has no clock of its own."""
    ahead_ns, now_ns = [0], SystemClock().now_ms() * 1_000_000
    clock = WatchedClock(lambda: now_ns + ahead_ns[0], lambda: 0)
    await clock.compare(database)
    shown = []
    for seconds in (0, 7):
        ahead_ns[0] = seconds * 1_000_000_000
        page = numbers(await DatabaseMetrics(database, clock, SETTINGS, READINGS).page())
        shown.append(page["clock_difference_seconds",])
    assert shown[1] - shown[0] == pytest.approx(0 if database.name == "sqlite" else 7)


@pytest.mark.on_postgres
@pytest.mark.parametrize("orders", short_and_long(2_000, 1_000_000))
async def test_no_statement_goes_through_a_large_table(database_url: str, orders: int) -> None:
    """On both databases each uses an index of open rows, or a table that does not grow with the orders."""
    database = await open_database(database_url, timeout_seconds=600)
    await bench.fill(database, orders)
    recording = RecordingDatabase(database)
    await DatabaseMetrics(recording, SystemClock(), SETTINGS, READINGS).page()
    plans = {sql: await bench.explained(database, sql, args) for sql, args in recording.asked.items()}
    wrong = {sql: steps for sql, steps in plans.items() for step in steps if _reads_all(step)}
    await database.close()
    assert wrong == {}
    assert len(plans) > 12


def _reads_all(step: str) -> bool:
    """Return whether a step of a plan goes through a table, or through an index that has all of its rows."""
    match = re.match(r".*\bSeq Scan on (\w+)|SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", step)
    if match is None:
        return False
    on_postgres, scanned, index = match.groups()
    if on_postgres is not None:
        return on_postgres not in SMALL
    return scanned in LARGE if index is None else index not in OPEN_INDEXES
