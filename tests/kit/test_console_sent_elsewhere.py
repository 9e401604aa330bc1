"""The form that sends a notification to another URL, in development: as each role, with and without its script."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiohttp import web

import webhooks_scene as scene
from console_scene import ROLES, Console, alert_of, console, links, main_of, notice_of
from operator_calls import audited, operator
from paydesk.core.clock import MovableClock
from paydesk.platform.storage.database import Database
from service import Service, running

URL = "http://127.0.0.1:9/hooks"
SCRIPT = "<script>alert(1)</script>"


@dataclass(frozen=True)
class Desk:
    """A service with a delivery to a subscription."""

    service: Service
    subscription_id: str
    delivery_id: str

    @property
    def page(self) -> str:
        """The path of the delivery's page."""
        return f"/console/webhooks/deliveries/{self.delivery_id}"

    @property
    def form(self) -> str:
        """The path of the form."""
        return f"{self.page}/send-to"

    async def console(self, role: str = "operator", **headers: str) -> Console:
        """Return the browser of a new operator."""
        return await console(self.service, role, **headers)


@asynccontextmanager
async def desk(database: Database, url: str = URL, *, development: bool = True) -> AsyncIterator[Desk]:
    """Run a service without workers."""
    clock = MovableClock(frozen_ms=time.time_ns() // 1_000_000)
    async with running(database, workers=False, development=development, clock=clock) as service:
        application_id = service.scene.application.application_id
        subscription_id, _ = await scene.subscribe(database, url, application_id=application_id)
        await service.create(await service.terminal())
        (delivery,) = (await (await operator(service, "viewer")).did("GET", "deliveries"))["data"]
        yield Desk(service, subscription_id, delivery["id"])


@pytest.mark.parametrize("role", ROLES)
async def test_each_role_has_the_form_if_it_may_resend(database: Database, role: str) -> None:
    """A viewer has no button, and 403 by hand."""
    async with scene.receiver() as receiver, desk(database) as one:
        browser = await one.console(role)
        offered = one.form in links(await browser.open(one.page))
        if role == "viewer":
            assert not offered
            assert (await browser.get(one.form)).status == 403
            assert (await browser.send(one.form, url=receiver.url)).status == 403
            assert receiver.got == []
            return
        assert offered
        said = await browser.done(one.form, url=receiver.url)
        assert said.startswith(f"{receiver.url} answered 200 in ")
        assert said.endswith(" ms: “thank you”")
        assert len(receiver.got) == 1


async def test_the_form_says_what_will_happen(database: Database) -> None:
    """To which receiver, and what stays; the subscription's URL is filled in, so that a port is quickly changed."""
    async with desk(database) as one:
        browser = await one.console("support")
        text = main_of(await browser.open(one.form))
        for words in (
            "The same notification is sent once",
            "Only this URL receives it",
            "This delivery stays as it is",
            "after 22 s",
        ):
            assert words in text, words
        form, _ = await browser.form_of(one.form)
        assert form.fields["url"] == URL


async def test_a_url_with_a_secret_is_not_filled_in(database: Database) -> None:
    """Support must not read it."""
    async with desk(database, f"{URL}?token=s3cretvalue") as one:
        browser = await one.console("support")
        page = await browser.open(one.form)
        assert "s3cretvalue" not in page.html
        assert (await browser.form_of(one.form))[0].fields["url"] == ""


async def test_with_the_script_the_next_page_is_named(database: Database) -> None:
    """The form is sent from the dialog: the answer names the page that says what happened."""
    async with scene.receiver() as receiver, desk(database) as one:
        browser = await one.console("support")
        form, _ = await browser.form_of(one.form)
        shown = await browser.get(one.form, HX_Request="true")
        assert "<html" not in shown.html
        page = await browser.post(one.form, {**form.fields, "url": receiver.url}, HX_Request="true")
        assert (page.status, page.headers["hx-redirect"]) == (200, one.page)
        assert "answered 200" in notice_of(await browser.open(one.page))


async def test_answers_and_errors_in_words(database: Database) -> None:
    """The status, the time and the beginning of the answer, escaped and on one line; or why there was none."""
    body = f"{SCRIPT}\n  {'x' * 400}"

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=204) if "none" in request.query else web.Response(status=500, text=body)

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        async with scene.receiver(answer) as receiver, desk(database) as one:
            browser = await one.console()
            page = await browser.act(one.form, url=receiver.url)
            shown = await browser.open(page.location)
            assert "answered 500 in " in notice_of(shown)
            assert f"“{SCRIPT} xxx" in notice_of(shown)
            assert notice_of(shown).endswith("x…”")
            assert SCRIPT not in shown.html
            assert '<p class="notice bad">' in shown.html
            said = await browser.done(one.form, url=f"{receiver.url}&none=1")
            assert said.endswith(", without a body.")
            said = await browser.done(one.form, url=f"http://127.0.0.1:{port}/")
            assert said.startswith(f"No answer from http://127.0.0.1:{port}/ after ")
            assert said.endswith("Connection refused.")


