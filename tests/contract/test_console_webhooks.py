"""The screens of webhooks: subscriptions, deliveries, and what operators do to them, as each role."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from attempt_rows import add_attempt
from console_scene import ROLES, Console, alert_of, console, links, main_of, notice_of, part_of
from operator_calls import audited, operator
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.delivery.send import Request
from paydesk.operators.subscriptions.looks import host
from paydesk.operators.webhooks.page import DELIVERIES_MAX, SUBSCRIPTIONS_MAX
from paydesk.platform.storage.database import Database
from paydesk_dev.faults.webhooks import DROPPED
from service import Service, running
from webhooks_scene import subscribe

ATTACK = '"><script>alert(1)</script>{{7*7}}'
URL = "https://8.8.8.8/hook?token=s3cretvalue"
UNKNOWN = "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"
INLINE = re.compile(r"\sstyle=|\son[a-z]+=|<script>|hx-on")
ROW = '<a data-row class="mono" href="/console/webhooks/deliveries/'
"""What the row of a delivery has."""
FAULT_PILL = "Fault</span>"
"""What the row of a subscription with a fault has."""


@dataclass(frozen=True)
class Desk:
    """A service whose application has a subscription, and a notification to it that was given up."""

    service: Service
    subscription_id: str
    secret: Secret
    delivery_id: str
    order_id: str
    request: Request
    body: str

    @property
    def page(self) -> str:
        """The path of the subscription's page."""
        return f"/console/webhooks/subscriptions/{self.subscription_id}"

    @property
    def delivery(self) -> str:
        """The path of the delivery's page."""
        return f"/console/webhooks/deliveries/{self.delivery_id}"

    async def console(self, role: str = "operator") -> Console:
        """Return the browser of a new operator."""
        return await console(self.service, role)


@asynccontextmanager
async def desk(database: Database, *, development: bool = False, answer: str = "no") -> AsyncIterator[Desk]:
    """Run a service without workers whose receiver answered 500 with this body."""
    async with running(database, workers=False, development=development) as service:
        application_id = service.scene.application.application_id
        subscription_id, secret = await subscribe(database, URL, application_id=application_id)
        order_id = (await service.create(await service.terminal())).body["id"]
        one = await operator(service, "viewer")
        (delivery,) = (await one.did("GET", f"deliveries?order={order_id}"))["data"]
        sent = await add_attempt(database, service.seller_id, delivery["id"], secret, url=URL, answer=(500, answer))
        yield Desk(service, subscription_id, secret, delivery["id"], order_id, *sent)


@pytest.mark.on_postgres
@pytest.mark.parametrize("role", ROLES)
async def test_each_role_reads_and_has_only_its_actions(database: Database, role: str) -> None:
    """Owners and operators change, support sends again, a viewer only reads; nothing inline, no secret anywhere."""
    async with desk(database) as one:
        browser = await one.console(role)
        paths = ("/console/webhooks", one.page, one.delivery, f"{one.delivery}/verify")
        pages = [await browser.open(path) for path in paths]
        found = {link for page in pages for link in links(page)}
        may_change, may_resend = role in ("owner", "operator"), role != "viewer"
        for tail in ("pause", "change", "rotate", "delete"):
            assert (f"{one.page}/{tail}" in found) == may_change, tail
        assert ("/console/webhooks/create" in found) == may_change
        assert (f"{one.page}/replay" in found) == (f"{one.delivery}/resend" in found) == may_resend
        for page in pages:
            assert not INLINE.search(page.html)
            assert one.secret.reveal() not in page.html
            assert "s3cretvalue" not in page.html


@pytest.mark.parametrize("role", ["support", "viewer"])
async def test_forms_by_hand_are_refused(database: Database, role: str) -> None:
    """403 for what the role has no button for; nothing changes."""
    async with desk(database) as one:
        browser = await one.console(role)
        forbidden = [f"{one.page}/{tail}" for tail in ("pause", "resume", "change", "delete", "rotate")]
        forbidden += [f"{one.page}/secrets/1/promote", f"{one.page}/secrets/1/drop", "/console/webhooks/create"]
        if role == "viewer":
            forbidden += [f"{one.page}/replay", f"{one.delivery}/resend"]
        for path in forbidden:
            assert (await browser.send(path, url=URL)).status == 403, path
            assert (await browser.get(path)).status == 403, path
        assert await audited(one.service) == []


