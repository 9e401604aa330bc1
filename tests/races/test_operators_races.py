"""Two operators at once: whoever comes second sees what the first one did, and neither undoes the other's change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest

from operator_calls import Operator, operator
from paydesk.oauth.clients import applications
from paydesk.oauth.consent import sellers
from paydesk.operators.applications import VALID_SECRETS_MAX
from paydesk.storage.database import Transaction, Work
from service import Service

T = TypeVar("T")

APPLICATION = {"name": "Shop", "redirect_uris": ["https://shop.example/callback"]}
SELLER = {"name": "Ana", "country": "ARG", "currency": "ARS", "password": "long enough for this"}
SLEEPERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"


async def while_it_is_committed(service: Service, work: Work[Any], request: Awaitable[T]) -> T:
    """What a request brings that came when `work` had done all but its commit. On SQLite it comes after it anyway."""
    is_postgres = service.database.name == "postgres"

    async def slow(tx: Transaction) -> None:
        await work(tx)
        if is_postgres:
            await tx.one("SELECT pg_sleep(0.5)")

    committing = asyncio.create_task(service.database.write(slow))
    await asyncio.sleep(0)
    while is_postgres and not await service.scene.value(SLEEPERS):
        assert not committing.done()
    outcome = await request
    await committing
    return outcome


@pytest.fixture
async def owner(service: Service) -> Operator:
    """Somebody who may do everything."""
    return await operator(service)


async def test_a_change_does_not_undo_another(service: Service, owner: Operator) -> None:
    """The name that one operator is giving an application stays when another one sends its scopes."""
    made = await owner.did("POST", "applications", APPLICATION)
    number = int(made["client_id"])

    async def rename(tx: Transaction) -> None:
        held = await applications.lock(tx, number)
        assert held is not None
        await applications.change(
            tx,
            number,
            name="Renamed",
            redirect_uris=held.redirect_uris,
            scopes=held.scopes,
            pkce_required=held.pkce_required,
            on_replay=held.on_replay,
        )

    request = owner.did("PATCH", f"applications/{number}", {"scopes": "read"})
    changed = await while_it_is_committed(service, rename, request)
    assert (changed["name"], changed["scopes"]) == ("Renamed", "read")


async def test_a_secret_too_many_is_not_made_meanwhile(service: Service, owner: Operator) -> None:
    """The one place that is left is taken by whoever came first."""
    path = f"applications/{(await owner.did('POST', 'applications', APPLICATION))['client_id']}"
    for _ in range(VALID_SECRETS_MAX - 2):
        await owner.did("POST", f"{path}/secrets")
    number, now_ms = int(path.rpartition("/")[2]), service.clock.now_ms()

    async def add(tx: Transaction) -> None:
        await applications.lock(tx, number)
        await applications.add_secret(tx, number, now_ms)

    refused = await while_it_is_committed(service, add, owner.refused("POST", f"{path}/secrets"))
    assert refused == (409, "too_many_secrets")
    assert len((await owner.did("GET", path))["secrets"]) == VALID_SECRETS_MAX


@pytest.mark.parametrize("rival", ["changed", "new"])
async def test_an_address_that_another_is_about_to_have_is_taken(service: Service, owner: Operator, rival: str) -> None:
    """The second who wants it is refused, be it by a change or as a new seller; the one who leaves it makes it free."""
    ana, bea = [await owner.did("POST", "sellers", {**SELLER, "email": f"{name}@a.example"}) for name in ("ana", "bea")]

    async def move(tx: Transaction) -> None:
        assert await sellers.change(tx, ana["user_id"], email="wanted@a.example", name="Ana")

    change = {"email": "wanted@a.example"}
    path = f"sellers/{bea['user_id']}"
    request = (
        owner.refused("PATCH", path, change)
        if rival == "changed"
        else owner.refused("POST", "sellers", {**SELLER, **change})
    )
    assert await while_it_is_committed(service, move, request) == (409, "email_taken")

    async def leave(tx: Transaction) -> None:
        assert await sellers.change(tx, ana["user_id"], email="left@a.example", name="Ana")

    moved = await while_it_is_committed(service, leave, owner.did("PATCH", path, change))
    assert moved["email"] == "wanted@a.example"
