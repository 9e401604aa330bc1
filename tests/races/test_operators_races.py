"""Two concurrent operators: the second sees the change of the first, and neither undoes the other's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest

from operator_calls import Operator, operator
from paydesk.engine.oauth.clients import applications
from paydesk.engine.sellers import store as sellers
from paydesk.operators.applications.handlers import VALID_SECRETS_MAX
from paydesk.platform.storage.database import Database, Transaction, Work
from service import Service
from waiting import until, until_found

T = TypeVar("T")

APPLICATION = {"name": "Shop", "redirect_uris": ["https://shop.example/callback"]}
SELLER = {"name": "Ana", "country": "ARG", "currency": "ARS", "password": "long enough for this"}
LOCKED_OUT = """SELECT count(*) FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event <> 'advisory'"""


async def while_it_is_committed(database: Database, work: Work[Any], request: Awaitable[T], *, waiting: int = 1) -> T:
    """Return the response to a request that arrives while `work` is about to commit; on SQLite it waits anyway.

    On PostgreSQL the commit follows once `waiting` units of work wait for its locks, or the request is answered.
    """
    is_postgres, has_locks, may_commit = database.name == "postgres", False, False

    async def held(tx: Transaction) -> None:
        nonlocal has_locks
        await work(tx)
        has_locks = True
        while is_postgres and not may_commit:
            await tx.one("SELECT pg_sleep(0.005)")

    committing = asyncio.create_task(database.write(held))
    await asyncio.sleep(0)
    await until(lambda: not is_postgres or has_locks or committing.done())
    asked = asyncio.ensure_future(request)

    async def is_locked_out() -> bool:
        row = await database.read(lambda tx: tx.one(LOCKED_OUT))
        return asked.done() or (row is not None and row[0] >= waiting)

    if is_postgres:
        await until_found(is_locked_out)
    may_commit = True
    await committing
    return await asked


async def together(*requests: Awaitable[T]) -> list[T]:
    """Return the responses to concurrent requests. They start when this is awaited; those of `gather` start at once."""
    return await asyncio.gather(*requests)


@pytest.fixture
async def owner(service: Service) -> Operator:
    """An operator with the role owner."""
    return await operator(service)


async def test_change_does_not_undo_a_concurrent_one(service: Service, owner: Operator) -> None:
    """A new name is kept when another operator changes the scopes."""
    made = await owner.did("POST", "applications", APPLICATION)
    number = int(made["client_id"])

    async def rename(tx: Transaction) -> None:
        locked = await applications.lock(tx, number)
        assert locked is not None
        await applications.change(
            tx,
            number,
            name="Renamed",
            redirect_uris=locked.redirect_uris,
            scopes=locked.scopes,
            pkce_required=locked.pkce_required,
            on_replay=locked.on_replay,
            test_tokens=locked.test_tokens,
        )

    request = owner.did("PATCH", f"applications/{number}", {"scopes": "read"})
    changed = await while_it_is_committed(service.database, rename, request)
    assert (changed["name"], changed["scopes"]) == ("Renamed", "read")


async def test_too_many_concurrent_secrets_are_refused(service: Service, owner: Operator) -> None:
    """The first transaction gets the last place."""
    path = f"applications/{(await owner.did('POST', 'applications', APPLICATION))['client_id']}"
    for _ in range(VALID_SECRETS_MAX - 2):
        await owner.did("POST", f"{path}/secrets")
    number, now_ms = int(path.rpartition("/")[2]), service.clock.now_ms()

    async def add(tx: Transaction) -> None:
        await applications.lock(tx, number)
        await applications.add_secret(tx, number, now_ms)

    refused = await while_it_is_committed(service.database, add, owner.refused("POST", f"{path}/secrets"))
    assert refused == (409, "too_many_secrets")
    assert len((await owner.did("GET", path))["secrets"]) == VALID_SECRETS_MAX


@pytest.mark.parametrize("rival", ["changed", "new"])
async def test_email_that_another_transaction_is_about_to_take_is_refused(
    service: Service, owner: Operator, rival: str
) -> None:
    """For a change and for a new seller; the address is free after its seller changed it."""
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
    assert await while_it_is_committed(service.database, move, request) == (409, "email_taken")

    async def leave(tx: Transaction) -> None:
        assert await sellers.change(tx, ana["user_id"], email="left@a.example", name="Ana")

    moved = await while_it_is_committed(service.database, leave, owner.did("PATCH", path, change))
    assert moved["email"] == "wanted@a.example"