async def test_failing_subscriptions_come_first(database: Database) -> None:
    """Paused after failures, failing, with notifications given up, then the others; each with its state in words."""
    async with desk(database) as one:
        application_id = one.service.scene.application.application_id
        made = {
            host: (await subscribe(database, f"https://{host}/hook", application_id=application_id))[0]
            for host in ("9.9.9.1", "9.9.9.2", "9.9.9.3")
        }
        sql = "UPDATE subscriptions SET {} WHERE subscription_id = $1"
        run = one.service.scene.run
        await run(sql.format("failing_since_ms = 1, failed_ms = 1"), made["9.9.9.2"])
        await run(sql.format("paused_ms = 1, paused_by = 'failures'"), made["9.9.9.3"])
        browser = await one.console("viewer")
        page = await browser.open("/console/webhooks")
        hosts = re.findall(r'class="to"><a [^>]*>([^<]+)<', page.html)
        assert hosts[0] == "9.9.9.3"
        assert set(hosts[1:3]) == {"9.9.9.2", "8.8.8.8"}
        assert hosts[3] == "9.9.9.1"
        text = main_of(page)
        for words in ("Paused after failures", "Failing", "Active", "1 given up"):
            assert words in text, words
        paused = main_of(await browser.open(f"/console/webhooks/subscriptions/{made['9.9.9.3']}"))
        assert "No notification succeeded for five days" in paused


async def test_failing_subscription_is_shown_among_many(database: Database) -> None:
    """However large its id is; the others are on further pages."""
    async with desk(database) as one:
        application_id = one.service.scene.application.application_id
        for number in range(SUBSCRIPTIONS_MAX + 5):
            await subscribe(database, f"https://9.9.9.{number}/hook", application_id=application_id)
        run = one.service.scene.run
        last = "SELECT max(subscription_id) FROM subscriptions WHERE url LIKE 'https://9.9.9.%'"
        fails = "failing_since_ms = 1, url = 'https://1.1.1.1'"
        await run(f"UPDATE subscriptions SET {fails} WHERE subscription_id = ({last})")
        browser = await one.console("viewer")
        page, seen = await browser.open("/console/webhooks"), []
        hosts = re.findall(r'class="to"><a [^>]*>([^<]+)<', page.html)
        assert "1.1.1.1" in hosts[:2]
        assert len(hosts) == SUBSCRIPTIONS_MAX
        seen += hosts
        (more,) = set(re.findall(r'href="([^"]*subscriptions_after[^"]*)"', page.html))
        page = await browser.open(html.unescape(more).partition("#")[0])
        seen += re.findall(r'class="to"><a [^>]*>([^<]+)<', page.html)
        assert len(seen) == len(set(seen)) == SUBSCRIPTIONS_MAX + 6
        assert "subscriptions_after" not in page.html
        viewer = await operator(one.service, "viewer")
        listed = (await viewer.did("GET", "subscriptions?sort=urgency&limit=2"))["data"]
        assert {host(one["url"]) for one in listed} == {"8.8.8.8", "1.1.1.1"}


async def test_failed_delivery_is_shown_behind_many_new_ones(database: Database) -> None:
    """Those that have not been attempted yet are none of them."""
    async with desk(database) as one:
        run, seller_id = one.service.scene.run, one.service.seller_id
        for number in range(DELIVERIES_MAX + 5):
            values = f"{seller_id}, 'new{number}.{one.subscription_id}', '{one.subscription_id}'"
            await run(f"""
INSERT INTO deliveries (seller_id, delivery_id, subscription_id, order_id, version, status, attempts, next_ms,
                        claimed_until_ms, created_ms)
SELECT {values}, order_id, {100 + number}, 'pending', 0, 4102444800000, 0, 4102444800000 FROM deliveries
 WHERE status = 'exhausted'""")
        application_id = one.service.scene.application.application_id
        other, _ = await subscribe(database, "https://9.9.9.9/hook", application_id=application_id)
        retried = f"abc.{other}"
        await run(f"""
INSERT INTO deliveries (seller_id, delivery_id, subscription_id, order_id, version, status, attempts, next_ms,
                        claimed_until_ms, created_ms)
SELECT {seller_id}, '{retried}', '{other}', order_id, version, 'pending', 2, 4102444800000, 0, 1 FROM deliveries
 WHERE status = 'exhausted'""")
        page = await (await one.console("viewer")).open("/console/webhooks")
        shown = page.html[: page.html.index('id="subscriptions"')]
        assert f'id="{retried}"' in shown
        assert shown.count(ROW) == 2
        person = await operator(one.service, "viewer")
        only = (await person.did("GET", "deliveries?failed=true"))["data"]
        assert {found["status"] for found in only} == {"exhausted", "pending"}
        assert all(found["attempts"] for found in only)
        assert await person.refused("GET", f"deliveries?failed=true&order={one.order_id}") == (400, "property_value")


