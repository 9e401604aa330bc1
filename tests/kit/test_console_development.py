"""The screen of `paydesk dev` in the console: what developers do all day, as each role."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from console_scene import ROLES, Console, alert_of, console, links, main_of, notice_of
from operator_calls import audited
from paydesk.core.clock import MovableClock
from paydesk.platform.storage.database import Database
from paydesk_dev.console.terminals import READ_MAX
from service import Service, running
from virtual_scene import Virtual, create, ended, playing

PAGE = "/console/development"
FORMS = (
    f"{PAGE}/order",
    f"{PAGE}/clock",
    f"{PAGE}/reset",
    f"{PAGE}/terminals",
    *(f"{PAGE}/terminals/PAYDESK_VIRTUAL__C2AFE1BB4D93/{what}" for what in ("act", "script", "delete")),
)


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A running service for development, with virtual terminals and a clock that can be moved."""
    async with playing(database, clock=MovableClock()) as service:
        yield service


async def with_terminal(service: Service, script: str = "manual") -> tuple[Console, Virtual]:
    """Return the browser of an owner, and a virtual terminal."""
    return await console(service), await create(service, script=script)


async def test_an_order_leads_to_the_terminal_that_a_person_plays(service: Service) -> None:
    """Its page has the cards: a payment takes three clicks."""
    browser, terminal = await with_terminal(service)
    page = await browser.open(PAGE)
    assert terminal.id in page.html
    made = await browser.send(f"{PAGE}/order", terminal=terminal.id, amount="12,50", external_reference="sale-7")
    assert made.location == terminal.made["page_url"].removeprefix(service.base_url)
    screen = await terminal.screen("present_card")
    assert screen["amount"] == "12.50"
    order = await service.get(screen["order_id"])
    assert (order["external_reference"], order.get("live_mode", False)) == ("sale-7", False)
    (entry,) = [one for one in await audited(service) if one.action == "orders.create"]
    assert entry.subject == order["id"]


async def test_without_a_virtual_terminal_no_order_can_be_created(service: Service) -> None:
    """The page says how to create one."""
    page = await (await console(service)).open(PAGE)
    assert f'action="{PAGE}/order"' not in page.html
    assert "No virtual terminal" in page.text


async def test_an_order_for_a_script_leads_to_the_order(service: Service) -> None:
    """There is nothing to do at its terminal."""
    browser, terminal = await with_terminal(service, "approve:0.1s")
    made = await browser.act(f"{PAGE}/order", terminal=terminal.id, amount="24.90")
    assert made.location.startswith("/console/orders/ORD")
    await ended(service, made.location.rpartition("/")[2], "processed")


async def test_an_order_that_is_not_possible_says_why(service: Service) -> None:
    """The form is shown again with what was typed."""
    browser, terminal = await with_terminal(service)
    page = await browser.send(f"{PAGE}/order", terminal=terminal.id, amount="much", description="<b>Tea</b>")
    assert page.status == 400
    assert "amount" in alert_of(page)
    assert "&lt;b&gt;Tea&lt;/b&gt;" in page.html
    assert (await browser.send(f"{PAGE}/order", terminal=terminal.id, amount="5.00")).status == 303
    page = await browser.send(f"{PAGE}/order", terminal=terminal.id, amount="5.00")
    assert page.status == 409
    assert "already" in alert_of(page)
    assert (await browser.send(f"{PAGE}/order", terminal="NEWLAND_N950__NOWHERE", amount="5.00")).status == 404


async def test_the_clock(service: Service) -> None:
    """Advanced by a time, to what is due next, stopped and let run; what is due is said before."""
    browser, terminal = await with_terminal(service)
    assert "Same as this machine" in main_of(await browser.open(PAGE))
    assert "Nothing is due, so" in notice_of(
        await browser.open((await browser.send(f"{PAGE}/clock", by="next")).location)
    )
    order_id = await terminal.order()
    assert "an order expires" in main_of(await browser.open(PAGE))
    said = notice_of(await browser.open((await browser.send(f"{PAGE}/clock", by="next")).location))
    assert said == "The clock was advanced to what was due next: an order expires."
    await ended(service, order_id, "canceled")
    form, _ = await browser.form_of(f"{PAGE}/clock")
    assert form.fields["by"] == ""
    assert await browser.refused(f"{PAGE}/clock") == (400, "The duration is needed.")
    assert await browser.done(f"{PAGE}/clock", by="3h") == "The clock was advanced by 3h."
    assert await browser.done(f"{PAGE}/clock", by="181d") == "The clock was advanced by 181d."
    assert "181 days 3 h ahead" in main_of(await browser.open(PAGE))
    assert "is stopped" in notice_of(await browser.open((await browser.send(f"{PAGE}/clock", by="freeze")).location))
    assert "Let it run" in main_of(await browser.open(PAGE))
    assert "runs" in notice_of(await browser.open((await browser.send(f"{PAGE}/clock", by="resume")).location))
    status, why = await browser.refused(f"{PAGE}/clock", by="soon")
    assert (status, "must be PT61S, 61s, 15m, 3h or 181d" in why) == (400, True)


async def test_what_happens_to_a_terminal(service: Service) -> None:
    """Its screen is on the page; the network and the plug are pulled; another script plays it; it is deleted."""
    browser, terminal = await with_terminal(service)
    assert "Idle" in main_of(await browser.open(PAGE))
    own = f"{PAGE}/terminals/{terminal.id}"
    assert await browser.done(f"{own}/act", action="go_offline") == "The terminal has no network."
    assert "No network" in main_of(await browser.open(PAGE))
    assert (await browser.send(f"{own}/act", action="go_online")).status == 303
    assert (await browser.send(f"{own}/act", action="explode")).status == 400
    assert "next order on" in await browser.done(f"{own}/script", script="approve")
    assert "played by approve" in main_of(await browser.open(PAGE))
    assert await browser.done(f"{own}/delete") == f"{terminal.id} is deleted."
    assert (await browser.send(f"{own}/act", action="reboot")).status == 404
    said = await browser.done(f"{PAGE}/terminals", script="manual")
    assert said.endswith(" is created.")


