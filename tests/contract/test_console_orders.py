"""The console's overview, its list of orders, and its search."""

from __future__ import annotations

import csv
import io
import re
import urllib.parse
from pathlib import Path

import pytest

from console_scene import ROLES, alert_of, console
from page_scene import Browser, Page
from paydesk.console import request as console_request
from paydesk.core.clock import MovableClock
from paydesk.engine.orders.status import STATES
from paydesk.platform.storage.database import Database
from plain_rows import run
from refund_scene import paid, refund
from resolving_scene import unknown
from service import Service, running
from tables import each

SET_STATE = "UPDATE orders SET status = $2, status_detail = $3, payment_status_detail = $4 WHERE order_id = $1"
ATTACK, PRODUCT = '"><script>alert(1)</script>{{7919*6841}}', str(7919 * 6841)


async def decline(service: Service, detail: str = "insufficient_amount") -> str:
    """Create an order and decline it; return its id."""
    device = await service.device(await service.terminal())
    order_id: str = (await service.create(device.terminal, external_reference="till-4")).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    assert (await device.authorizing(order_id[3:])).status == 200
    card = {"first_digits": "503175", "last_digits": "0042"}
    declined = await device.result(order_id[3:], outcome="declined", status_detail=detail, card=card)
    assert declined.status == 200
    return order_id


def links(page: Page) -> list[str]:
    """Return the addresses to which the page links."""
    return [given["href"] for tag, given in page.tags if tag == "a" and "href" in given]


def rows(page: Page) -> list[str]:
    """Return the ids of the orders in the list."""
    return [given["id"] for tag, given in page.tags if tag == "tr" and given.get("id", "").startswith("ORD")]


@pytest.mark.parametrize("path", ["/console", "/console/orders", "/console/orders.csv", "/console/search?q=x"])
async def test_pages_need_a_session(service: Service, path: str) -> None:
    """Without one they lead to the sign-in page, and from there back."""
    page = await Browser(service, {"Accept": "text/html"}).get(path)
    assert page.location == f"/console/sign-in?return_to={urllib.parse.quote(path, safe='')}"


@pytest.mark.parametrize("development", [False, True])
async def test_empty_pages_advise_what_their_service_can_do(database: Database, *, development: bool) -> None:
    """Commands that act as the demo application are for development."""
    async with running(database, workers=False, development=development) as service:
        browser = await console(service)
        for path in ("", "/orders", "/requests", "/webhooks"):
            text = (await browser.open(f"/console{path}")).text
            assert ("paydesk pay" in text or "paydesk orders create" in text) == development, path
        assert ("--client-id" in text) != development


@pytest.mark.parametrize("role", ROLES)
async def test_overview_shows_what_is_there(database: Database, role: str) -> None:
    """At first nothing; then the reason of a declined payment in words, one click away from the order."""
    async with running(database, workers=False) as service:
        browser = await console(service, role)
        page = await browser.open("/console")
        assert "Nothing needs you." in page.text
        assert "No order yet." in page.text
        order_id = await decline(service)
        await paid(service)
        page = await browser.open("/console")
        assert "Declined by the acquirer: not enough money on the card" in page.text
        assert f"/console/orders/{order_id}" in links(page)
        assert "Processed" in page.text
        await browser.open(f"/console/orders/{order_id}")


async def test_overview_shows_figures_of_today(database: Database) -> None:
    """With a plot that says the same as a text, of test orders in development."""
    async with running(database, workers=False, development=True) as service:
        order_id = await paid(service)
        assert (await refund(service, order_id, "4.90")).status == 201
        await decline(service)
        page = await (await console(service, "viewer")).open("/console")
        figures = re.sub(r"\s+", " ", page.text)
        assert "Paid24.90 BRL" in figures
        assert "Refunded4.90 BRL" in figures
        assert "Approval rate50.0 %" in figures
        (plot,) = [given for tag, given in page.tags if tag == "svg" and given.get("role") == "img"]
        assert plot["aria-label"].startswith("Orders by hour: 2 in all, 1 failed; most between ")


