"""Promise: a link sets one password, and no session outlives the password or the operator that began it.

| Concurrent with | Possible results |
|---|---|
| the same link | one sets the password, the other gets 410 |
| a sign-in with the old password, while a new one is set | no session of the old password is left |
| a sign-in with the password, while it is hashed anew | it begins a session |
| the hashing anew of the old password, while a new one is set | the new one stays |
| a sign-in, while the operator is revoked | no session is left |
| the same e-mail address | one operator has it |
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from argon2 import PasswordHasher
from test_operators_races import while_it_is_committed

from nodes import two_nodes
from operator_calls import operator
from operator_people import HOUR_MS, PASSWORD, SIGN_IN, begin_session, make_person
from page_scene import Browser
from paydesk.console.sessions import OPERATORS
from paydesk.operators.accounts import links, store
from paydesk.platform.storage.database import Database, Transaction
from service import Service

ROUNDS = 6
OPEN = "SELECT COUNT(*) FROM operator_sessions WHERE ended_ms IS NULL AND operator_id = $1"
NEW_HASH = "the hash of another password"

Nodes = tuple[Service, Service]


@pytest.fixture
async def nodes(database: Database, database_url: str) -> AsyncIterator[Nodes]:
    """Return the service at two nodes; on SQLite the same one twice."""
    async with two_nodes(database, database_url) as nodes:
        yield nodes


async def test_link_sets_one_password(nodes: Nodes) -> None:
    """Of two browsers at two nodes one is signed in."""
    owner = await operator(nodes[0])
    for number in range(ROUNDS):
        person = {"name": "Eva", "role": "viewer", "email": f"evaline{number}@shop.example"}
        made = await owner.did("POST", "operators", person)
        path = made["password_url"][made["password_url"].index("/console/") :]
        browsers = [Browser(node) for node in nodes]
        forms = [(await browser.get(path)).form(path) for browser in browsers]
        pages = await asyncio.gather(
            *(
                browser.submit(form, password=f"several unrelated words {place}")
                for place, (browser, form) in enumerate(zip(browsers, forms, strict=True))
            )
        )
        assert sorted(page.status for page in pages) == [303, 410]
        assert await nodes[0].scene.value(OPEN, made["operator_id"]) == 1


async def test_link_is_used_once_also_at_the_same_instant(service: Service) -> None:
    """A request that finds a valid link waits for the one that uses it."""
    person, now_ms = await make_person(service), service.clock.now_ms()
    link = await service.database.write(lambda tx: links.create(tx, person.operator_id, now_ms))
    token = link.token.reveal()

    async def use(tx: Transaction) -> None:
        assert await links.use(tx, token, now_ms) is not None

    later = service.database.write(lambda tx: links.use(tx, token, now_ms))
    assert await while_it_is_committed(service.database, use, later) is None


async def _begin(service: Service, operator_id: str, password_hash: str) -> bool:
    now_ms = service.clock.now_ms()
    token = await service.database.write(
        lambda tx: OPERATORS.begin(
            tx,
            operator_id,
            details=OPERATORS.details(now_ms, "127.0.0.1", ""),
            password_hash=password_hash,
            now_ms=now_ms,
            expires_ms=now_ms + HOUR_MS,
        )
    )
    return token is not None


async def test_no_session_of_the_old_password_is_left(service: Service) -> None:
    """A sign-in that verified the old password begins none while, or after, a new one is set."""
    person = await make_person(service)
    old = await service.scene.value("SELECT password FROM operators WHERE operator_id = $1", person.operator_id)
    await begin_session(service, person.operator_id)

    async def change(tx: Transaction) -> None:
        await OPERATORS.set_password(tx, person.operator_id, NEW_HASH, 1)

    assert not await while_it_is_committed(service.database, change, _begin(service, person.operator_id, old))
    assert await service.scene.value(OPEN, person.operator_id) == 0
    assert await _begin(service, person.operator_id, NEW_HASH)


@pytest.mark.parametrize("same", [False, True], ids=["another password", "a new hash"])
async def test_sign_in_starts_over_if_its_account_changes(service: Service, *, same: bool) -> None:
    """It has verified the old hash: it begins a session if the new one is of the same password."""
    person, browser = await make_person(service), Browser(service)
    old = await service.scene.value("SELECT password FROM operators WHERE operator_id = $1", person.operator_id)
    form, new = (await browser.get(SIGN_IN)).form(SIGN_IN), PasswordHasher().hash(PASSWORD if same else "another one")

    async def change(tx: Transaction) -> None:
        assert await tx.run(OPERATORS.change_hash, person.operator_id, new, old)

    request = browser.submit(form, email=person.email, password=PASSWORD)
    page = await while_it_is_committed(service.database, change, request)
    assert page.status == (303 if same else 403)
    assert await service.scene.value(OPEN, person.operator_id) == int(same)


async def test_new_hash_replaces_no_new_password(service: Service) -> None:
    """A sign-in that hashes its password anew writes nothing if another password is set meanwhile."""
    person = await make_person(service)
    stored = "SELECT password FROM operators WHERE operator_id = $1"
    old = await service.scene.value(stored, person.operator_id)

    async def change(tx: Transaction) -> None:
        await OPERATORS.set_password(tx, person.operator_id, NEW_HASH, 1)

    rehash = service.database.write(lambda tx: tx.run(OPERATORS.change_hash, person.operator_id, "of the old one", old))
    assert not await while_it_is_committed(service.database, change, rehash)
    assert await service.scene.value(stored, person.operator_id) == NEW_HASH


async def test_no_session_of_a_revoked_operator_is_left(service: Service) -> None:
    """A sign-in that meets the revocation begins none."""
    person, now_ms = await make_person(service), service.clock.now_ms()
    await begin_session(service, person.operator_id)

    async def revoke(tx: Transaction) -> None:
        await store.revoke(tx, person.operator_id, now_ms)
        await OPERATORS.end_all(tx, person.operator_id, now_ms)

    assert not await while_it_is_committed(service.database, revoke, _begin(service, person.operator_id, ""))
    assert await service.scene.value(OPEN, person.operator_id) == 0


async def test_email_belongs_to_one_of_two_operators(nodes: Nodes) -> None:
    """Whether they are added or changed at the same time."""
    owner = await operator(nodes[0])
    there = type(owner)(nodes[1], owner.operator_id, owner.token)
    for number in range(ROUNDS):
        email = f"ana{number}@shop.example"
        other = await owner.did("POST", "operators", {"name": "Ana", "role": "viewer"})
        replies = await asyncio.gather(
            owner.ask("POST", "operators", {"name": "Eva", "role": "viewer", "email": email}),
            there.ask("PATCH", f"operators/{other['operator_id']}", {"email": email}),
        )
        assert sorted(reply.status // 100 for reply in replies) == [2, 4]
        assert {reply.code for reply in replies if reply.status >= 400} == {"email_taken"}
