"""Promise: a withdrawn authorization is invalid from the commit on, whatever is concurrent, with one event.

| Concurrent with a withdrawal | Possible results | Afterwards |
|---|---|---|
| a refresh | 200, the same tokens for all; `unauthorized_client` | every token of the authorization is invalid |
| an exchange | one 200, the others `invalid_grant`; `unauthorized_client` | the same |
| another consent of the same two | both happen | the other's tokens are valid, both events are numbered |
| itself | one withdraws | one event, one delivery per subscription |
| a delivery | those in progress complete, all others end unsent | the withdrawal is delivered |
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest
from aiohttp import web

import webhooks_scene as hooks
from oauth_scene import Scene, authorizations_of, make_scene
from paydesk.core.clock import MovableClock
from paydesk.core.errors import Refusal
from paydesk.engine.invariants import check
from paydesk.engine.oauth import authorizations
from paydesk.engine.oauth.bearer import Bearers
from paydesk.engine.webhooks.schemas import AUTHORIZED, CONNECT_TOPIC, DEAUTHORIZED
from paydesk.platform.operation import Answer
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Transaction
from waiting import until, until_found

pytestmark = pytest.mark.usefixtures("batching")

MANY, ROUNDS = 32, 8
REFUSED = ("unauthorized_client", "authorization withdrawn")
EVENTS = "SELECT version, action FROM application_events ORDER BY version"

Outcome = Answer | Refusal


@pytest.fixture
async def scene(database: Database) -> Scene:
    """One application and one seller."""
    return await make_scene(database)


@pytest.fixture
def bearers(scene: Scene) -> Bearers:
    """A node's cache of access tokens, whose entries outlast the test: only a signal drops them."""
    return Bearers(scene.database, 600)


async def granted(scene: Scene) -> list[str]:
    """Return the seller's valid authorizations."""
    found = await scene.database.read(lambda tx: authorizations_of(tx, scene.seller.seller_id))
    return [one.authorization_id for one in found if one.withdrawn_ms is None]


async def withdraw(scene: Scene, authorization_id: str) -> bool:
    """Withdraw, with the notification of its topics."""
    work = partial(
        authorizations.withdraw,
        seller_id=scene.seller.seller_id,
        authorization_id=authorization_id,
        now_ms=scene.clock.now_ms(),
    )
    done = await scene.database.write(work)
    await asyncio.sleep(0)
    return done


async def events(scene: Scene) -> list[tuple[int, str]]:
    """Return the versions and actions of the application's events, in order."""
    return [(row[0], row[1]) for row in await scene.database.read(lambda tx: tx.all(EVENTS))]


async def asked(bearers: Bearers, scene: Scene, body: dict[str, Any]) -> str:
    """Return `lives` for a valid access token, or the reason of its refusal."""
    try:
        await bearers.caller(body["access_token"], scene.clock.now_ms())
    except Refusal as refusal:
        return refusal.reason
    return "lives"


async def is_dead(bearers: Bearers, scene: Scene, body: dict[str, Any]) -> None:
    """Check that both tokens are invalid, with a warm cache and with an empty one."""
    for node in (bearers, Bearers(scene.database, 0)):
        assert await asked(node, scene, body) == "authorization withdrawn"
    assert await scene.refusal(scene.refresh(body["refresh_token"])) == REFUSED


def sorted_out(outcomes: list[Outcome]) -> tuple[list[dict[str, Any]], Counter[tuple[str, str]]]:
    """Return the bodies of the answers, and the number of each refusal."""
    answered = [outcome.body for outcome in outcomes if isinstance(outcome, Answer)]
    return answered, Counter((one.kind.code, one.reason) for one in outcomes if isinstance(one, Refusal))


async def meet(one: Awaitable[bool], others: list[Coroutine[Any, Any, Outcome]], place: int) -> list[Outcome]:
    """Return the outcomes of the others, `place` of which were started before the one."""
    begun = [asyncio.ensure_future(other) for other in others[:place]]
    meeting = asyncio.ensure_future(one)
    begun += [asyncio.ensure_future(other) for other in others[place:]]
    assert await meeting
    return list(await asyncio.gather(*begun))


async def test_withdrawing_and_refreshing(scene: Scene, bearers: Bearers) -> None:
    """A refresh returns tokens or is refused; afterwards all tokens are invalid."""
    for place in range(ROUNDS):
        first = await scene.tokens()
        assert await asked(bearers, scene, first) == "lives"
        (authorization_id,) = await granted(scene)
        refreshes = [scene.call(scene.refresh(first["refresh_token"])) for _ in range(ROUNDS)]
        answered, refused = sorted_out(await meet(withdraw(scene, authorization_id), refreshes, place))
        assert set(refused) <= {REFUSED}
        assert len({body["refresh_token"] for body in answered}) <= 1
        for body in (first, *answered):
            await is_dead(bearers, scene, body)
    assert Counter(action for _, action in await events(scene)) == {AUTHORIZED: ROUNDS, DEAUTHORIZED: ROUNDS}


async def test_withdrawing_and_exchanging(scene: Scene, bearers: Bearers) -> None:
    """At most one exchange returns tokens, and they are invalid afterwards, also if used concurrently."""

    async def exchange_and_use(code: str) -> Outcome:
        outcome = await scene.call(scene.exchange(code))
        if isinstance(outcome, Answer):
            assert await asked(bearers, scene, outcome.body) in ("lives", "authorization withdrawn")
        return outcome

    for place in range(ROUNDS):
        code = await scene.code()
        (authorization_id,) = await granted(scene)
        exchanges = [exchange_and_use(code) for _ in range(ROUNDS)]
        answered, refused = sorted_out(await meet(withdraw(scene, authorization_id), exchanges, place))
        assert set(refused) <= {REFUSED, ("invalid_grant", "code exchanged already")}
        assert len(answered) <= 1
        for body in answered:
            await is_dead(bearers, scene, body)
        assert await scene.refusal(scene.exchange(code)) == REFUSED