@pytest.mark.parametrize("role", ROLES)
async def test_what_needs_a_person_comes_first(database: Database, role: str) -> None:
    """With what to do; the outcome can be set by those whose role permits it, once it can be set."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        browser, device = await console(service, role), await service.device(await service.terminal())
        order_id = await unknown(service, device)
        page = await browser.open("/console")
        assert "One thing needs you" in page.text
        assert "The outcome of a payment of 24.90 BRL is unknown since" in page.text
        resolve = f"/console/orders/{order_id}/resolve"
        assert resolve not in links(page)
        clock.advance(180_000)
        page = await browser.open("/console")
        assert (resolve in links(page)) == (role in ("owner", "operator"))
        stuck = await browser.open("/console/orders")
        assert ("li", {"id": f"stuck-{order_id}"}) in stuck.tags
        assert ("li", {"id": f"stuck-{order_id}"}) not in (await browser.open("/console/orders?live=false")).tags


async def test_orders_are_filtered_by_the_address(database: Database) -> None:
    """The form shows the filters; what it sends empty is removed from the address."""
    async with running(database, workers=False) as service:
        browser = await console(service, "viewer")
        declined, order_id = await decline(service), await paid(service)
        page = await browser.open("/console/orders")
        assert rows(page) == [order_id, declined]
        assert "2 orders · 24.90 BRL paid" in page.text
        assert "•••• 0042" in page.text
        for query, expected in (
            ("status=failed", [declined]),
            ("last_digits=0042", [declined]),
            ("external_reference=till-4", [declined]),
            ("status=processed&live=false", [order_id]),
            ("since=2020-01-01&until=2020-01-31", []),
        ):
            page = await browser.open(f"/console/orders?{query}")
            assert rows(page) == expected, query
            assert f"/console/orders.csv?{query}" in links(page)
        assert "No order matches these filters." in page.text
        assert ("input", "2020-01-31") in [(tag, given.get("value")) for tag, given in page.tags]
        sent = await browser.get("/console/orders?status=failed&live=&external_reference=&after=&x=")
        assert sent.location == "/console/orders?status=failed"


async def test_an_unknown_filter_lists_nothing(database: Database) -> None:
    """It is named, rather than ignored: all orders would be taken for those that were looked for."""
    async with running(database, workers=False) as service:
        browser = await console(service, "viewer")
        await decline(service)
        page = await browser.open("/console/orders?card=9002&live=false", 400)
        assert "The list has no filter card. The filters in its address are status, live," in alert_of(page)
        assert rows(page) == []
        assert not [address for address in links(page) if "orders.csv" in address]
        assert "<b>" not in (await browser.open("/console/orders?%3Cb%3E=1", 400)).html.split("<main")[1]


def chosen(page: Page) -> dict[str, str]:
    """Return the choices of the filter Status: the values by their words."""
    return {
        word: value
        for value, word in re.findall(r'<option value="([a-z_]+)"(?: selected)?>([^<]+)</option>', page.html)
    }


async def test_each_choice_of_the_filter_lists_the_orders_with_its_word(database: Database) -> None:
    """The words of the list are those of the filter, in every state that an order can have."""
    async with running(database, workers=False) as service:
        browser = await console(service, "viewer")
        for state in STATES:
            order_id = (await service.create(await service.terminal())).body["id"]
            await run(database, SET_STATE, order_id, state.status, state.detail, state.payment_detail)
        page = await browser.open("/console/orders")
        words = dict(
            re.findall(r'<tr id="(ORD\w+)">.*?<span class="pill \w+">.*?</svg>([^<]+)</span>', page.html, re.DOTALL)
        )
        choices = {word: value for word, value in chosen(page).items() if value not in ("true", "false")}
        assert set(words.values()) == choices.keys()
        for word, value in choices.items():
            listed = await browser.open(f"/console/orders?status={value}")
            assert sorted(rows(listed)) == sorted(one for one, shown in words.items() if shown == word), word
            assert f'<option value="{value}" selected>{word}</option>' in listed.html
        export = await browser.open("/console/orders.csv?status=partially_refunded")
        (row,) = csv.DictReader(io.StringIO(export.html))
        assert words[row["id"]] == "Partly refunded"


async def test_filter_takes_a_part_of_a_terminals_id(database: Database) -> None:
    """Such as its end, or its short form in the list; of several terminals the page lets choose one."""
    async with running(database, workers=False) as service:
        browser, order_id = await console(service, "viewer"), await decline(service)
        terminal_id = (await service.get(order_id))["config"]["point"]["terminal_id"]
        serial = terminal_id.rpartition("_")[2]
        for text in (serial[-4:], serial[-4:].lower(), f"{serial[:4]}…{serial[-4:]}", terminal_id.lower()):
            sent = urllib.parse.urlencode({"status": "failed", "terminal_id": text})
            page = await browser.get(f"/console/orders?{sent}")
            assert page.location == f"/console/orders?status=failed&terminal_id={terminal_id}", text
        assert rows(await browser.open(page.location)) == [order_id]
        second = (await service.terminal()).id
        page = await browser.open("/console/orders?terminal_id=NEWLAND&status=failed")
        assert "Which terminal?" in page.text
        assert rows(page) == []
        for one in (terminal_id, second):
            assert f"/console/orders?status=failed&terminal_id={one}" in links(page)
        page = await browser.open("/console/orders?terminal_id=nowhere")
        assert "No order matches these filters." in page.text


async def test_list_of_orders_continues(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older orders are on the next page, with the same filters."""
    monkeypatch.setattr("paydesk.operators.orders.list_page.ROWS", 2)
    async with running(database, workers=False) as service:
        browser, found = await console(service, "operator"), []
        made = [(await service.create(await service.terminal())).body["id"] for _ in range(5)]
        path = "/console/orders?status=created"
        for _ in range(3):
            page = await browser.open(path)
            found += rows(page)
            older = [address for address in links(page) if "after=" in address]
            path = older[0] if older else ""
        assert (sorted(found), path) == (sorted(made), "")
        assert "/console/orders?status=created" in links(page)


