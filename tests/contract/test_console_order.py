"""The screen of an order, and what an operator does to it there."""

from __future__ import annotations

import base64
import csv
import io
import re

import msgspec
import pytest

from console_scene import Console, console
from operator_calls import audited, operator
from page_scene import Browser, Page
from paydesk.commands.tables.cells import flat_amount
from paydesk.console.request import Notice
from paydesk.core.clock import MovableClock
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from plain_rows import REVERSAL, run
from recorded_scene import record
from refund_scene import DECLINED, paid, refund
from resolving_scene import THREE_MINUTES_MS, scene, unknown
from service import Service, running
from webhooks_scene import subscribe

IN_PROGRESS = "UPDATE refunds SET status = 'processing', alerted_ms = 1, next_ms = 1, ended_ms = NULL"
REASON = "The customer has left."
ULID = "01J67CQQH5904WDBVZEM4JMEP4"


async def desk(service: Service, role: str = "operator") -> Console:
    """Return the browser of a new operator who is signed in."""
    return await console(service, role)


async def order_page(browser: Browser, order_id: str) -> Page:
    """Return the page of the order."""
    page = await browser.get(f"/console/orders/{order_id}")
    assert page.status == 200, page.text
    return page


async def send(browser: Browser, path: str, **fields: str) -> Page:
    """Fill in the form at the path, and send it."""
    page = await browser.get(path)
    assert page.status == 200, page.text
    return await browser.submit(page.form(path), **fields)


async def at_terminal(service: Service) -> str:
    """Return the id of an order whose terminal asks for a card."""
    device = await service.device(await service.terminal())
    order_id: str = (await service.create(device.terminal)).body["id"]
    await device.ack(order_id[3:])
    body = {"boot_id": device.boot_id, "seq": 1, "step": "card_requested"}
    assert (await device.post(f"/leases/{order_id[3:]}/progress", body)).status == 200
    return order_id


async def test_amounts_have_the_decimals_of_the_currency(database: Database) -> None:
    """However the application sent them: on each page, in the search and the export; its own answers repeat them."""
    settings = Settings(acquirer="simulator")
    async with running(database, workers=False, settings=settings) as service:
        order_id = await paid(service, "5")
        assert (await refund(service, order_id, "1")).status == 201
        await service.scene.run(IN_PROGRESS)
        person, browser = await operator(service), await desk(service)
        answered = await service.get(order_id)
        assert (answered["total_amount"], answered["transactions"]["refunds"][0]["amount"]) == ("5", "1")
        here = f"/console/orders/{order_id}"
        for path in (here, f"{here}/refund", "/console/orders", "/console"):
            text = (await browser.open(path)).text
            assert "5.00" in text, path
            assert not re.search(r"(?<![\d.])[51] (?:BRL|was)", text), (path, text)
        assert "of 1.00 BRL" in (await person.did("GET", "attention"))["data"][0]["message"]
        assert (await person.did("GET", f"search?q={order_id}"))["data"][0]["title"] == "5.00 BRL"
        exported = await service.request("GET", "/operator/v1/exports/orders", token=person.token)
        (row,) = csv.DictReader(io.StringIO(exported.raw.decode()))
        assert (row["amount"], row["paid_amount"]) == ("5.00", "5.00")
        (listed,) = (await person.did("GET", "refunds"))["data"]
        assert (listed["amount"], listed["currency"]) == ("1", "BRL")
        assert flat_amount(listed)["amount"] == "1.00 BRL"


async def test_page_says_why_and_what_happened(database: Database) -> None:
    """The reason in words before the JSON, each step as a line, and nothing inline that the policy blocks."""
    async with running(database, workers=False) as service:
        device = await service.device(await service.terminal())
        order_id: str = (await service.create(device.terminal)).body["id"]
        await device.ack(order_id[3:])
        await device.authorizing(order_id[3:])
        await device.result(order_id[3:], outcome="declined", status_detail="insufficient_amount")
        page = await order_page(await desk(service, "support"), order_id)
    text = page.text
    assert text.index("Declined by the acquirer: not enough money on the card") < text.index('"insufficient_amount"')
    assert "The buyer may try another card" in text
    for step in ("Order created", "Acknowledged", "Authorization permitted", "Declined", "Order failed"):
        assert step in text, step
    assert not re.search(r"\sstyle=|\son[a-z]+=|<script>", page.html)
    assert {"role": "img"}.items() <= next(given for tag, given in page.tags if given.get("class") == "share").items()


