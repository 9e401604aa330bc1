"""Operators verify a notification: as it was sent, or as a receiver got it; the secrets stay at the service."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from attempt_rows import add_attempt
from operator_calls import Operator, audited, operator
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.delivery.send import Request
from paydesk.platform.storage.database import Database
from service import Service, running
from webhooks_scene import subscribe

URL = "https://8.8.8.8/hook?token=s3cretvalue"


def encoded(body: str) -> str:
    """Return the body as the request has it."""
    return base64.b64encode(body.encode()).decode()


@dataclass(frozen=True)
class Sent:
    """A notification that was sent once, and the operator who verifies it."""

    service: Service
    one: Operator
    delivery_id: str
    subscription_id: str
    secret: Secret
    request: Request
    body: str

    async def check(self, **given: Any) -> dict[str, Any]:
        """Return the check of what a receiver got."""
        return await self.one.did("POST", f"deliveries/{self.delivery_id}/verify", given)


@asynccontextmanager
async def sent(database: Database, role: str = "viewer") -> AsyncIterator[Sent]:
    """Send a notification of a new order, which the receiver refuses."""
    async with running(database, workers=False) as service:
        application_id = service.scene.application.application_id
        subscription_id, secret = await subscribe(database, URL, application_id=application_id)
        one = await operator(service, role)
        order_id = (await service.create(await service.terminal())).body["id"]
        (delivery,) = (await one.did("GET", f"deliveries?order={order_id}"))["data"]
        request, body = await add_attempt(
            database, service.seller_id, delivery["id"], secret, url=URL, answer=(401, "wrong signature")
        )
        yield Sent(service, one, delivery["id"], subscription_id, secret, request, body)


@pytest.mark.on_postgres
async def test_attempt_is_explained(database: Database) -> None:
    """Without headers: what was signed, with which secret. The answer has no secret, and nothing is audited."""
    async with sent(database) as scene:
        checked = await scene.check()
        assert (checked["valid"], checked["attempt"], checked["differences"]) == (True, 1, [])
        first, second = checked["signatures"]
        order_id = scene.request.url.query["data.id"]
        request_id = scene.request.headers["X-Request-Id"]
        seconds = scene.request.headers["webhook-timestamp"]
        assert first["signed"] == f"id:{order_id};request-id:{request_id};ts:{seconds};"
        assert (first["secret_id"], second["secret_id"]) == ("1", "1")
        assert scene.secret.reveal() not in str(checked)
        assert await audited(scene.service) == []


async def test_received_as_it_was_sent_is_valid(database: Database) -> None:
    """Whatever the case of the names of headers; the URL may be the path that the receiver saw."""
    async with sent(database) as scene:
        headers = {name.upper(): value for name, value in scene.request.headers.items()}
        checked = await scene.check(headers=headers, body_base64=encoded(scene.body), url=scene.request.url.path_qs)
        assert (checked["valid"], checked["differences"]) == (True, [])


async def test_changed_parts_are_named(database: Database) -> None:
    """A proxy's X-Request-Id, a body that was written again, another data.id: each with what was sent and received."""
    async with sent(database) as scene:
        headers = {**scene.request.headers, "X-Request-Id": "of-a-proxy"}
        body = scene.body.replace('","', '", "')
        checked = await scene.check(headers=headers, body_base64=encoded(body), url="?data.id=ORD1")
        assert checked["valid"] is False
        assert [one["valid"] for one in checked["signatures"]] == [False, False]
        request_id, data_id, content = checked["differences"]
        assert (request_id["part"], request_id["received"]) == ("X-Request-Id", "of-a-proxy")
        assert (data_id["part"], data_id["received"]) == ("data.id", "ORD1")
        assert content["part"].startswith("body, from character ")
        assert '", "' in content["received"]
        assert '", "' not in content["sent"]