async def test_deliveries_failed_first_with_filters(database: Database) -> None:
    """What was not delivered stands above the others; tabs, an order and a subscription select."""
    async with desk(database) as one:
        browser = await one.console("support")
        text = main_of(await browser.open("/console/webhooks"))
        assert text.index("Not delivered") < text.index("Subscriptions")
        for query, count in (
            ("status=exhausted", 1), ("status=delivered", 0), (f"order={one.order_id}", 1), ("order=none", 0),
            (f"subscription={one.subscription_id}", 1),
        ):  # fmt: skip
            page = await browser.open(f"/console/webhooks?{query}")
            assert page.html.count(ROW) == count, query
            assert ("No delivery matches these filters" in page.text) == (count == 0), query
        assert (await browser.get("/console/webhooks?status=lost")).status == 400
        assert (await browser.open(f"{one.page}?status=exhausted")).html.count(ROW) == 1
        assert ROW in await browser.live("/console/webhooks")


async def test_delivery_says_why_and_explains_its_signatures(database: Database) -> None:
    """The answer in words, the request, the signed text, the key by its id, the result."""
    async with desk(database, answer=f"broken {ATTACK}") as one:
        await add_attempt(
            database, one.service.seller_id, one.delivery_id, one.secret, number=2, url=URL, error="Cannot connect"
        )
        browser = await one.console("viewer")
        page = await browser.open(one.delivery)
        text = main_of(page)
        assert "It was given up after 2 attempts. The last answer: none after 31 ms, cannot connect." in text
        assert text.index("Attempt 2") < text.index("Attempt 1")
        assert f"id:{one.order_id.lower()};request-id:" in text
        assert "Secret 1 of the subscription" in text
        assert "<script>alert" not in page.html
        assert f"broken {ATTACK}" in text
        assert "X-Signature: ts=1780000002,v1=" in text
        first = main_of(await browser.open(f"{one.delivery}?attempt=1"))
        assert "How attempt 1 was signed" in first
        assert "How attempt 1 was signed" in await browser.live(f"{one.delivery}?attempt=1")


async def test_resend_and_its_conflicts(database: Database) -> None:
    """Support sends it again; a paused subscription has no button, and by hand 409 says what to do."""
    async with desk(database) as one:
        browser = await one.console("support")
        assert "is being sent again" in await browser.done(f"{one.delivery}/resend")
        assert "Being sent again" in main_of(await browser.open(one.delivery))
        assert "being paused" not in await (await one.console()).done(f"{one.page}/pause")
        page = await browser.open(one.delivery)
        assert f"{one.delivery}/resend" not in links(page)
        assert "Its subscription is paused" in main_of(page)
        status, why = await browser.refused(f"{one.delivery}/resend")
        assert status == 409
        assert "paused" in why
        assert "resume" in why
        await (await one.console()).done(f"{one.page}/delete")
        page = await browser.open(one.delivery)
        assert "Its subscription was deleted" in main_of(page)
        assert (await browser.refused(f"{one.delivery}/resend"))[0] == 409


async def test_create_shows_the_secret_once(database: Database) -> None:
    """With chosen actions, audited; the page after it does not have the secret."""
    async with desk(database) as one:
        browser = await one.console("operator")
        page = await browser.act(
            "/console/webhooks/create", url="https://9.9.9.9/hook", **{"actions.order.processed": "yes"}
        )
        assert page.status == 200
        secret = part_of(page, "id", "secret")
        assert secret.startswith("whsec_")
        (path,) = [link for link in links(page) if "/subscriptions/" in link]
        shown = await browser.open(path)
        assert secret not in shown.html
        assert "order.processed" in main_of(shown)
        (entry,) = await audited(one.service)
        assert (entry.action, entry.after["actions"]) == ("subscriptions.create", ["order.processed"])


