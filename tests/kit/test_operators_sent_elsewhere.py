"""One notification sent to another URL, in development: what its receiver gets, what is answered, and what stays."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest
from aiohttp import web

import webhooks_scene as scene
from moved_time import advance
from operator_calls import audited, operator
from paydesk.core.secrets import Secret
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from sent_elsewhere_scene import Desk, desk
from waiting import until_found

BY_TIME = {"X-Signature", "webhook-signature", "webhook-timestamp", "Host"}
"""The headers that differ between two requests of the same notification."""


def is_valid(one: Desk, got: scene.Received) -> bool:
    """Return whether both signatures are valid now."""
    return validity(one, one.secret, got) == (True, True)


def validity(one: Desk, secret: Secret, got: scene.Received) -> tuple[bool, bool]:
    """Return whether the X-Signature and the webhook-signature are valid now."""
    return scene.validity(secret, got, one.service.shared.wall.now_ms() / 1000)


async def history(one: Desk) -> list[Any]:
    """Return the attempts of the delivery."""
    found: list[Any] = (await one.support.did("GET", f"deliveries/{one.delivery_id}"))["history"]
    return found


async def test_the_receiver_gets_what_a_resend_has(database: Database) -> None:
    """The same query, headers, ids and body, with valid signatures; the URL keeps its own parameters."""
    async with (
        scene.receiver() as subscribed,
        scene.receiver() as other,
        desk(database, url=subscribed.url, workers=True) as one,
    ):
        await scene.until(lambda: len(subscribed.got) == 1)
        await until_found(lambda: history(one))
        answered = await one.sent(other.url.replace("shop=7", "branch=x"))
        assert (answered["url"], answered["answer"]) == (
            other.url.replace("shop=7", "branch=x"), {"status": 200, "body": "thank you"},
        )  # fmt: skip
        assert set(answered) == {"url", "duration_ms", "answer"}
        assert (await one.support.ask("POST", f"deliveries/{one.delivery_id}/resend")).status == 202
        await scene.until(lambda: len(subscribed.got) == 2)
        (got,), resent = other.got, subscribed.got[1]
        assert is_valid(one, got)
        assert got.body == resent.body == subscribed.got[0].body
        assert list(got.headers) == list(resent.headers)
        differing = {name for name in got.headers if got.headers[name] != resent.headers[name]}
        assert differing <= BY_TIME
        assert (got.headers["X-Retry"], got.headers["webhook-id"]) == ("1", one.delivery_id.partition(".")[0])
        assert got.url.query == {"branch": "x", **{name: resent.url.query[name] for name in ("data.id", "type")}}
        assert len(other.got) == 1


@pytest.mark.parametrize("status", [204, 302, 401, 404, 500])
async def test_any_answer_is_an_outcome(database: Database, status: int) -> None:
    """Redirects are not followed, and nothing is retried."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, text=None if status == 204 else "no", headers={"Location": "/other"})

    async with scene.receiver(answer) as receiver, desk(database) as one:
        answered = await one.sent(receiver.url)
        assert answered["answer"] == {"status": status, "body": "" if status == 204 else "no"}
        assert ("error" in answered, len(receiver.got)) == (False, 1)


async def test_nothing_of_the_delivery_changes(database: Database) -> None:
    """Whatever is answered: neither its status, its attempts nor its subscription."""
    async with (
        scene.receiver() as good,
        scene.receiver(scene.failing(500)) as bad,
        desk(database) as one,
    ):
        before, shown = await one.state(), await one.support.did("GET", f"deliveries/{one.delivery_id}")
        for url in (good.url, bad.url, "http://127.0.0.1:9/"):
            await one.sent(url)
        assert await one.state() == before
        assert await one.support.did("GET", f"deliveries/{one.delivery_id}") == shown