async def test_nothing_of_the_page_changes(database: Database) -> None:
    """There is no new attempt on it."""
    async with scene.receiver(scene.failing(500)) as receiver, desk(database) as one:
        browser = await one.console()
        before = main_of(await browser.open(one.page))
        await browser.done(one.form, url=receiver.url)
        assert main_of(await browser.open(one.page)) == before
        assert "It has not been attempted yet." in before


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "The URL is needed."),
        (f"ftp://x/{SCRIPT}", "The URL must be https or http."),
        ("http://10.0.0.1/", "The URL must resolve to public addresses only, or to this machine, such as 127.0.0.1."),
        (f"http://127.0.0.1/{'x' * 2000}", "The URL has 2017 characters; at most 2000 are possible."),
    ],
)
async def test_a_refused_url_stays_in_the_form(database: Database, url: str, reason: str) -> None:
    """With the reason at the field; nothing is sent."""
    async with desk(database) as one:
        browser = await one.console()
        page = await browser.act(one.form, url=url)
        assert (page.status, alert_of(page)) == (400, reason)
        assert SCRIPT not in page.html
        (field,) = [given for tag, given in page.tags if tag == "input" and given.get("name") == "url"]
        assert (field["value"], field["aria-invalid"]) == (url, "true")
        assert await audited(one.service) == []


async def test_a_paused_subscription_has_the_form_and_a_deleted_one_has_not(database: Database) -> None:
    """By hand the form of a deleted one says why nothing was sent."""
    async with scene.receiver() as receiver, desk(database) as one:
        browser = await one.console()
        await browser.done(f"/console/webhooks/subscriptions/{one.subscription_id}/pause")
        assert one.form in links(await browser.open(one.page))
        assert "answered 200" in await browser.done(one.form, url=receiver.url)
        await browser.done(f"/console/webhooks/subscriptions/{one.subscription_id}/delete")
        assert one.form not in links(await browser.open(one.page))
        status, why = await browser.refused(one.form, url=receiver.url)
        assert (status, "nothing is sent any more" in why, len(receiver.got)) == (409, True, 1)


async def test_the_audit_trail_says_it_in_words(database: Database) -> None:
    """With the URL, without its secrets."""
    async with scene.receiver() as receiver, desk(database) as one:
        browser = await one.console("owner")
        await browser.done(one.form, url=f"{receiver.url}&token=s3cretvalue")
        page = await browser.open("/console/audit")
        text = main_of(page)
        assert "Sent to another URL: notification" in text
        assert f"{receiver.url}&token=***" in text
        assert "s3cretvalue" not in page.html


async def test_in_production_there_is_no_form(database: Database) -> None:
    """Neither the page nor a link to it."""
    async with desk(database, "https://8.8.8.8/hooks", development=False) as one:
        browser = await one.console()
        assert one.form not in links(await browser.open(one.page))
        assert (await browser.get(one.form)).status == 404
        assert (await browser.send(one.form, url=URL)).status == 404