@each("query", ["last_digits=635", "status=open", "since=x", "after=x", "seller=x"])
async def test_invalid_filters_are_explained(service: Service, query: str) -> None:
    """The page has the status of the error, and keeps the fields."""
    page = await (await console(service, "operator")).open(f"/console/orders?{query}", 400)
    name = query.partition("=")[0].replace("_", " ").capitalize()
    assert f"{name}: must be" in alert_of(page)
    assert page.form("/console/orders").fields.keys() >= {"external_reference", "last_digits"}


async def test_text_in_the_address_is_escaped(service: Service) -> None:
    """In fields and results."""
    browser = await console(service, "operator")
    attack = urllib.parse.quote(ATTACK)
    for path, status in (
        (f"/console/orders?terminal_id={attack}", 200),
        (f"/console/orders?last_digits={attack}", 400),
        (f"/console/search?q={attack}", 200),
    ):
        page = await browser.open(path, status)
        assert "<script>alert" not in page.html
        assert PRODUCT not in page.html
        assert "&lt;script&gt;" in page.html


async def test_orders_are_exported(database: Database) -> None:
    """As CSV with the filters of the page."""
    async with running(database, workers=False) as service:
        declined, _ = await decline(service), await paid(service)
        page = await (await console(service, "viewer")).open("/console/orders.csv?status=failed")
        assert page.headers["content-type"] == "text/csv; charset=utf-8"
        assert page.headers["content-disposition"].startswith('attachment; filename="orders-')
        assert page.headers["cache-control"] == "no-store"
        assert [row["id"] for row in csv.DictReader(io.StringIO(page.html))] == [declined]
        refused = await (await console(service, "operator")).get("/console/orders.csv?status=open")
        assert refused.status == 400
        assert "must be one of" in refused.text


