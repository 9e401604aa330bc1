"""Rotation of a subscription's secret as its receivers see it, in the middle of retries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from mercadopago.webhook import InvalidWebhookSignatureError, WebhookSignatureValidator
from standardwebhooks import Webhook, WebhookVerificationError

import webhooks_scene as scene
from paydesk.core.clock import MovableClock
from paydesk.core.keys import Keys
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.subscriptions import rotation
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.platform.storage.database import Database, Transaction

T = TypeVar("T")

PAUSE_MS = 90_000_000
"""Longer than each pause of the schedule."""
BOTH_KEYS = Keys(2, {1: b"k" * 32, 2: b"l" * 32})


class Rotating:
    """A subscription whose secret is rotated."""

    def __init__(self, database: Database, subscription_id: str, keys: Keys) -> None:
        self._database, self.subscription_id, self._keys = database, subscription_id, keys

    async def add(self) -> Secret:
        """Add a second secret and return it."""
        added = await self._locked(lambda tx: rotation.add(tx, self._keys, self.subscription_id, 1))
        assert added is not None
        assert added[0] == 2
        return added[1]

    async def promote(self) -> None:
        """Make the second secret the primary one."""
        assert await self._locked(lambda tx: rotation.promote(tx, self.subscription_id, 2))

    async def drop(self) -> None:
        """Drop the first secret."""
        assert await self._locked(lambda tx: rotation.drop(tx, self.subscription_id, 1, 2))

    async def _locked(self, change: Callable[[Transaction], Awaitable[T]]) -> T:
        async def work(tx: Transaction) -> T:
            assert await subscriptions.lock(tx, self.subscription_id)
            return await change(tx)

        return await self._database.write(work)


def is_accepted_by_the_vendors_validator(got: scene.Received, secret: Secret) -> bool:
    """Return whether the official validator accepts `X-Signature`, of which it reads the last `v1`."""
    try:
        WebhookSignatureValidator.validate(
            got.headers["X-Signature"],
            got.headers["X-Request-Id"],
            got.url.query["data.id"],
            secret.reveal(),
            tolerance_seconds=60,
        )
    except InvalidWebhookSignatureError:
        return False
    return True


def is_accepted_by_standard_webhooks(got: scene.Received, secret: Secret) -> bool:
    """Return whether the reference library accepts `webhook-signature`."""
    try:
        Webhook(secret.reveal()).verify(got.body, dict(got.headers))
    except WebhookVerificationError:
        return False
    return True


@pytest.mark.parametrize("keys", [scene.KEYS, BOTH_KEYS], ids=["same-key", "new-key"])
async def test_each_attempt_is_signed_with_the_secrets_that_are_valid_then(
    database: Database, clock: MovableClock, keys: Keys
) -> None:
    """One notification, four attempts: before, with both, promoted, dropped. `X-Signature` is made by the primary one.

    During the overlap receivers with either secret accept `webhook-signature`.
    """
    clock.freeze()
    wall = MovableClock()
    wall.freeze()
    async with (
        scene.receiver(scene.failing(500)) as receiver,
        scene.worker(database, clock, wall=wall, keys=keys) as worker,
    ):
        subscription_id, old = await scene.subscribe(database, receiver.url)
        order, one = scene.order_id(), Rotating(database, subscription_id, keys)
        await scene.announce(database, clock.now_ms(), order)
        assert await scene.step(worker) == 1
        new = await one.add()
        for change in (None, one.promote, one.drop):
            if change is not None:
                await change()
            clock.advance(PAUSE_MS)
            assert await scene.step(worker) == 1
    accepted = [
        tuple(
            check(got, secret)
            for check in (is_accepted_by_the_vendors_validator, is_accepted_by_standard_webhooks)
            for secret in (old, new)
        )
        for got in receiver.got
    ]
    assert accepted == [
        (True, False, True, False),
        (True, False, True, True),
        (False, True, True, True),
        (False, True, False, True),
    ]
    for got, signatures in zip(receiver.got, (1, 2, 2, 1), strict=True):
        assert got.headers["X-Signature"].count("v1=") == got.headers["X-Signature"].count("ts=") == 1
        assert len(got.headers["webhook-signature"].split(" ")) == signatures
    assert len({(got.body, got.headers["X-Request-Id"], got.headers["webhook-id"]) for got in receiver.got}) == 1
    assert {got.headers["webhook-timestamp"] for got in receiver.got} == {str(wall.now_ms() // 1000)}


async def test_the_primary_secret_signs_first(database: Database, clock: MovableClock) -> None:
    """A receiver that reads the first signature alone follows the promotion."""
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        subscription_id, old = await scene.subscribe(database, receiver.url)
        one = Rotating(database, subscription_id, scene.KEYS)
        new = await one.add()
        for change in (None, one.promote):
            if change is not None:
                await change()
            await scene.announce(database, clock.now_ms(), scene.order_id())
            assert await scene.step(worker) == 1
    for got, first in zip(receiver.got, (old, new), strict=True):
        headers = {**got.headers, "webhook-signature": got.headers["webhook-signature"].split(" ")[0]}
        Webhook(first.reveal()).verify(got.body, headers)


async def test_a_node_without_the_new_key_leaves_the_delivery_to_others(
    database: Database, clock: MovableClock
) -> None:
    """Until the rotation ends, or it has the key: an attempt that it made would lack a signature."""
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        one = Rotating(database, subscription_id, BOTH_KEYS)
        await one.add()
        await scene.announce(database, clock.now_ms(), scene.order_id())
        assert await scene.step(worker) == 0
        async with scene.worker(database, clock, keys=BOTH_KEYS) as other:
            assert await scene.step(other) == 1
    assert len(receiver.got) == 1


@pytest.mark.on_postgres
async def test_the_primary_secret_is_never_dropped_and_a_dropped_one_never_promoted(
    database: Database, clock: MovableClock
) -> None:
    """The statements refuse it themselves, whatever their caller has read before."""
    subscription_id, _ = await scene.subscribe(database, "https://shop.example/hooks")
    one = Rotating(database, subscription_id, scene.KEYS)
    now_ms = clock.now_ms()
    assert not await database.write(lambda tx: rotation.drop(tx, subscription_id, 1, now_ms))
    await one.add()
    assert await database.write(lambda tx: rotation.drop(tx, subscription_id, 2, now_ms))
    assert not await database.write(lambda tx: rotation.drop(tx, subscription_id, 2, now_ms))
    assert not await database.write(lambda tx: rotation.promote(tx, subscription_id, 2))
    assert not await database.write(lambda tx: rotation.promote(tx, subscription_id, 3))
