"""X-Idempotency-Key: one key, one effect, one answer."""

from __future__ import annotations

import asyncio
import json

import pytest

from accounts import other_application, other_seller
from paydesk.platform.storage.database import Database
from raw_http import exchange, head
from service import Reply, Service, Terminal, order_body, running
from tables import each

REPLAYED = "x-idempotent-replayed"


async def _create(service: Service, terminal: Terminal, key: str, amount: str = "24.90") -> Reply:
    return await service.create(terminal, key=key, amount=amount)


async def _replays(service: Service, key: str) -> int:
    count: int = await service.scene.value("SELECT replays FROM idempotency_keys WHERE idempotency_key = $1", key)
    return count


@pytest.mark.on_postgres
async def test_the_key_is_required(service: Service) -> None:
    """A missing and an empty key get the same documented message."""
    terminal = await service.terminal()
    for key, headers in ((None, {}), (None, {"X-Idempotency-Key": ""})):
        reply = await service.request("POST", "/v1/orders", order_body(terminal.id), key=key, headers=headers)
        assert (reply.status, reply.code) == (400, "empty_required_header")
        assert reply.body["message"] == "Missing HTTP header: X-Idempotency-Key."


@each(
    "fields",
    [
        ["X-Idempotency-Key: " + "k" * 65],
        ["X-Idempotency-Key: a b"],
        ["X-Idempotency-Key: clé"],
    ],
)
async def test_a_malformed_key(service: Service, fields: list[str]) -> None:
    """Too long, with a space, beyond ASCII: refused, and never cut to fit."""
    authorization = f"Authorization: Bearer {service.access_token}"
    reply = await exchange(service, head("POST", "/v1/orders", authorization, "Content-Length: 0", *fields))
    assert (reply.status, reply.code) == (400, "invalid_idempotency_key_length")