async def test_a_closed_port_is_an_error(database: Database) -> None:
    """In words, without an answer."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        async with desk(database) as one:
            answered = await one.sent(f"http://127.0.0.1:{port}/hooks")
    assert answered["error"] == f"Cannot connect to host 127.0.0.1:{port}: Connection refused"
    assert "answer" not in answered


async def test_a_slow_receiver_holds_up_nothing_else(database: Database) -> None:
    """No transaction is open meanwhile: others write; after the timeout of webhooks the error says so."""

    async def never(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    settings = Settings.model_validate({"webhook_timeout_seconds": 30})
    async with scene.receiver(never) as receiver, desk(database, settings=settings) as one:
        sending = asyncio.create_task(one.sent(receiver.url))
        await scene.until(lambda: bool(receiver.got))
        assert (await one.service.create(await one.service.terminal())).status == 201
        assert (await one.support.ask("GET", "deliveries")).status == 200
        assert not sending.done()
        advance(30)
        answered = await sending
        assert answered["error"] == "no complete answer within 30 s"
        assert answered["duration_ms"] >= 30_000


@pytest.mark.parametrize("role", ["owner", "operator", "support"])
async def test_roles_that_resend_may(database: Database, role: str) -> None:
    """The audit trail has who sent it where, without secrets; the answer masks them too."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=400, text='{"token": "s3cretvalue", "why": "whsec_AAAAAAAAAAAAAAAA"}')

    async with scene.receiver(answer) as receiver, desk(database) as one:
        person = await operator(one.service, role)
        reply = await one.ask(f"{receiver.url}&token=s3cretvalue", person)
        assert reply.status == 200
        assert "s3cretvalue" not in str(reply.raw)
        assert "AAAA" not in str(reply.raw)
        (entry,) = await audited(one.service)
        masked = f"{receiver.url}&token=***"
        assert (entry.operator_id, entry.action, entry.subject) == (
            person.operator_id, "deliveries.send_to", one.delivery_id,
        )  # fmt: skip
        assert (entry.before, entry.after, reply.body["url"]) == (None, {"url": masked}, masked)
        assert receiver.got[0].url.query["token"] == "s3cretvalue"


async def test_neither_a_pause_nor_a_fault_has_an_effect(database: Database) -> None:
    """They are about the subscription's receiver."""
    async with scene.receiver() as receiver, desk(database) as one:
        owner = await operator(one.service)
        await owner.did("POST", f"subscriptions/{one.subscription_id}/pause")
        for kind in ("bad_signature", "old_timestamp", "reset", "twice"):
            fault = {"edge": "webhook", "request": "*", "kind": kind, "times": 0}
            added = await one.service.request("POST", "/dev/faults", fault, token=owner.token, key=None)
            assert added.status == 201
            receiver.got.clear()
            assert (await one.sent(receiver.url))["answer"]["status"] == 200
            (got,) = receiver.got
            assert is_valid(one, got), kind


async def test_during_a_rotation_both_secrets_sign(database: Database) -> None:
    """`X-Signature` is made with the primary one."""
    async with scene.receiver() as receiver, desk(database) as one:
        owner = await operator(one.service)
        added = await owner.did("POST", f"subscriptions/{one.subscription_id}/secrets")
        await one.sent(receiver.url)
        second = Secret(added["secret"])
        assert is_valid(one, receiver.got[0])
        assert validity(one, second, receiver.got[0]) == (False, True)
        await owner.did("POST", f"subscriptions/{one.subscription_id}/secrets/{added['id']}/promote")
        await one.sent(receiver.url)
        assert validity(one, second, receiver.got[1]) == (True, True)


@pytest.mark.on_postgres
async def test_a_notification_about_a_consent_can_be_sent(database: Database) -> None:
    """Its `data.id` is the seller's."""
    async with scene.receiver() as receiver, desk(database, topic="mp-connect") as one:
        await one.sent(receiver.url)
        (got,) = receiver.got
        assert (is_valid(one, got), json.loads(got.body)["action"]) == (True, "application.deauthorized")
        assert got.url.query["data.id"] == str(one.service.seller_id)