async def test_search_leads_to_what_a_text_names(database: Database) -> None:
    """One result is shown at once, several are listed, and none is explained."""
    async with running(database, workers=False) as service:
        browser = await console(service, "viewer")
        order_id = await decline(service)
        terminal_id = (await service.get(order_id))["config"]["point"]["terminal_id"]
        for text in (order_id.lower(), "till-4"):
            assert (await browser.get(f"/console/search?q={text}")).location == f"/console/orders/{order_id}"
        # A random serial number may have these digits too: then both are listed.
        found = await browser.get("/console/search?q=0042")
        assert f"/console/orders/{order_id}" in [found.headers.get("location"), *links(found)]
        assert (await browser.get(f"/console/search?q={terminal_id}")).location == f"/console/terminals/{terminal_id}"
        seller = (await browser.get(f"/console/search?q={service.seller_id}")).location
        assert seller == f"/console/sellers/{service.seller_id}"
        second = await decline(service)
        page = await browser.open("/console/search?q=till-4")
        assert {f"/console/orders/{one}" for one in (order_id, second)} <= set(links(page))
        assert "2 results" in page.text
        page = await browser.open("/console/search?q=nowhere")
        assert "Nothing was found for “nowhere”." in page.text
        await browser.open("/console/search")
        page = await browser.open(f"/console/search?q={'x' * 201}", 400)
        assert "This text has 201 characters. It must have at most 200 characters." in alert_of(page)


async def test_search_lists_what_has_no_time(service: Service) -> None:
    """Terminals that were never online, applications, sellers."""
    browser = await console(service, "viewer")
    terminals = [(await service.terminal(terminal_id=f"NEWLAND_N950__N950NCB80129332{one}")).id for one in "12"]
    page = await browser.open("/console/search?q=n950ncb80129332")
    assert {f"/console/terminals/{one}" for one in terminals} <= set(links(page))
    name = service.scene.application.name
    await service.scene.run("UPDATE sellers SET name = $1", name)
    found = links(await browser.open(f"/console/search?q={urllib.parse.quote(name)}"))
    assert f"/console/sellers/{service.seller_id}" in found
    assert any(one.startswith("/console/applications/") for one in found)


async def test_search_keeps_the_text_and_says_how_it_matches(service: Service) -> None:
    """In the box, with any characters; and it does not cut off a long text without notice."""
    browser = await console(service, "viewer")
    for text in ("nowhere", 'a"b<c'):
        page = await browser.open(f"/console/search?q={urllib.parse.quote(text)}")
        (box,) = [given for tag, given in page.tags if tag == "input" and given.get("name") == "q"]
        assert box["value"] == text
        assert "maxlength" not in box
        assert "the last four or more characters of the id, among the newest 50,000 orders" in page.text


async def test_search_leads_to_the_order_of_a_short_id(database: Database) -> None:
    """As the page of the order shows it."""
    async with running(database, workers=False) as service:
        browser, order_id = await console(service, "viewer"), await decline(service)
        page = await browser.open(f"/console/orders/{order_id}")
        short = f"{order_id[:6]}…{order_id[-4:]}"
        assert short in page.text
        for text in (short, short.replace("…", "...")):
            found = await browser.get(f"/console/search?q={urllib.parse.quote(text)}")
            assert found.location == f"/console/orders/{order_id}"


async def test_only_the_live_part_is_fetched_again(service: Service) -> None:
    """A fragment without the shell of the page."""
    browser = await console(service, "operator")
    for path in ("/console", "/console/orders"):
        html = await browser.live(path)
        assert "<html" not in html
        assert "No order yet." in html


def test_style_sheet_has_no_addresses() -> None:
    """It loads nothing."""
    sheet = Path(console_request.__file__).with_name("static") / "lists.css"
    assert "url(" not in sheet.read_text()
