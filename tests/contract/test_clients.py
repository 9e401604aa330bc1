"""The official Python client, unmodified, against the service: from a code to an order, and what it says of webhooks.

More of orders, with the client for Node beside it, is in `tests/clients`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import mercadopago
import pytest
import standardwebhooks
from mercadopago.config.config import Config
from mercadopago.errors import (
    MercadoPagoError,
    MPBadRequestError,
)
from mercadopago.webhook import InvalidWebhookSignatureError, SignatureFailureReason, WebhookSignatureValidator

from oauth_scene import SECOND_MS
from paydesk.core.clock import MovableClock
from paydesk.core.ids import ulid
from paydesk.platform.storage.database import Database
from service import Service, Terminal, order_body, running
from webhooks_scene import Received, receiver, step, subscribe, until, worker

TOLERANCE_SECONDS = 300
OUTSIDE_SECONDS = TOLERANCE_SECONDS + 60


@pytest.fixture
async def service(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """A service that the client takes for the one it was written for."""
    clock = MovableClock()
    async with running(database, clock=clock) as made:
        made.scene.clock = clock
        monkeypatch.setattr(Config, "_Config__api_base_url", made.base_url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield made


async def refused(call: Any, *args: Any) -> MercadoPagoError:
    """The error that the client raises of its own answer."""
    answer = await asyncio.to_thread(call, *args)
    with pytest.raises(MercadoPagoError) as raised:
        answer.raise_for_status()
    return raised.value


async def answered(call: Any, *args: Any) -> Any:
    """The body of the client's answer, which must be a good one."""
    answer = await asyncio.to_thread(call, *args)
    answer.raise_for_status()
    return answer["response"]


async def test_the_client_gets_tokens_and_takes_an_order_through_its_life(service: Service) -> None:
    """From a code to tokens, from a refresh to new ones, and with these an order is made, read and canceled."""
    scene, terminal = service.scene, await service.terminal()
    client = mercadopago.SDK("none")
    exchange = scene.exchange(await scene.code(), test_token="true")
    tokens = await answered(client.oauth().create, exchange)
    assert (tokens["token_type"], tokens["user_id"], tokens["live_mode"]) == ("bearer", service.seller_id, False)
    refreshed = await answered(client.oauth().refresh, scene.refresh(tokens["refresh_token"]))
    assert refreshed["refresh_token"] != tokens["refresh_token"]

    orders = mercadopago.SDK(refreshed["access_token"]).order()
    created = await answered(orders.create, order_body(terminal.id))
    assert (created["status"], created["user_id"]) == ("created", str(service.seller_id))
    assert await answered(orders.get, created["id"]) == created
    canceled = await answered(orders.cancel, created["id"])
    assert (canceled["id"], canceled["status"], canceled["status_detail"]) == (created["id"], "canceled", "canceled")


async def test_the_client_reads_the_errors_of_tokens(service: Service) -> None:
    """An OAuth error is the client's MPBadRequestError with the code in `error`, and its causes are a list."""
    scene, oauth = service.scene, mercadopago.SDK("none").oauth()
    error = await _expect(MPBadRequestError, 400, "invalid_grant", oauth.create, scene.exchange("TG-0"))
    assert error.causes == []
    wrong = {**scene.refresh("TG-0"), "client_secret": "wrong"}
    await _expect(MPBadRequestError, 400, "invalid_client", oauth.refresh, wrong)
    other = {**scene.credentials(), "grant_type": "client_credentials"}
    await _expect(MPBadRequestError, 400, "unsupported_grant_type", oauth.create, other)


async def _expect(kind: type[MercadoPagoError], status: int, code: str, call: Any, *args: Any) -> MercadoPagoError:
    error = await refused(call, *args)
    assert (type(error), error.status_code, error.error) == (kind, status, code)
    assert error.message
    return error


async def test_official_validators_take_what_is_delivered(service: Service) -> None:
    """The vendor's validator and Standard Webhooks' both accept a delivery as it came in at a real receiver."""
    async with receiver() as inbox:
        _, secret = await subscribe(
            service.database, inbox.url, application_id=service.scene.application.application_id
        )
        await _an_order(service, await service.terminal())
        await until(lambda: len(inbox.got) == 2)
    for got in inbox.got:
        _validate(got, secret.reveal())
        body = standardwebhooks.Webhook(secret.reveal()).verify(got.body, dict(got.headers))
        assert body == json.loads(got.body)
        assert got.url.query["data.id"] == body["data"]["id"].lower()


async def test_official_validators_refuse_what_was_tampered_with(service: Service) -> None:
    """Another id, another request id, another body, another secret: each is noticed by who signs it."""
    async with receiver() as inbox:
        _, secret = await subscribe(
            service.database, inbox.url, application_id=service.scene.application.application_id
        )
        await _an_order(service, await service.terminal())
        await until(lambda: len(inbox.got) == 2)
    one, other = inbox.got
    mismatch = SignatureFailureReason.SIGNATURE_MISMATCH
    assert _failure(one, secret.reveal(), data_id=f"ord{ulid(0)}".lower()) is mismatch
    assert _failure(one, secret.reveal(), request_id=other.headers["X-Request-Id"]) is mismatch
    assert _failure(one, secret.reveal() + "=") is mismatch
    webhook = standardwebhooks.Webhook(secret.reveal())
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        webhook.verify(other.body, dict(one.headers))
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        webhook.verify(one.body, {**one.headers, "webhook-id": other.headers["webhook-id"]})


async def test_official_validators_refuse_what_is_out_of_date(database: Database) -> None:
    """What a node signed whose clock is six minutes behind is outside a tolerance of five minutes."""
    behind = MovableClock(-OUTSIDE_SECONDS * SECOND_MS)
    async with running(database, workers=False) as service, receiver() as inbox:
        _, secret = await subscribe(database, inbox.url, application_id=service.scene.application.application_id)
        await _an_order(service, await service.terminal())
        async with worker(database, MovableClock(), wall=behind) as delivery:
            assert await step(delivery) == 2
    got = inbox.got[0]
    assert _failure(got, secret.reveal()) is SignatureFailureReason.TIMESTAMP_OUT_OF_TOLERANCE
    assert _failure(got, secret.reveal(), tolerance_seconds=OUTSIDE_SECONDS + TOLERANCE_SECONDS) is None
    with pytest.raises(standardwebhooks.WebhookVerificationError, match="too old"):
        standardwebhooks.Webhook(secret.reveal()).verify(got.body, dict(got.headers))


async def _an_order(service: Service, terminal: Terminal) -> None:
    """Two notifications: created and canceled."""
    created = await service.create(terminal)
    assert (await service.cancel(created.body["id"])).status == 200


def _validate(
    got: Received, secret: str, data_id: str = "", request_id: str = "", tolerance_seconds: int = TOLERANCE_SECONDS
) -> None:
    WebhookSignatureValidator.validate(
        got.headers["X-Signature"],
        request_id or got.headers["X-Request-Id"],
        data_id or got.url.query["data.id"],
        secret,
        tolerance_seconds=tolerance_seconds,
    )


def _failure(got: Received, secret: str, **changes: Any) -> SignatureFailureReason | None:
    try:
        _validate(got, secret, **changes)
    except InvalidWebhookSignatureError as error:
        return error.reason
    return None
