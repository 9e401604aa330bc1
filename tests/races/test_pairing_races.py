"""Pairing, deletion and orders at the same moment: one of two that exclude each other succeeds."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from test_operators_races import together, while_it_is_committed

from accounts import other_seller
from conftest import short_and_long
from operator_calls import Operator, operator
from pairing_scene import ask_to_pair, poll
from paydesk.engine.terminals import registry, store, stores
from paydesk.engine.terminals.pairing import store as pairing_store
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction
from recording_database import RecordingDatabase
from service import Service, running

APPROVALS = 8


@pytest.fixture
async def owner(service: Service) -> Operator:
    """An operator with the role owner."""
    return await operator(service)


async def new_pos(owner: Operator) -> dict[str, Any]:
    """Create a point of sale in a store of its own."""
    seller_id = owner.service.seller_id
    shop = await owner.did("POST", "stores", {"seller_id": seller_id, "name": "Shop"})
    body = {"seller_id": seller_id, "store_id": shop["store_id"], "external_pos_id": "TILL"}
    return await owner.did("POST", "pos", body)


@pytest.mark.parametrize("rounds", short_and_long(5, 50))
async def test_code_is_approved_once(service: Service, rounds: int) -> None:
    """Of many operators with one code one succeeds, the others get 404; the one token works."""
    operators = [await operator(service) for _ in range(APPROVALS)]
    for _ in range(rounds):
        codes = await ask_to_pair(service)
        path, body = f"pairings/{codes['user_code']}", {"seller_id": service.seller_id, "replace": True}
        replies = await asyncio.gather(*[one.ask("POST", path, body) for one in operators])
        assert sorted(reply.status for reply in replies) == [201] + [404] * (APPROVALS - 1)
        assert (await poll(service, codes)).status == 200
    assert await service.scene.value("SELECT COUNT(*) FROM device_tokens WHERE revoked_ms IS NULL") == rounds


async def test_code_that_another_transaction_approves_is_used(service: Service, owner: Operator) -> None:
    """An approval and a denial wait for it, and get 404."""
    codes = await ask_to_pair(service)
    path, now_ms = f"pairings/{codes['user_code']}", service.clock.now_ms()

    async def approve(tx: Transaction) -> None:
        await pairing_store.approve(
            tx, codes["user_code"], now_ms, seller_id=service.seller_id, key_version=1, expires_ms=now_ms + 600_000
        )

    requests = together(
        *[
            owner.refused("POST", path, {"seller_id": service.seller_id}),
            owner.refused("DELETE", path),
        ]
    )
    replies = await while_it_is_committed(service.database, approve, requests)
    assert replies == [(404, "pairing_not_found")] * 2


async def test_terminal_is_paired_with_one_seller(service: Service, owner: Operator) -> None:
    """Two codes of one terminal are approved for two sellers at once: one gets it, the other 409."""
    foreign = await other_seller(service)
    for number in range(5):
        terminal_id = f"M__{number}"
        codes = [await ask_to_pair(service, terminal_id) for _ in range(2)]
        replies = await asyncio.gather(
            *[
                owner.ask("POST", f"pairings/{one['user_code']}", {"seller_id": seller_id})
                for one, seller_id in zip(codes, (service.seller_id, foreign.seller_id), strict=True)
            ]
        )
        assert sorted((reply.status, reply.body.get("error")) for reply in replies) == [
            (201, None),
            (409, "terminal_already_paired"),
        ]
        polls = [(await poll(service, one)).status for one in codes]
        assert polls == [200 if reply.status == 201 else 400 for reply in replies]


async def test_token_about_to_be_revoked_begins_no_session(service: Service) -> None:
    """A device with the earlier token can't take the session over from the one that is paired anew."""
    device = await service.device(await service.terminal())
    terminal_id, hello = device.terminal.id, {"boot_id": str(uuid.uuid4()), "app_version": "1", "journal": []}

    async def revoke(tx: Transaction) -> None:
        assert await store.lock(tx, service.seller_id, terminal_id)
        await store.mint_token(tx, service.seller_id, terminal_id, service.clock.now_ms())

    reply = await while_it_is_committed(service.database, revoke, device.post("/hello", hello))
    assert (reply.status, reply.code) == (401, "unauthorized")
    assert await service.scene.value("SELECT session FROM terminals") == 1