async def test_page_offers_only_what_is_possible(database: Database) -> None:
    """By the order's state and the operator's role."""
    async with running(database, workers=False) as service:
        person, support = await desk(service), await desk(service, "support")
        created, done = (await service.create(await service.terminal())).body["id"], await paid(service)
        offered = {
            name: set(re.findall(r'/(cancel|refund|resolve)"', (await order_page(browser, order_id)).html))
            for name, browser, order_id in (
                ("created", person, created),
                ("paid", person, done),
                ("support", support, created),
            )
        }
    assert offered == {"created": {"cancel"}, "paid": {"refund"}, "support": set()}


async def test_an_order_at_an_offline_terminal_says_so(database: Database) -> None:
    """Since when, what will happen, and a release where it is possible."""
    seen = "UPDATE terminals SET last_seen_ms = $1 WHERE terminal_id = $2"
    async with running(database, workers=False) as service:
        device = await service.device(await service.terminal())
        order_id: str = (await service.create(device.terminal)).body["id"]
        person, support = await desk(service), await desk(service, "support")
        release = f"/console/terminals/{device.terminal.id}/release"

        async def shown(browser: Console, last_seen_ms: int | None) -> tuple[str, bool]:
            await run(database, seen, last_seen_ms, device.terminal.id)
            page = await order_page(browser, order_id)
            return page.text, release in page.html

        never, releases = await shown(person, None)
        assert "The terminal has never been online. The order waits for the terminal to take it; at" in never
        assert ("which cancels the order" in never, releases) == (True, True)
        long_ago, releases = await shown(support, 1_769_869_602_109)
        assert "The terminal is offline: last seen" in long_ago
        assert not releases
        now, releases = await shown(person, service.clock.now_ms())
        assert ("Waits for the terminal to take it" in now, releases) == (True, False)
        await device.ack(order_id[3:])
        await device.authorizing(order_id[3:])
        permitted, releases = await shown(person, None)
        assert "The terminal has never been online" in permitted
        assert ("The card may be charged." in permitted, releases) == (True, False)


async def test_a_refused_refund_is_marked(database: Database) -> None:
    """Beside the status, as the order is still paid."""
    async with running(database, workers=False) as service:
        order_id = await paid(service, DECLINED)
        browser = await desk(service)

        async def marks() -> list[str]:
            return re.findall(r"</svg>Refund declined", (await order_page(browser, order_id)).html)

        before = await marks()
        assert (await refund(service, order_id)).status == 409
        after = await marks()
    assert (len(before), len(after)) == (0, 1)


async def test_the_request_that_created_the_order_is_copied(database: Database) -> None:
    """As the application sent it, once; a request that reads the order if that one is no longer recorded."""
    async with running(database, workers=False, development=True) as service:
        order_id: str = (await service.create(await service.terminal())).body["id"]
        browser = await desk(service)

        async def copied() -> str:
            tags = (await order_page(browser, order_id)).tags
            (command,) = [given["data-copy"] for _, given in tags if given.get("data-copy", "").startswith("curl")]
            return command

        reads = await copied()
        await record(
            service,
            "POST",
            "/v1/orders",
            status=201,
            operation="create_order",
            order_id=order_id,
            request_body='{"a":1}',
        )
        created = await copied()
    assert all(part in reads for part in ("-X GET", f"/v1/orders/{order_id} ", "$PAYDESK_ACCESS_TOKEN"))
    assert all(
        part in created for part in ("-X POST", "/v1/orders ", """--data-raw '{"a":1}'""", "$PAYDESK_ACCESS_TOKEN")
    )


async def test_cancel_says_what_will_happen_and_what_happened(database: Database) -> None:
    """With a reason, which the audit trail has."""
    async with running(database, workers=False) as service:
        browser, order_id = await desk(service), (await service.create(await service.terminal())).body["id"]
        path = f"/console/orders/{order_id}/cancel"
        form = await browser.get(path)
        assert "The order is canceled at once" in form.text
        assert "The reason is needed." in (await browser.submit(form.form(path), reason=" ")).text
        answer = await browser.submit(form.form(path), reason=REASON)
        assert answer.location == f"/console/orders/{order_id}"
        shown = await order_page(browser, order_id)
        (entry,) = await audited(service)
    assert "The order is canceled. Nothing was charged." in shown.text
    assert "Canceled by a operator" in shown.text
    assert (entry.action, entry.after["reason"]) == ("orders.cancel", REASON)


