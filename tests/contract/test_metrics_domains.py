"""The numbers that `/metrics` has of database, acquirers, webhooks, tokens and limits, after real actions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import pytest
import structlog

import webhooks_scene
from conftest import short_and_long
from counted_metrics import Added, samples
from free_port import refusing_port
from paydesk.core.clock import MovableClock
from paydesk.core.limits.throttle_log import ThrottleLog
from paydesk.engine.orders.presentation import EXAMPLE_ORDER
from paydesk.engine.orders.routing import Routing
from paydesk.engine.payments.acquirer import Acquirer, Approved, Declined, NotFound, NotSent, Result, TooLate, Unknown
from paydesk.engine.payments.acquirers import Acquirers, CheckedAcquirer
from paydesk.engine.payments.http.breaker import FAILURES_MAX
from paydesk.engine.webhooks.delivery.sending import Outcome
from paydesk.platform.metrics.text import as_text
from paydesk.platform.settings import Settings
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.bounded import BoundedDatabase, Busy
from paydesk.platform.storage.database import Database, DiskFull, Locked, Overtaken, ReadOnly, Transaction, Unavailable
from paydesk.platform.storage.metrics import CONNECTIONS, note_failure
from played_switch import APPROVED, CARD, PAYMENT, SECRET, PlayedSwitch, Reply, playing
from service import Service, running
from tables import each

WAIT, BATCH, ERRORS = (
    "paydesk_database_wait_seconds_count",
    "paydesk_database_batch_size",
    "paydesk_database_errors_total",
)
REQUESTS, ATTEMPTS = "paydesk_acquirer_requests_total", "paydesk_webhook_attempts_total"
REFUSALS, THROTTLED = "paydesk_token_refusals_total", "paydesk_throttled_total"
AT_ONCE = 8
"""Clients of the service: so few are never refused because of its load, which would be a further reason."""
TOUCH = "UPDATE orders SET version = version WHERE seller_id = 0 AND order_id = $1"


async def _one(tx: Transaction) -> object:
    return await tx.one("SELECT 1")


async def _write(tx: Transaction, name: str = "ORD1") -> None:
    await tx.run(TOUCH, name)


async def _overtaken(tx: Transaction) -> None:
    tx.defer(TOUCH, "ORD1", required=True)


@pytest.mark.on_postgres
async def test_waits_and_batches_are_counted(database: Database) -> None:
    """Each unit of work has one wait, alone or in a batch; a read has no commit."""
    added = Added()
    names = [f"ORD{number}" for number in range(20)]
    writes = (database.write(partial(_write, name=name), conflict_keys=(conflict_keys.order(name),)) for name in names)
    await asyncio.gather(*writes)
    assert added(WAIT, kind="write") == 20
    assert added(f"{BATCH}_sum") == 20
    assert 1 <= added(f"{BATCH}_count") < 20
    await database.write(_write)
    assert (added(WAIT, kind="write"), added(f"{BATCH}_sum")) == (21, 21)
    await database.read(_one)
    assert await database.read(_one, heavy=True) is not None
    assert (added(WAIT, kind="read"), added(WAIT, kind="heavy"), added(f"{BATCH}_sum")) == (1, 1, 21)
    assert added.by(ERRORS, "reason") == {}


@pytest.mark.on_postgres
async def test_work_that_is_overtaken_is_counted(database: Database) -> None:
    """Alone and with conflict keys; a refusal of the work itself is no error of the database."""

    async def refused(tx: Transaction) -> None:
        await tx.one("SELECT 1")
        raise ZeroDivisionError

    added = Added()
    for keys in ((), (conflict_keys.order("ORD1"),)):
        with pytest.raises(Overtaken):
            await database.write(_overtaken, conflict_keys=keys)
        with pytest.raises(ZeroDivisionError):
            await database.write(refused, conflict_keys=keys)
    with pytest.raises(Busy):
        await BoundedDatabase(database, 0).read(_one)
    assert added.by(ERRORS, "reason") == {("overtaken",): 2, ("busy",): 1}


@each(
    "error, reason",
    [
        (Unavailable(), "unavailable"),
        (Locked(), "locked"),
        (DiskFull(), "disk_full"),
        (ReadOnly(), "read_only"),
        (ZeroDivisionError(), None),
    ],
)
def test_reasons_of_failures(error: Exception, reason: str | None) -> None:
    """Only those of the database count."""
    added = Added()
    note_failure(error)
    assert added.by(ERRORS, "reason") == ({} if reason is None else {(reason,): 1})


@pytest.mark.on_postgres
async def test_connections_are_shown_by_state(database: Any) -> None:
    """Those with a unit of work are in use. SQLite has three, PostgreSQL opens one when it is needed."""
    name, seen = "paydesk_database_connections", list[float]()
    with CONNECTIONS.including(database.connections_by_state):

        async def look(tx: Transaction) -> None:
            await tx.one("SELECT 1")
            seen.append(database.connections_by_state()[("in_use",)])

        await database.read(look, heavy=True)
        state = database.connections_by_state()
        assert seen == [1]
        assert (state[("in_use",)], state[("idle",)]) == (0, 3 if database.name == "sqlite" else 1)
        assert f'{name}{{state="idle"}} {state[("idle",)]:.1f}' in as_text([CONNECTIONS])
    assert CONNECTIONS.values == {}


class Adapter(Acquirer):
    """An adapter that gives one answer, or raises it."""

    def __init__(self, answer: Any = None) -> None:
        self._answer = answer

    async def _said(self, *_: Any, **_more: Any) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    authorize = inquire = confirm = refund = reverse = _said


CALLS: dict[str, Callable[[CheckedAcquirer], Awaitable[Result]]] = {
    "authorize": lambda acquirer: acquirer.authorize(PAYMENT, None),
    "inquire": lambda acquirer: acquirer.inquire(PAYMENT),
    "confirm": lambda acquirer: acquirer.confirm(PAYMENT, reference_id="1"),
    "refund": lambda acquirer: acquirer.refund(PAYMENT, key="REF1", amount_minor=2490),
    "reverse": lambda acquirer: acquirer.reverse(PAYMENT, key="REV1", amount_minor=2490),
}


@each("operation", list(CALLS))
async def test_each_request_to_an_acquirer_is_counted(operation: str) -> None:
    """By any adapter: with what came of it, also where it failed or answered anything else."""
    answers: list[tuple[Any, str]] = [
        (Approved("115019989861", 2490), "approved"),
        (Declined("high_risk"), "declined"),
        (Unknown("cut"), "unknown"),
        (NotSent("refused"), "not_sent"),
        (NotFound(), "not_found"),
        (TooLate(), "too_late"),
        ("nonsense", "unknown"),
        (ZeroDivisionError(), "unknown"),
    ]
    for answer, outcome in answers:
        added = Added()
        with structlog.testing.capture_logs():
            await CALLS[operation](CheckedAcquirer(Adapter(answer), "bank"))
        assert added.by(REQUESTS, "acquirer", "operation", "outcome") == {("bank", operation, outcome): 1}
        assert added("paydesk_acquirer_request_duration_seconds_count", acquirer="bank", operation=operation) == 1


async def test_a_breaker_refuses_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """That has no duration. Its echoes are requests too."""
    monkeypatch.setenv("SWITCH_KEY", SECRET)
    monkeypatch.setenv("OLD_KEY", SECRET[::-1])
    switch = PlayedSwitch(Reply(APPROVED, 500))
    async with playing(switch) as acquirer:
        checked, added = CheckedAcquirer(acquirer, "bank"), Added()
        for _ in range(FAILURES_MAX):
            await checked.authorize(PAYMENT, CARD)
        refused = await checked.authorize(PAYMENT, CARD)
        assert isinstance(refused, NotSent)
        assert refused.breaker_open
    assert added(REQUESTS, operation="authorize", outcome="breaker_open") == 1
    assert added(REQUESTS, operation="authorize", outcome="unknown") == FAILURES_MAX
    assert added("paydesk_acquirer_request_duration_seconds_count", operation="authorize") == FAILURES_MAX
    assert added(REQUESTS, operation="echo", outcome="answered") >= 1


async def test_the_acquirer_of_an_order_is_named() -> None:
    """That of test orders is `test`; no other name than those of the acquirers file occurs."""
    acquirers = Acquirers(Adapter(), {"bank": Adapter()}, Routing("bank"))
    found = [acquirers.of(msgspec.structs.replace(EXAMPLE_ORDER, live=live, acquirer=None)) for live in (0, 1)]
    assert [one.name for one in found if one is not None] == ["test", "bank"]


async def _end(tx: Transaction, subscription: str) -> None:
    await tx.run("UPDATE subscriptions SET deleted_ms = 1 WHERE subscription_id = $1", subscription)


@pytest.mark.on_postgres
async def test_attempts_of_deliveries_are_counted(database: Database, clock: MovableClock) -> None:
    """By topic and by what came of them."""
    answers = [200, 410, 503, 302]
    clock.freeze()
    added = Added()
    async with webhooks_scene.worker(database, clock) as worker:
        for status in answers:
            async with webhooks_scene.receiver(webhooks_scene.failing(status)) as receiver:
                subscription, _ = await webhooks_scene.subscribe(database, receiver.url)
                await webhooks_scene.announce(database, clock.now_ms(), webhooks_scene.order_id())
                assert await webhooks_scene.step(worker) == 1
                await database.write(partial(_end, subscription=subscription))
        await webhooks_scene.subscribe(database, f"http://127.0.0.1:{refusing_port()}/hooks")
        await webhooks_scene.announce(database, clock.now_ms(), webhooks_scene.order_id())
        assert await webhooks_scene.step(worker) == 1
    outcomes = ("delivered", "refused_4xx", "failed_5xx", "other_status", "unreachable")
    assert added.by(ATTEMPTS, "topic", "outcome") == {("orders", outcome): 1 for outcome in outcomes}
    assert added("paydesk_webhook_attempt_duration_seconds_count") == len(outcomes)


def test_an_attempt_without_a_status_says_why() -> None:
    """One of three words."""
    assert [Outcome(None, failure=word).kind for word in ("blocked", "timeout")] == ["blocked", "timeout"]
    assert Outcome(None, error="refused").kind == "unreachable"


@pytest.mark.on_postgres
async def test_refusals_of_tokens_are_counted(service: Service) -> None:
    """Those of the token endpoints and of bearers, by the code of the error; an answer counts nothing."""
    added = Added()
    client = {"client_id": "1", "client_secret": "x" * 32}
    bodies = [
        {},
        {**client, "grant_type": "password"},
        {**client, "grant_type": "refresh_token", "refresh_token": "TG-1"},
    ]
    codes = [(await service.request("POST", "/oauth/token", body, token=None, key=None)).code for body in bodies]
    assert codes == ["invalid_request", "unsupported_grant_type", "invalid_client"]
    for token in ("APP_USR-unknown", "TEST-unknown"):
        assert (await service.request("GET", "/v1/orders/ORD1", token=token)).status == 401
    assert (await service.request("GET", "/v1/orders/ORD1")).status in (400, 404)
    assert added.by(REFUSALS, "reason") == {**{(code,): 1 for code in codes}, ("unauthorized",): 2}


async def test_throttled_requests_are_counted(database: Database) -> None:
    """By the limit, each of them, however many lines are logged."""
    settings = Settings(bearer_failures_per_minute=2)
    async with running(database, settings=settings, workers=False) as service:
        added = Added()
        statuses = [(await service.request("GET", "/v1/orders/ORD1", token=f"APP_USR-{n}")).status for n in range(6)]
        assert statuses == [401, 401, 429, 429, 429, 429]
        assert added.by(THROTTLED, "limit") == {("bearer_failures",): 4}
        assert added.by(REFUSALS, "reason") == {("unauthorized",): 2, ("too_many_requests",): 4}
    ThrottleLog().note("pairings_open")
    assert added(THROTTLED, limit="pairings_open") == 1


async def _odd(service: Service, number: int) -> None:
    """Send requests that name things which are nowhere, each with a number of its own."""
    name = f"{number:05}{uuid.uuid4().hex}"
    client = {"client_id": str(10**15 + number), "client_secret": name, "grant_type": "refresh_token"}
    for method, path, body, token in (
        ("GET", f"/{name}/{number}", None, ""),
        ("GET", f"/v1/orders/ORD01J67CQQH5904WDBVZEM4J{number:04}", None, ""),
        ("POST", f"/v1/orders/{name}/cancel", {}, ""),
        ("GET", "/v1/orders/ORD1", None, f"APP_USR-{name}"),
        ("GET", f"/device/v1/next?boot_id={name}", None, f"PDT-{name}"),
        ("POST", "/oauth/token", {**client, "refresh_token": f"TG-{name}"}, None),
        ("POST", "/v1/orders", {"type": name, name: number}, ""),
        (f"M{number}", "/v1/orders", None, ""),
    ):
        await service.request(method, path, body, token=token, headers={"x-request-id": name})


@pytest.mark.parametrize("count", short_and_long(24, 10_000))
async def test_the_page_does_not_grow(service: Service, count: int) -> None:
    """No label has an id, a path, a name or anything else that a client chooses."""
    await _odd(service, 0)
    before = samples().keys()
    for first in range(1, count, AT_ONCE):
        await asyncio.gather(*(_odd(service, number) for number in range(first, min(first + AT_ONCE, count))))
    assert samples().keys() - before == set()