async def test_terminal_with_an_order_about_to_be_created_is_not_deleted(service: Service, owner: Operator) -> None:
    """Nor moved, nor is its mode changed: each waits for the order."""
    terminal, other = await service.terminal(), await service.terminal()
    order_id = (await service.create(other)).body["id"]

    async def create(tx: Transaction) -> None:
        assert await store.for_order(tx, service.seller_id, terminal.id)
        await tx.run("UPDATE orders SET terminal_id = $2 WHERE order_id = $1", order_id, terminal.id)

    path = f"terminals/{terminal.id}"
    requests = together(
        *[
            owner.refused("DELETE", path),
            owner.refused("PATCH", path, {"operating_mode": "STANDALONE"}),
        ]
    )
    replies = await while_it_is_committed(service.database, create, requests, waiting=2)
    assert replies == [
        (409, "in_use"),
        (409, "terminal_busy"),
    ]


async def test_operator_sets_a_mode_in_the_order_of_locks(database: Database) -> None:
    """The point of sale, then the terminal, as for an application: otherwise the two could deadlock."""
    recording = RecordingDatabase(database)
    async with running(recording, workers=False) as service:
        owner, terminal = await operator(service), await service.terminal(mode="STANDALONE")
        asked = []
        for change in (
            owner.ask("PATCH", f"terminals/{terminal.id}", {"operating_mode": "PDV"}),
            service.request(
                "PATCH", "/terminals/v1/setup", {"terminals": [{"id": terminal.id, "operating_mode": "SELF_SERVICE"}]}
            ),
        ):
            recording.asked.clear()
            assert (await change).status == 200
            asked.append([sql for sql in recording.asked if sql in (stores.LOCK_POS, store.LOCK)])
        assert asked == [[stores.LOCK_POS, store.LOCK]] * 2


async def test_terminal_about_to_change_its_seller_is_not_moved(service: Service, owner: Operator) -> None:
    """Its former seller's point of sale is not another seller's."""
    pos, terminal, foreign = await new_pos(owner), await service.terminal(), await other_seller(service)
    now_ms = service.clock.now_ms()

    async def sell(tx: Transaction) -> None:
        await stores.lock_pos(tx, service.seller_id, pos["pos_id"])
        assert await store.lock(tx, service.seller_id, terminal.id)
        await registry.delete(tx, service.seller_id, terminal.id, now_ms)
        shop = await stores.create_store(tx, foreign.seller_id, "Shop", now_ms)
        there = await stores.create_pos(tx, foreign.seller_id, shop.store_id, "T", "T", now_ms)
        assert there is not None
        assert await store.create(
            tx,
            seller_id=foreign.seller_id,
            pos_id=there.pos_id,
            terminal_id=terminal.id,
            live=False,
            now_ms=now_ms,
        )

    request = owner.ask("PATCH", f"terminals/{terminal.id}", {"pos_id": pos["pos_id"]})
    reply = await while_it_is_committed(service.database, sell, request)
    assert reply.status == 404, reply.body


async def test_terminal_about_to_be_deleted_takes_no_order(service: Service) -> None:
    """The request waits, and is refused as for an unknown terminal."""
    terminal = await service.terminal()

    async def delete(tx: Transaction) -> None:
        assert await store.lock(tx, service.seller_id, terminal.id)
        await registry.delete(tx, service.seller_id, terminal.id, service.clock.now_ms())

    reply = await while_it_is_committed(service.database, delete, service.create(terminal))
    unknown = await service.create(terminal)
    assert (reply.status, reply.code) == (unknown.status, unknown.code)
    assert reply.status in (403, 404)


@pytest.mark.parametrize("rounds", short_and_long(5, 50))
async def test_deletion_and_order_exclude_each_other(service: Service, owner: Operator, rounds: int) -> None:
    """Whichever comes first, there is never a live order of a terminal that is gone."""
    for _ in range(rounds):
        terminal = await service.terminal()
        created, deleted = await asyncio.gather(
            service.create(terminal), owner.ask("DELETE", f"terminals/{terminal.id}")
        )
        assert (created.status == 201) == (deleted.status == 409), (created.body, deleted.body)
    orphans = (
        "SELECT COUNT(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM terminals t WHERE t.terminal_id = o.terminal_id)"
    )
    assert await service.scene.value(orphans) == 0