async def test_cancel_at_the_terminal_requests_its_release(database: Database) -> None:
    """The page says that it waits for the terminal."""
    async with running(database, workers=False) as service:
        browser, order_id = await desk(service), await at_terminal(service)
        await send(browser, f"/console/orders/{order_id}/cancel", reason=REASON)
        page = await order_page(browser, order_id)
        order = await service.get(order_id)
    assert "The terminal was requested to release the order." in page.text
    assert order["transactions"]["payments"][0]["status_detail"] == "cancellation_requested"
    assert "waits" in page.text
    assert "Card asked for" in page.text


async def test_refund_of_a_part_and_of_the_rest(database: Database) -> None:
    """The form says what remains, and a wrong amount what is wrong; sending a form twice refunds once."""
    async with running(database, workers=False) as service:
        browser, order_id = await desk(service), await paid(service)
        path = f"/console/orders/{order_id}/refund"
        form = (await browser.get(path)).form(path)
        assert form.fields["amount"] == "24.90"
        refused = await browser.submit(form, amount="99.00", reason=REASON)
        assert refused.status == 400
        assert "must be at most 24.90" in refused.text
        for _ in range(2):
            assert (await browser.submit(form, amount="10,00", reason=REASON)).status == 303
        assert "14.90 BRL of 24.90 BRL can be refunded" in (await browser.get(path)).text
        await send(browser, path, reason=REASON)
        page, order = await order_page(browser, order_id), await service.get(order_id)
    assert f'data-copy="paydesk orders get {order_id}"' in page.html
    assert '<td title="orders.refund">Refunded</td>' in page.html
    assert order["status"] == "refunded"
    assert [one["amount"] for one in order["transactions"]["refunds"]] == ["10.00", "14.90"]
    assert "14.90 BRL was refunded." in page.text
    assert "Paid and refunded in full" in page.text


@pytest.mark.parametrize("amount", ["24.90", "12.45"])
async def test_a_form_that_is_sent_twice_says_twice_what_happened(database: Database, amount: str) -> None:
    """Also if the amount is what remained before or remains now: the second request is the first one again."""
    async with running(database, workers=False) as service:
        browser, order_id = await desk(service), await paid(service)
        path = f"/console/orders/{order_id}/refund"
        form = (await browser.get(path)).form(path)
        for _ in range(2):
            sent = await browser.submit(form, amount=amount, reason=REASON)
            assert sent.status == 303, sent.text
            assert f"{amount} BRL was refunded." in (await order_page(browser, order_id)).text
        order = await service.get(order_id)
    assert [one["amount"] for one in order["transactions"]["refunds"]] == [amount]


async def test_resolve_sets_an_unknown_outcome(database: Database, clock: MovableClock) -> None:
    """Too early the page and the form say from when; then it ends the order."""
    async with scene(database, clock, None) as (service, device, _):
        browser, order_id = await desk(service), await unknown(service, device)
        path = f"/console/orders/{order_id}/resolve"
        shown = await order_page(browser, order_id)
        assert "Set the outcome" not in shown.text
        assert "The outcome can be set in 3 min" in shown.text
        assert f'data-due="{clock.now_ms() + THREE_MINUTES_MS}"' in shown.html
        early = await send(browser, path, outcome="approved", reason=REASON)
        assert early.status == 409
        assert "an operator can resolve the order from" in early.text
        clock.advance(THREE_MINUTES_MS)
        shown = await order_page(browser, order_id)
        assert "Set the outcome" in shown.text
        assert "data-due" not in shown.html
        await send(browser, path, outcome="declined", reason=REASON)
        page = await order_page(browser, order_id)
    assert "The outcome is set: not paid." in page.text
    assert "set the outcome: not paid" in page.text


async def test_late_approval_is_resolved(database: Database, clock: MovableClock) -> None:
    """The reversal's card leads to a form."""
    async with scene(database, clock, None) as (service, device, _):
        browser, order_id = await desk(service), await unknown(service, device)
        clock.advance(THREE_MINUTES_MS)
        await send(browser, f"/console/orders/{order_id}/resolve", outcome="declined", reason=REASON)
        await device.approve(order_id[3:])
        page = await order_page(browser, order_id)
        assert "came later and is being reversed" in page.text
        assert "The outcome can be set in 3 min" in page.text
        assert "/reversals/" not in page.html
        clock.advance(THREE_MINUTES_MS)
        page = await order_page(browser, order_id)
        (path,) = set(re.findall(rf"/console/orders/{order_id}/reversals/[0-9A-Z]+/resolve", page.html))
        await send(browser, path, outcome="reversed", reason=REASON)
        page = await order_page(browser, order_id)
    assert "An approval that came later was reversed" in page.text