async def test_uuid_with_the_digits_of_a_card_is_shown(database: Database) -> None:
    """It is an id; a card number is masked."""
    async with sent(database) as scene:
        for request_id, shown in (
            ("99df222f-e102-4526-8593-18892706cd66", "99df222f-e102-4526-8593-18892706cd66"),
            ("4509 9535 6623 3704", "***"),
        ):
            headers = {**scene.request.headers, "X-Request-Id": request_id}
            checked = await scene.check(headers=headers, body_base64=encoded(scene.body))
            assert f";request-id:{shown};" in checked["signatures"][0]["signed"]
            assert checked["differences"][0]["received"] == shown


async def test_missing_header_is_named(database: Database) -> None:
    """What was not received has no `received`."""
    async with sent(database) as scene:
        headers = {name: value for name, value in scene.request.headers.items() if name != "X-Signature"}
        checked = await scene.check(headers=headers, body_base64=encoded(scene.body))
        (missing,) = checked["differences"]
        assert (missing["part"], "received" in missing) == ("X-Signature", False)
        assert checked["signatures"][0]["reasons"] == ["The header X-Signature is missing."]


@pytest.mark.on_postgres
async def test_dropped_secret_explains_but_is_not_valid(database: Database) -> None:
    """What was sent with it stays explained; a receiver must not accept it any more."""
    async with sent(database, "owner") as scene:
        path = f"subscriptions/{scene.subscription_id}/secrets"
        added = await scene.one.did("POST", path)
        await scene.one.did("POST", f"{path}/{added['id']}/promote")
        await scene.one.did("DELETE", f"{path}/1")
        assert (await scene.check())["valid"] is True
        received = await scene.check(headers=dict(scene.request.headers), body_base64=encoded(scene.body))
        assert received["valid"] is False
        assert "dropped since" in received["signatures"][0]["reasons"][0]


async def test_secrets_in_what_was_received_are_masked(database: Database) -> None:
    """An operator who pastes a whole request may paste its credentials too."""
    async with sent(database) as scene:
        secret = scene.secret.reveal()
        checked = await scene.check(
            headers={**scene.request.headers, "X-Request-Id": secret}, body_base64=encoded(scene.body)
        )
        assert secret not in str(checked)


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"attempt": 7}, "'$.attempt' - must be the number of an attempt"),
        ({"body_base64": "{}"}, "'$.body_base64' - must be base64"),
        ({"headers": {"X-Signature": "a"}, "url": "http://[1"}, "'$.url' - must be a URL"),
    ],
)
async def test_invalid_check_is_refused(database: Database, body: dict[str, Any], rule: str) -> None:
    """With what must be sent instead."""
    async with sent(database) as scene:
        reply = await scene.one.ask("POST", f"deliveries/{scene.delivery_id}/verify", body)
        assert (reply.status, reply.code) == (400, "property_value")
        assert rule in str(reply.body)


async def test_without_an_attempt_headers_are_needed(database: Database) -> None:
    """A notification that was never sent can only be compared with what a receiver got."""
    async with sent(database) as scene:
        await scene.service.scene.run("DELETE FROM attempts")
        path = f"deliveries/{scene.delivery_id}/verify"
        assert await scene.one.refused("POST", path, {}) == (400, "property_value")
        checked = await scene.check(headers=dict(scene.request.headers), body_base64=encoded(scene.body))
        assert (checked["valid"], "attempt" in checked) == (True, False)


async def test_attempt_of_the_received_time_is_compared(database: Database) -> None:
    """A receiver that got the first of two attempts is compared with that one; signatures are shown whole."""
    async with sent(database) as scene:
        await add_attempt(
            database, scene.service.seller_id, scene.delivery_id, scene.secret, number=2, url=URL, error="refused"
        )
        checked = await scene.check(headers=dict(scene.request.headers), body_base64=encoded(scene.body))
        assert (checked["valid"], checked["attempt"], checked["differences"]) == (True, 1, [])
        checked = await scene.check(headers=dict(scene.request.headers), body_base64=encoded(scene.body), attempt=2)
        assert scene.request.headers["X-Signature"] in [one["received"] for one in checked["differences"]]