async def test_invalid_subscription_keeps_what_was_typed(database: Database) -> None:
    """400 with the reason; the URL is shown again, escaped."""
    async with desk(database) as one:
        browser = await one.console("owner")
        page = await browser.act("/console/webhooks/create", url=f"ftp://x/{ATTACK}")
        assert page.status == 400
        assert "must be https" in alert_of(page)
        assert "<script>alert" not in page.html
        assert "&#34;&gt;&lt;script&gt;" in page.html
        assert (await browser.refused("/console/webhooks/create", url=""))[0] == 400
        assert (await browser.refused(f"{one.page}/change", url="https://127.0.0.1/hook"))[0] == 400


async def test_change_pause_resume_delete(database: Database) -> None:
    """Each says what it did, and the page shows it; a deleted one is gone."""
    async with desk(database) as one:
        browser = await one.console()
        assert await browser.done(f"{one.page}/change", url="https://9.9.9.9/new", **{"actions.order.failed": "yes"})
        text = main_of(await browser.open(one.page))
        assert "https://9.9.9.9/new" in text
        assert "order.failed" in text
        assert "kept for 30 days" in await browser.done(f"{one.page}/pause")
        page = await browser.open(one.page)
        assert f"{one.page}/resume" in links(page)
        assert "An operator paused it" in main_of(page)
        assert "resumed" in await browser.done(f"{one.page}/resume")
        assert "withdrawn" in await browser.done(f"{one.page}/delete")
        assert (await browser.get(one.page)).status == 404
        assert (await browser.get(f"/console/webhooks/subscriptions/{UNKNOWN}")).status == 404
        assert (await browser.get(f"/console/webhooks/deliveries/{UNKNOWN}.{UNKNOWN}")).status == 404


async def test_change_keeps_what_another_operator_changed(database: Database) -> None:
    """While the form was open: only what was changed in it is sent."""
    async with desk(database) as one:
        browser, colleague = await one.console("owner"), await one.console("owner")
        form, _ = await browser.form_of(f"{one.page}/change")
        await colleague.done(f"{one.page}/change", url="https://9.9.9.9/new")
        page = await browser.submit(form)
        assert notice_of(await browser.open(page.location)) == "Nothing has changed."
        page = await browser.submit(form, **{"actions.order.failed": "yes"})
        assert notice_of(await browser.open(page.location)) == "The subscription is changed."
        text = main_of(await browser.open(one.page))
        assert "https://9.9.9.9/new" in text
        assert "order.failed" in text
        before, after = (entry.after for entry in (await audited(one.service))[-2:])
        assert {name for name in after if before[name] != after[name]} == {"actions"}


async def test_rotation(database: Database) -> None:
    """A second secret is shown once, made primary, and the first is dropped; a third and the primary one return 409."""
    async with desk(database) as one:
        browser = await one.console()
        page = await browser.act(f"{one.page}/rotate")
        assert part_of(page, "id", "secret").startswith("whsec_")
        status, why = await browser.refused(f"{one.page}/rotate")
        assert (status, "drop one first" in why) == (409, True)
        status, why = await browser.refused(f"{one.page}/secrets/1/drop")
        assert (status, "promote 2 first" in why) == (409, True)
        assert "primary" in await browser.done(f"{one.page}/secrets/2/promote")
        found = links(await browser.open(one.page))
        assert f"{one.page}/secrets/1/drop" in found
        assert f"{one.page}/secrets/2/drop" not in found
        assert "dropped" in await browser.done(f"{one.page}/secrets/1/drop")
        assert (await browser.refused(f"{one.page}/secrets/1/promote"))[0] == 404


async def test_replay(database: Database) -> None:
    """All failed ones since a time become pending again; an invalid time is refused with the rule."""
    async with desk(database) as one:
        browser = await one.console("support")
        status, why = await browser.refused(f"{one.page}/replay", since="yesterday")
        assert (status, why.startswith("The time must be a date")) == (400, True)
        assert "nothing is sent again" in await browser.done(f"{one.page}/replay", since="2999-01-01")
        assert "One notification is pending again" in await browser.done(f"{one.page}/replay")
        assert "1 pending" in main_of(await browser.open(one.page))