async def test_terminals_of_readers_have_no_key(service: Service) -> None:
    """The key of a terminal's page lets its holder act."""
    _, terminal = await with_terminal(service)
    for role in ROLES:
        page = await (await console(service, role)).open(PAGE)
        assert any("key=" in link for link in links(page)) is (role in ("owner", "operator")), role
        assert terminal.id in page.html


@pytest.mark.parametrize("role", ["support", "viewer"])
async def test_roles_that_may_only_read(service: Service, role: str) -> None:
    """They see the page without a form, and a form that they send by hand changes nothing."""
    terminal = await create(service, script="manual")
    browser = await console(service, role)
    page = await browser.open(PAGE)
    assert [form.action for form in page.forms] == ["/console/search"]
    assert f"{PAGE}/" not in page.html
    for path in FORMS:
        fields = {"terminal": terminal.id, "amount": "5.00", "by": "3h", "script": "approve", "action": "reboot"}
        answer = await browser.send(path.replace("PAYDESK_VIRTUAL__C2AFE1BB4D93", terminal.id), **fields)
        assert answer.status == 403, path
    operator = browser.operator
    assert operator is not None
    for method, path, body in (
        ("POST", "/dev/clock", {"advance": "3h"}),
        ("POST", f"/virtual/v1/terminals/{terminal.id}/orders", {"amount": "5.00"}),
    ):
        reply = await service.request(method, path, body, token=operator.token, key=None)
        assert (reply.status, reply.code) == (403, "forbidden"), path
    assert (await terminal.screen())["screen"] == "idle"


async def test_the_inbox_and_the_faults(service: Service) -> None:
    """The last notifications with whether their signature is valid; subscriptions that are disturbed."""
    browser = await console(service)
    assert "No notification yet" in main_of(await browser.open(PAGE))
    for number in range(7):
        body = {"action": "order.processed", "data": {"id": f"ORD{number}"}}
        await service.request("POST", "/demo/inbox", body, token=None, key=None)
    text = main_of(await browser.open(PAGE))
    assert text.count("Not valid") == 5
    replies = [await service.request("GET", f"/demo/inbox{query}", token=None) for query in ("", "?limit=2")]
    assert [len(reply.body["data"]) for reply in replies] == [7, 2]
    assert replies[1].body["data"] == replies[0].body["data"][-2:]


async def test_virtual_terminal_is_found_among_many_others(service: Service) -> None:
    """However many physical terminals come before it in the list of all; and faults however many subscriptions."""
    browser, terminal = await with_terminal(service)
    copied = "seller_id, live, store_id, pos_id, kind, operating_mode, session, created_ms"
    for number in range(READ_MAX):
        await service.scene.run(
            f"INSERT INTO terminals (terminal_id, is_virtual, {copied}) SELECT 'A__{number:03}', 0, {copied}"
            f" FROM terminals WHERE terminal_id = '{terminal.id}'"
        )
    assert f'value="{terminal.id}"' in (await browser.open(f"{PAGE}/order")).html
    assert terminal.id in (await browser.open(PAGE)).html


async def test_reset_removes_the_orders(service: Service) -> None:
    """After a form that says what is removed and what stays; the operator stays signed in."""
    browser, terminal = await with_terminal(service, "hold")
    order_id = await terminal.order()
    assert "cannot be undone" in (await browser.open(f"{PAGE}/reset")).text
    assert await browser.done(f"{PAGE}/reset") == "All orders are removed. The terminals are idle."
    assert (await browser.get(f"/console/orders/{order_id}")).status == 404
    # The access token of this service is in no credentials file.
    assert (await service.request("GET", "/v1/orders")).status == 401


async def test_page_is_live(service: Service) -> None:
    """It names the hints on which it is fetched again, and its live part has the forms' tokens."""
    browser, _ = await with_terminal(service)
    (live,) = [given["data-live"] for _, given in (await browser.open(PAGE)).tags if "data-live" in given]
    assert {"terminal", "screen", "clock", "inbox"} <= set(live.split())
    assert browser.form_token in await browser.live(PAGE)


async def test_every_test_card_is_listed(service: Service) -> None:
    """With what becomes of a payment."""
    page = await (await console(service)).open(PAGE)
    for words in ("visa_approved", "insufficient_amount", "Wrong PIN, three times", "9021"):
        assert words in page.text


async def test_orders_for_virtual_terminals_by_token(service: Service) -> None:
    """An access token's own application creates the order; for an operator the first that the seller authorized."""
    terminal = await create(service, script="hold")
    path = f"/virtual/v1/terminals/{terminal.id}/orders"
    made = await service.request("POST", path, {"amount": "5.00", "description": "Tea"}, key=None)
    assert (made.status, made.body["description"]) == (201, "Tea")
    document = json.loads(made.raw)
    assert document["id"] == (await service.get(document["id"]))["id"]


async def test_it_is_not_in_production(database: Database) -> None:
    """Neither the page nor its actions exist there, nor does the navigation lead to it."""
    async with running(database, workers=False) as service:
        browser = await console(service)
        for path in (PAGE, *FORMS):
            assert (await browser.get(path)).status == 404, path
        assert PAGE not in (await browser.open("/console/orders")).html