async def slowly(scene: Scene, body: dict[str, Any], meanwhile: Callable[[], Awaitable[bool]]) -> Outcome:
    """Return the answer of a request that had read, but not yet committed, while `meanwhile` ran.

    On SQLite the two are one after the other anyway.
    """
    if scene.database.name == "sqlite":
        outcome = await scene.call(body)
        assert await meanwhile()
        return outcome
    has_read, may_commit = False, False

    async def hold(tx: Transaction) -> None:
        nonlocal has_read
        has_read = True
        while not may_commit:
            await tx.one("SELECT pg_sleep(0.005)")

    answering = asyncio.create_task(scene.call(body, before_commit=hold))
    await until(lambda: has_read)
    assert await meanwhile()
    may_commit = True
    return await answering


@pytest.mark.parametrize("what", ["refresh", "exchange"])
async def test_tokens_committed_after_the_withdrawal_are_invalid(scene: Scene, bearers: Bearers, what: str) -> None:
    """The request read the authorization before the withdrawal; its tokens are returned and invalid."""
    code = await scene.code()
    (authorization_id,) = await granted(scene)
    body = scene.exchange(code)
    if what == "refresh":
        body = scene.refresh((await scene.answer(body))["refresh_token"])
    outcome = await slowly(scene, body, lambda: withdraw(scene, authorization_id))
    assert isinstance(outcome, Answer)
    await is_dead(bearers, scene, outcome.body)


async def test_withdrawing_and_agreeing(scene: Scene, bearers: Bearers) -> None:
    """Both happen; the new authorization is valid, and the events are numbered without a gap."""
    application_id = scene.application.application_id
    await hooks.subscribe(scene.database, "https://shop.example/", application_id=application_id, topic=CONNECT_TOPIC)
    old = [await scene.tokens() for _ in range(ROUNDS)]
    codes: list[str] = []

    async def agree() -> bool:
        codes.append(await scene.code())
        return True

    both = [(withdraw(scene, one), agree()) for one in await granted(scene)]
    assert all(await asyncio.gather(*(one for pair in both for one in pair)))
    for body in old:
        await is_dead(bearers, scene, body)
    for code in codes:
        assert await asked(bearers, scene, await scene.answer(scene.exchange(code))) == "lives"
    received = await events(scene)
    assert [version for version, _ in received] == list(range(1, 3 * ROUNDS + 1))
    assert Counter(action for _, action in received) == {AUTHORIZED: 2 * ROUNDS, DEAUTHORIZED: ROUNDS}
    assert await scene.value("SELECT count(DISTINCT version) FROM deliveries") == 3 * ROUNDS
    assert await check.check(scene.database, scene.clock.now_ms()) == []


async def test_withdrawing_many_times_at_once(scene: Scene) -> None:
    """One of them withdraws, and there is one event."""
    application_id = scene.application.application_id
    for topic in (CONNECT_TOPIC, "orders"):
        await hooks.subscribe(scene.database, "https://shop.example/", application_id=application_id, topic=topic)
    await scene.code()
    (authorization_id,) = await granted(scene)
    done = await asyncio.gather(*(withdraw(scene, authorization_id) for _ in range(MANY)))
    assert sorted(done) == [False] * (MANY - 1) + [True]
    assert await events(scene) == [(1, AUTHORIZED), (2, DEAUTHORIZED)]
    assert await scene.value("SELECT count(*) FROM deliveries WHERE version = 2") == 1
    assert await check.check(scene.database, scene.clock.now_ms()) == []


async def test_withdrawing_while_something_is_delivered(
    database: Database, database_url: str, clock: MovableClock
) -> None:
    """A delivery in progress completes; later ones end unsent; the withdrawal is delivered once."""
    under_way, go_on, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
    received: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.query["type"] == "mp-connect":
            received.append(request.query["data.id"])
        else:
            under_way.set()
            await go_on.wait()
        return web.Response()

    async def agree(tx: Transaction) -> str:
        return await authorizations.create(
            tx, seller_id=hooks.SELLER, application_id=hooks.APPLICATION, scope="read", now_ms=clock.now_ms()
        )

    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(hooks.receiver(answer))
        nodes = [database]
        if database.name == "postgres":
            nodes.append(await open_database(database_url))
            stack.push_async_callback(nodes[1].close)
        workers = [await stack.enter_async_context(hooks.worker(node, clock)) for node in nodes]
        for topic in ("orders", CONNECT_TOPIC):
            await hooks.subscribe(database, receiver.url, topic=topic)
        authorization_id, order = await database.write(agree), hooks.order_id()
        for version in (1, 2, 3):
            await hooks.announce(database, clock.now_ms(), order, version)
        running = [asyncio.create_task(worker.run(stop)) for worker in workers]
        await under_way.wait()
        work = partial(
            authorizations.withdraw, seller_id=hooks.SELLER, authorization_id=authorization_id, now_ms=clock.now_ms()
        )
        assert await nodes[-1].write(work)
        await hooks.until(lambda: bool(received))
        go_on.set()

        async def are_done() -> bool:
            return not await database.read(hooks.pending_count)

        await until_found(are_done)
        stop.set()
        for node in nodes:
            node.signals.notify(["stop"])
        await asyncio.gather(*running)
    statuses = [one.status for one in await hooks.deliveries(database, order)]
    assert statuses == ["delivered", "withdrawn", "withdrawn"]
    assert received == [str(hooks.SELLER)]
    assert [got.order_and_version for got in receiver.got if got.url.query["type"] == "order"] == [(order, 1)]