async def test_pos_about_to_get_a_terminal_is_not_deleted(service: Service, owner: Operator) -> None:
    """The deletion waits for the pairing."""
    pos, now_ms = await new_pos(owner), service.clock.now_ms()

    async def create(tx: Transaction) -> None:
        made = await store.create(
            tx, seller_id=service.seller_id, pos_id=pos["pos_id"], terminal_id="M__1", live=True, now_ms=now_ms
        )
        assert made is not None

    request = owner.refused("DELETE", f"pos/{pos['pos_id']}")
    replies = await while_it_is_committed(service.database, create, request)
    assert replies == (409, "in_use")


async def test_pos_about_to_be_deleted_gets_no_terminal(service: Service, owner: Operator) -> None:
    """Neither by pairing nor by moving."""
    pos, terminal = await new_pos(owner), await service.terminal()
    codes, seller_id = await ask_to_pair(service), service.seller_id

    async def delete(tx: Transaction) -> None:
        assert await stores.lock_pos(tx, seller_id, pos["pos_id"])
        await stores.delete_pos(tx, seller_id, pos["pos_id"])

    there = {"pos_id": pos["pos_id"]}
    requests = together(
        *[
            owner.refused("POST", f"pairings/{codes['user_code']}", {"seller_id": seller_id, **there}),
            owner.refused("PATCH", f"terminals/{terminal.id}", there),
        ]
    )
    replies = await while_it_is_committed(service.database, delete, requests, waiting=2)
    assert replies == [(404, "pos_not_found")] * 2


async def test_store_and_its_new_pos_exclude_each_other(service: Service, owner: Operator) -> None:
    """A store about to get a point of sale is not deleted; one about to be deleted gets none."""
    seller_id, now_ms = service.seller_id, service.clock.now_ms()
    first, second = [
        (await owner.did("POST", "stores", {"seller_id": seller_id, "name": "Shop"}))["store_id"] for _ in range(2)
    ]

    async def create(tx: Transaction) -> None:
        assert await stores.create_pos(tx, seller_id, first, "T1", "T1", now_ms)

    replies = await while_it_is_committed(service.database, create, owner.refused("DELETE", f"stores/{first}"))
    assert replies == (
        409,
        "in_use",
    )

    async def delete(tx: Transaction) -> None:
        assert await stores.lock_store(tx, seller_id, second)
        await stores.delete_store(tx, seller_id, second)

    body = {"seller_id": seller_id, "store_id": second, "external_pos_id": "T2"}
    request = owner.refused("POST", "pos", body)
    replies = await while_it_is_committed(service.database, delete, request)
    assert replies == (404, "store_not_found")


async def test_external_id_that_another_transaction_is_about_to_take_is_refused(
    service: Service, owner: Operator
) -> None:
    """For a change and for a new point of sale."""
    pos, seller_id = await new_pos(owner), service.seller_id
    body = {"seller_id": seller_id, "store_id": pos["store_id"], "external_pos_id": "OTHER"}
    other = (await owner.did("POST", "pos", body))["pos_id"]

    async def rename(tx: Transaction) -> None:
        locked = await stores.lock_pos(tx, seller_id, pos["pos_id"])
        assert locked is not None
        assert await stores.change_pos(tx, locked, name="Till", external_pos_id="WANTED")

    wanted = {"external_pos_id": "WANTED"}
    requests = together(
        *[
            owner.refused("PATCH", f"pos/{other}", wanted),
            owner.refused("POST", "pos", {**body, **wanted}),
        ]
    )
    assert (
        await while_it_is_committed(service.database, rename, requests, waiting=2)
        == [(409, "external_pos_id_taken")] * 2
    )


async def test_many_pairings_at_once_are_bounded(database: Database) -> None:
    """Concurrent transactions may exceed the bound by their number, and by no more."""
    async with running(database, settings=Settings(pairings_open_max=10), workers=False) as service:
        request = {"model": "M", "serial": "1"}
        replies = await asyncio.gather(
            *[service.request("POST", "/device/v1/pairings", request, token=None, key=None) for _ in range(100)]
        )
        made = [reply.status for reply in replies].count(201)
        assert {reply.status for reply in replies} == {201, 429}
        assert 10 <= made <= 10 + Settings().database_connections_max