async def test_what_a_receiver_got_is_checked(database: Database) -> None:
    """Pasted as it was sent it is valid; after a change the page names the part; values are escaped."""
    async with desk(database) as one:
        browser = await one.console("viewer")
        lines = [f"POST {one.request.url.path_qs} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in one.request.headers.items()]
        path = f"{one.delivery}/verify"
        page = await browser.act(path, headers="\r\n".join(lines), body=one.body)
        assert page.status == 200
        assert "Both signatures are valid" in page.text
        assert "All signed parts are as they were sent in attempt 1" in page.text
        page = await browser.act(
            path, headers="\r\n".join([*lines, f"X-Request-Id: {ATTACK}"]), body=one.body.replace("1.0", "2.0")
        )
        text = main_of(page)
        assert "Not signed correctly" in text
        assert "X-Request-Id" in text
        assert "<script>alert" not in page.html
        status, why = await browser.refused(path, headers="X-Signature: ts=1,v1=0\n}{")
        assert (status, "is not a header" in why) == (400, True)
        assert (await browser.refused(path, headers=""))[0] == 400
        assert await audited(one.service) == []


async def test_faults_in_development(database: Database) -> None:
    """Set and cleared, with a sentence; a wrong number is refused; in production there is no such page."""
    async with desk(database, development=True) as one:
        browser = await one.console()
        status, why = await browser.refused(f"{one.page}/fault", kind="late", every="0", delay="20")
        assert (status, why) == (400, "The number must be a whole number from 1 to 1000.")
        assert "fault is set" in await browser.done(f"{one.page}/fault", kind="late", every="3", delay="20")
        text = main_of(await browser.open(one.page))
        assert "one of every 3 notifications" in text
        assert "delay=20s" in text
        assert "Clear the fault, then send them again." in text
        viewer = await one.console("viewer")
        page = await viewer.open(one.page)
        assert "one of every 3 notifications" in main_of(page)
        assert not {f"{one.page}/fault", f"{one.page}/clear-fault"} & set(links(page))
        assert FAULT_PILL in (await browser.open("/console/webhooks")).html
        assert "cleared" in await browser.done(f"{one.page}/clear-fault")
        assert f"{one.page}/clear-fault" not in links(await browser.open(one.page))
        assert FAULT_PILL not in (await browser.open("/console/webhooks")).html


async def test_a_delivery_that_was_given_up_says_what_to_repair(database: Database) -> None:
    """The receiver, but if the fault of its subscription has dropped it, that fault."""
    async with desk(database, development=True) as one:
        browser = await one.console()
        assert "Repair the receiver, then send it again." in main_of(await browser.open(one.delivery))
        await add_attempt(database, one.service.seller_id, one.delivery_id, one.secret, number=2, error=DROPPED)
        assert "Clear the fault of its subscription, then send it again." in main_of(await browser.open(one.delivery))


async def test_no_faults_in_production(database: Database) -> None:
    """Neither the page nor a link to it, nor a word about a fault that is stored."""
    async with desk(database) as one:
        browser = await one.console()
        await one.service.scene.run("""UPDATE subscriptions SET fault = '{"kind":"drop","every":1}'""")
        for path in ("/console/webhooks", one.page):
            assert "fault" not in main_of(await browser.open(path)).lower()
        assert (await browser.get(f"{one.page}/fault")).status == 404
        assert f"{one.page}/fault" not in links(await browser.open(one.page))


async def test_changes_of_operators_are_hinted(database: Database) -> None:
    """After the commit, while a page is open, or was made and is about to open its stream."""
    async with desk(database) as one:
        hinted: list[str] = []
        one.service.database.signals.listen("hint:", hinted.append)
        browser = await one.console()
        await browser.done(f"{one.page}/pause")
        assert hinted == [f"hint:subscriptions:{one.subscription_id}"]


async def test_empty_screen_names_the_command(database: Database) -> None:
    """Without subscriptions: one sentence, and how to make one."""
    async with running(database, workers=False) as service:
        page = await (await console(service, "viewer")).open("/console/webhooks")
        assert "paydesk subscriptions create" in main_of(page)
        assert "No notification yet" in main_of(page)