async def test_notification_is_sent_again(database: Database) -> None:
    """By support too."""
    async with running(database, workers=False) as service:
        await subscribe(database, "https://8.8.8.8/hook", application_id=service.scene.application.application_id)
        browser, order_id = await desk(service, "support"), (await service.create(await service.terminal())).body["id"]
        page = await order_page(browser, order_id)
        path = next(iter(re.findall(rf"/console/orders/{order_id}/resend/[0-9a-f.-]+", page.html)))
        assert "https://8.8.8.8/hook" in (await browser.get(path)).text
        answer = await send(browser, path)
        assert answer.status == 303
        resent = await service.scene.value("SELECT COUNT(*) FROM deliveries WHERE resend_ms IS NOT NULL")
    assert resent == 1


@pytest.mark.parametrize("action", ["cancel", "refund", "resolve"])
async def test_support_may_not_change_an_order(database: Database, action: str) -> None:
    """Neither the form nor what it sends."""
    async with running(database, workers=False) as service:
        browser, order_id = await desk(service, "support"), (await service.create(await service.terminal())).body["id"]
        assert (await browser.get(f"/console/orders/{order_id}/{action}")).status == 403


async def test_reversal_is_not_offered_while_the_order_is_live(database: Database, clock: MovableClock) -> None:
    """Its approval may still be the payment, so the service would refuse."""
    async with scene(database, clock, None) as (service, device, _):
        order_id = await unknown(service, device)
        await run(database, REVERSAL.replace("'reversed'", "'pending'"), service.seller_id, ULID, order_id[3:])
        await run(database, "UPDATE reversals SET order_id = $1", order_id)
        page = await order_page(await desk(service), order_id)
        await run(database, "DELETE FROM reversals")
    assert "Reversal" in page.text
    assert "/reversals/" not in page.html


async def test_the_time_of_the_service_is_in_the_part_that_is_fetched_again(
    database: Database, clock: MovableClock
) -> None:
    """So that the page's script counts on by the clock that development moves."""
    clock.freeze()
    async with running(database, clock=clock, workers=False, development=True) as service:
        browser = await desk(service)
        path = f"/console/orders/{(await service.create(await service.terminal())).body['id']}"
        page = await browser.open(path)
        clock.advance(THREE_MINUTES_MS)
        live = await browser.live(path)
    assert f'data-now="{clock.now_ms() - THREE_MINUTES_MS}"' in page.html
    assert page.html.count("data-now") == 1
    assert f'data-now="{clock.now_ms()}"' in live
    assert re.search(r'data-live="[^"]* clock"', page.html)


@pytest.mark.parametrize("text", ["x" * 4000, "ü" * 2000, "💶" * 1000, '"\\' * 1000])
def test_long_notice_fits_into_a_cookie(text: str) -> None:
    """It ends with an ellipsis; browsers drop a cookie of more than 4 KiB."""
    encoded = Notice(text).encoded()
    assert len(base64.urlsafe_b64encode(encoded)) <= 3600
    kept = msgspec.json.decode(encoded)["text"]
    assert len(encoded) > 2600
    assert kept.endswith("…")
    assert text.startswith(kept[:-1])


def test_short_notice_is_kept_as_it_is() -> None:
    """Also if it has quotation marks."""
    assert msgspec.json.decode(Notice('A "short" one…').encoded(), type=Notice) == Notice('A "short" one…')


async def test_notice_belongs_to_one_port(database: Database) -> None:
    """Browsers send the cookies of one host to all its ports."""
    async with running(database, workers=False) as service:
        browser, order_id = await desk(service), (await service.create(await service.terminal())).body["id"]
        await send(browser, f"/console/orders/{order_id}/cancel", reason=REASON)
        port = service.base_url.rpartition(":")[2]
        assert [name for name in browser.cookies if "notice" in name] == [f"paydesk_notice_{port}"]


async def test_unknown_order_says_so(database: Database) -> None:
    """With the status of `/operator/v1`."""
    async with running(database, workers=False) as service:
        page = await (await desk(service)).get("/console/orders/ORD01J67CQQH5904WDBVZEM4JMEP3")
    assert page.status == 404
    assert "There is nothing here" in page.text


async def test_part_that_changes_is_fetched_alone(database: Database) -> None:
    """As the page's script does when a hint comes."""
    async with running(database, workers=False) as service:
        browser, order_id = await desk(service), await at_terminal(service)
        page = await browser.get(f"/console/orders/{order_id}", HX_Request="true")
    assert page.status == 200
    assert "<html" not in page.html
    assert "Card asked for" in page.text