@pytest.mark.on_postgres
async def test_keys_of_minimum_and_maximum_length_are_accepted(service: Service) -> None:
    """One character, 64, and every visible one of ASCII."""
    for key in ("k", "k" * 64, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"):
        assert (await _create(service, await service.terminal(), key)).status == 201


@pytest.mark.on_postgres
async def test_a_repeated_request_returns_the_stored_response(service: Service) -> None:
    """The stored answer, byte for byte, marked as such; there is one order and the replays are counted."""
    terminal = await service.terminal()
    first = await _create(service, terminal, "key")
    assert REPLAYED not in first.headers
    for times in (1, 2):
        again = await _create(service, terminal, "key")
        assert (again.status, again.raw) == (first.status, first.raw)
        assert again.headers[REPLAYED] == "true"
        assert await _replays(service, "key") == times
    assert await service.scene.value("SELECT COUNT(*) FROM orders") == 1


@pytest.mark.on_postgres
async def test_json_formatting_does_not_change_the_request(service: Service) -> None:
    """Spaces, the order of keys and escapes: the request is what it says."""
    terminal = await service.terminal()
    body = order_body(terminal.id, description="Café")
    first = await service.request("POST", "/v1/orders", body, key="key")
    for data in (
        json.dumps(dict(reversed(body.items()))),
        json.dumps(body, indent=4),
        json.dumps(body, ensure_ascii=False),
    ):
        again = await service.request("POST", "/v1/orders", data=data.encode(), key="key")
        assert (again.status, again.raw) == (201, first.raw)


@pytest.mark.on_postgres
async def test_the_same_key_with_another_request_returns_409(service: Service) -> None:
    """A conflict; the first request's answer stays."""
    terminal = await service.terminal()
    first = await _create(service, terminal, "key")
    other = await _create(service, terminal, "key", amount="24.9")
    assert (other.status, other.code) == (409, "idempotency_key_already_used")
    assert (await _create(service, terminal, "key")).raw == first.raw


@pytest.mark.on_postgres
async def test_a_repeated_cancel_returns_the_stored_response(service: Service) -> None:
    """No body, an empty one and `{}` are one request; the extra header makes another."""
    order_id = (await service.create(await service.terminal())).body["id"]
    first = await service.cancel(order_id, key="key")
    for data in (None, b"", b"{}"):
        again = await service.cancel(order_id.lower(), key="key", data=data)
        assert (again.status, again.raw, again.headers[REPLAYED]) == (200, first.raw, "true")
    other = await service.cancel(order_id, key="key", headers={"X-Allow-Cancelable-Status": "at_terminal"})
    assert (other.status, other.code) == (409, "idempotency_key_already_used")


@pytest.mark.on_postgres
async def test_keys_are_separate_per_operation_and_object(service: Service) -> None:
    """Another operation, order, kind of token, application or seller: each has keys of its own."""
    application, other = await other_application(service), await other_seller(service)
    orders = [(await _create(service, await service.terminal(), "key")).body["id"]]
    orders.append((await _create(application, await service.terminal(), "key")).body["id"])
    orders.append((await _create(other, await other.terminal(), "key")).body["id"])
    live = order_body((await service.terminal(live=True)).id)
    orders.append(
        (await service.request("POST", "/v1/orders", live, key="key", token=service.live_access_token)).body["id"]
    )
    assert len(set(orders)) == 4
    assert [(await service.cancel(order_id, key="key")).status for order_id in orders[:2]] == [200, 200]


@pytest.mark.on_postgres
async def test_a_refusal_releases_the_key(service: Service) -> None:
    """A till repeats its sale under the same key once the terminal is free."""
    terminal = await service.terminal()
    in_the_way = (await service.create(terminal)).body["id"]
    for _ in range(2):
        refused = await _create(service, terminal, "key")
        assert (refused.status, refused.code) == (409, "already_queued_order_on_terminal")
        assert REPLAYED not in refused.headers
    assert await service.scene.value("SELECT COUNT(*) FROM idempotency_keys WHERE idempotency_key = 'key'") == 0
    await service.cancel(in_the_way)
    assert (await _create(service, terminal, "key")).status == 201


@pytest.mark.on_postgres
async def test_a_refusal_that_commits_releases_the_key(service: Service) -> None:
    """A cancel that finds its order canceled may be sent again, changed, under the same key."""
    order_id = (await service.create(await service.terminal())).body["id"]
    await service.cancel(order_id)
    assert (await service.cancel(order_id, key="key")).code == "order_already_canceled"
    reply = await service.cancel(order_id, key="key", headers={"X-Allow-Cancelable-Status": "at_terminal"})
    assert reply.code == "order_already_canceled"


@pytest.mark.on_postgres
async def test_a_replay_returns_the_original_response(service: Service) -> None:
    """A replay returns the order as it was at the create, not its current state."""
    terminal = await service.terminal()
    first = await _create(service, terminal, "key")
    await service.cancel(first.body["id"])
    again = await _create(service, terminal, "key")
    assert (again.raw, again.body["status"]) == (first.raw, "created")
    assert (await service.get(first.body["id"]))["status"] == "canceled"


@pytest.mark.on_postgres
async def test_concurrent_requests_with_one_key_have_one_effect(service: Service) -> None:
    """Fifty requests with one key make one order and are answered alike."""
    terminal = await service.terminal()
    replies = await asyncio.gather(*(_create(service, terminal, "key") for _ in range(50)))
    assert {(reply.status, reply.raw) for reply in replies} == {(201, replies[0].raw)}
    assert sum(REPLAYED not in reply.headers for reply in replies) == 1
    assert await _replays(service, "key") == 49


@pytest.mark.on_postgres
async def test_keys_survive_a_restart(database: Database) -> None:
    """Another process on the same database answers the same bytes."""
    async with running(database) as service:
        terminal, token = await service.terminal(), service.access_token
        first = await _create(service, terminal, "key")
    async with running(database) as service:
        service.access_token = token
        again = await _create(service, terminal, "key")
        assert (again.status, again.raw, again.headers[REPLAYED]) == (201, first.raw, "true")


@pytest.mark.on_postgres
async def test_operations_without_idempotency_ignore_the_key(service: Service) -> None:
    """A get with any key, or with a malformed one, is a get."""
    order_id = (await _create(service, await service.terminal(), "key")).body["id"]
    headers = {"X-Idempotency-Key": "key"}
    reply = await service.request("GET", f"/v1/orders/{order_id}", headers=headers)
    assert (reply.status, REPLAYED in reply.headers) == (200, False)
