"""What operators do in the console, by clicks and keys, and how its pages stay up to date."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

import dev_thread
from browser.console_window import PHONE, opening
from browser.windows import TIMEOUT_MS, Windows
from command_line import command
from console_world import World, world
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.web.hints import PER_READER_MAX, Hints
from paydesk_process import credentials
from refund_scene import paid
from waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

TABS_MAX = 30
CLICKS_MAX = 3
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
FOCUSED = "document.activeElement.innerText.trim()"
EVENTS = "/console/events"


@pytest_asyncio.fixture(loop_scope="session")
async def made(sqlite_url: str, tmp_path: Path) -> AsyncIterator[World]:
    """A service with one of everything."""
    database = await open_database(sqlite_url)
    # A second attempt during a test would refresh a page that a form is open on.
    async with world(database, tmp_path, settings=Settings(webhook_retry_seconds=(3600,))) as made:
        yield made
    await database.close()


BESIDE = """() => {
    const right = it => it.getBoundingClientRect().right, text = it => {
        const range = document.createRange();
        range.selectNodeContents(it);
        return range.getBoundingClientRect().right;
    };
    const all = selector => [...document.querySelectorAll(selector)];
    const again = all(".attempts .again").filter(it => right(it) > right(it.closest("section")));
    const times = all(".steps time").filter(it => text(it) > right(it) + 1);
    return [...again, ...times].map(it => it.outerHTML);
}"""
"""What an order's page pushes off its card, and times that run into the names of lanes."""
TOPS = (
    """() => [...document.querySelectorAll("#live > section")].slice(0, 2).map(it => it.getBoundingClientRect().top)"""
)


async def tab_to(page: Page, name: str) -> None:
    """Press Tab until the link or button of that name has the focus, visibly."""
    for _ in range(TABS_MAX):
        await page.keyboard.press("Tab")
        if await page.evaluate(FOCUSED) == name:
            assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    raise AssertionError(f"{name} cannot be reached with Tab")


async def test_refund_by_keyboard_alone(windows: Windows, made: World) -> None:
    """From anywhere: `/`, the order, Enter; Tab to Refund, Enter; amount, reason, Enter."""
    order_id = made.orders["processed"]
    async with opening(windows, made) as window:
        one = await window("operator")
        await one.open("/console/requests")
        keyboard = one.page.keyboard
        await keyboard.press("/")
        await keyboard.type(order_id)
        await keyboard.press("Enter")
        await one.page.wait_for_url(f"**/console/orders/{order_id}")
        await tab_to(one.page, "Refund")
        await keyboard.press("Enter")
        await one.page.locator("#dialog form").wait_for()
        await keyboard.press("ControlOrMeta+a")
        await keyboard.type("4.90")
        await keyboard.press("Tab")
        await keyboard.type("One coffee was cold")
        await keyboard.press("Enter")
        await one.reads("4.90 BRL was refunded.")
        await one.reads("Paid and partly refunded")


async def test_keys_are_listed(windows: Windows, made: World) -> None:
    """By `?`, but not where it is typed."""
    async with opening(windows, made) as window:
        one = await window("viewer")
        await one.open("/console/orders")
        await one.page.keyboard.press("/")
        await one.page.keyboard.type("?")
        await expect(one.page.locator("#dialog")).to_be_hidden()
        await one.page.locator("main").click(position={"x": 2, "y": 2})
        await one.page.keyboard.press("?")
        await expect(one.page.get_by_role("dialog", name="Keys")).to_be_visible()
        await one.page.keyboard.press("Escape")
        await expect(one.page.locator("#dialog")).to_be_hidden()


async def test_the_list_of_orders_is_live(windows: Windows, made: World) -> None:
    """An order that is created and paid while the list is open appears, and j, k and Enter open it."""
    async with opening(windows, made) as window:
        one = await window("viewer")
        async with one.page.expect_response(lambda answer: EVENTS in answer.url):
            await one.open("/console/orders")
        order_id = await paid(made.service)
        row = one.page.locator(f"a[data-row][href*='{order_id}']")
        await row.wait_for()
        await one.page.keyboard.press("j")
        await expect(row).to_be_focused()
        await one.page.keyboard.press("j")
        await one.page.keyboard.press("k")
        await expect(row).to_be_focused()
        await one.page.keyboard.press("Enter")
        await one.page.wait_for_url(f"**/console/orders/{order_id}")


async def test_an_open_form_keeps_what_was_typed(windows: Windows, made: World) -> None:
    """While the page behind it changes."""
    order_id = made.orders["at terminal"]
    async with opening(windows, made) as window:
        one = await window("operator")
        async with one.page.expect_response(lambda answer: EVENTS in answer.url):
            await one.open(f"/console/orders/{order_id}")
        await one.click("Cancel")
        reason = one.page.locator("#dialog [name=reason]")
        await reason.fill("Left the sh")
        assert (await made.device.authorizing(order_id[3:], seq=2)).status == 200
        await one.page.locator("#live").get_by_text("Authorization permitted").filter(visible=True).first.wait_for()
        await reason.press("End")
        await reason.press_sequentially("op")
        await expect(reason).to_have_value("Left the shop")
        await expect(one.page.locator("#dialog")).to_be_visible()
        await one.page.keyboard.press("Enter")
        await one.reads("The terminal was requested to release the order.")


async def test_a_refused_form_keeps_what_was_typed(windows: Windows, made: World) -> None:
    """In the dialog: the sentence is at the field, which has the focus; after a sign-in elsewhere it is sent again."""
    order_id = made.orders["processed"]
    async with opening(windows, made) as window:
        one = await window("operator")
        await one.open(f"/console/orders/{order_id}")
        await one.click("Refund")
        amount, reason = (one.page.locator(f"#dialog [name={name}]") for name in ("amount", "reason"))
        await amount.fill("99")
        await reason.fill("One coffee was cold")
        await amount.press("Enter")
        await one.reads("The amount must be at most 24.90.")
        await expect(amount).to_be_focused()
        await expect(amount).to_have_accessible_description("The amount must be at most 24.90.")
        await expect(reason).to_have_value("One coffee was cold")
        await amount.fill("4.90")
        await one.page.context.clear_cookies()
        await amount.press("Enter")
        await one.reads("You are signed out, so nothing was done.")
        link = one.page.get_by_role("link", name="Sign in in another tab")
        await expect(link).to_have_attribute(
            "href", f"/console/sign-in?return_to=%2Fconsole%2Forders%2F{order_id}%2Frefund"
        )
        await one.sign_in()
        await amount.press("Enter")
        await one.reads("4.90 BRL was refunded.")


async def test_a_form_stays_while_the_service_does_not_answer(windows: Windows, made: World) -> None:
    """The dialog says what is known, and that it is safe to send the form again."""
    order_id = made.orders["created"]
    async with opening(windows, made) as window:
        one = await window("operator")
        await one.open(f"/console/orders/{order_id}")
        await one.click("Cancel")
        reason = one.page.locator("#dialog [name=reason]")
        await reason.fill("Left the shop")
        await one.page.route("**/cancel", lambda route: route.abort())
        await reason.press("Enter")
        await one.reads("The service does not answer, so nothing is known to have happened.")
        await one.reads("Sending it again is safe: it takes effect once.")
        await expect(reason).to_have_value("Left the shop")
        one.faults.clear()
        await one.page.unroute("**/cancel")
        await reason.press("Enter")
        await one.reads("The order is canceled. Nothing was charged.")


async def test_a_hidden_page_has_no_stream(windows: Windows, made: World) -> None:
    """Browsers open six connections to a host at most. When it is shown again it has what it missed."""
    async with opening(windows, made) as window:
        one = await window()
        async with one.page.expect_response(lambda answer: EVENTS in answer.url):
            await one.open("/console/orders")
        async with one.page.expect_event("requestfailed", lambda request: EVENTS in request.url):
            await one.page.evaluate(HIDE, True)
        other = await window()
        async with other.page.expect_response(lambda answer: EVENTS in answer.url):
            await other.open("/console/orders")
        order_id = await paid(made.service)
        name = f"a[data-row][href*='{order_id}']"
        await other.page.locator(name).wait_for()
        row = one.page.locator(name)
        assert await row.count() == 0
        async with one.page.expect_response(lambda answer: EVENTS in answer.url):
            await one.page.evaluate(HIDE, False)
        await row.wait_for()


async def test_times_follow_a_clock_that_is_moved_elsewhere(windows: Windows, made: World) -> None:
    """By another tab or the command line: the page shows them anew, and counts on from there."""
    async with opening(windows, made) as window:
        one = await window(fresh=True)
        await one.page.clock.install()
        async with one.page.expect_response(lambda answer: EVENTS in answer.url):
            await one.open(f"/console/orders/{made.orders['processed']}")
        made.clock.advance(20 * 60_000)
        made.service.database.signals.hint("clock")
        created = one.page.locator("#live .head time[data-ago]")
        await expect(created).to_have_text("20 min ago")
        await one.page.clock.fast_forward(6000)
        await expect(created).to_have_text("20 min ago")


async def test_a_long_failure_leaves_the_order_page_in_place(windows: Windows, made: World) -> None:
    """Its times are long too, as the notification was sent again 21 minutes later."""
    order_id, error = (
        made.orders["processed"],
        "Cannot connect to host shop.example:443 ssl:default: Connection refused",
    )
    late = "UPDATE attempts SET answer_status = NULL, error = $1, started_ms = started_ms + 1290000"
    await made.service.scene.run(late, error)
    async with opening(windows, made) as window:
        one = await window()
        for width in (960, 1280):
            await one.page.set_viewport_size({"width": width, "height": 844})
            await one.open(f"/console/orders/{order_id}")
            await expect(one.page.locator(".steps time", has_text="+21 min 3").first).to_be_visible()
            await expect(one.page.locator(".attempts", has_text=error)).to_be_visible()
            assert await one.page.evaluate(BESIDE) == [], width


async def test_nothing_moves_when_an_order_ends(windows: Windows, made: World) -> None:
    """The reason is shorter then, and the card and the acquirer's numbers are known."""
    device = await made.service.device(await made.service.terminal())
    order_id = (await made.service.create(device.terminal)).body["id"]
    await device.ack(order_id[3:])
    async with opening(windows, made) as window:
        one = await window()
        async with one.page.expect_response(lambda answer: EVENTS in answer.url):
            await one.open(f"/console/orders/{order_id}")
        before = await one.page.evaluate(TOPS)
        await device.authorizing(order_id[3:])
        await device.approve(order_id[3:])
        await expect(one.page.locator(".why b")).to_have_text("Paid")
        assert await one.page.evaluate(TOPS) == before


async def test_filters_stay_open_while_a_person_types(windows: Windows, made: World) -> None:
    """Rows that arrive meanwhile are shown below the form."""
    async with opening(windows, made) as window:
        one = await window()
        async with one.page.expect_response(lambda answer: EVENTS in answer.url):
            await one.open("/console/orders")
        await one.page.locator(".filters summary").click()
        await one.page.get_by_label("Buyer's e-mail").fill("buyer@")
        order_id = (await made.service.create(await made.service.terminal())).body["id"]
        await one.page.locator(f"a[data-row][href*='{order_id}']").wait_for()
        await expect(one.page.get_by_label("Buyer's e-mail")).to_be_visible()
        await expect(one.page.get_by_label("Buyer's e-mail")).to_have_value("buyer@")


async def test_without_scripts_every_action_works(windows: Windows, made: World) -> None:
    """The form is a page of its own then."""
    order_id = made.orders["created"]
    async with opening(windows, made) as window:
        one = await window("operator", java_script_enabled=False, viewport=PHONE)
        await one.open(f"/console/orders/{order_id}")
        await expect(one.page.locator("[data-copy]").first).to_be_hidden()
        await one.click("Cancel")
        await one.page.get_by_label("Reason").fill("Left the shop")
        await one.click("Cancel the order")
        await one.page.wait_for_url(f"**/console/orders/{order_id}")
        await one.reads("The order is canceled. Nothing was charged.")


async def test_from_the_link_to_the_reason_of_a_decline(chromium: Browser, tmp_path: Path) -> None:
    """`paydesk dev` prints it; after at most three clicks the page says why."""
    with dev_thread.dev(tmp_path):
        address = credentials(tmp_path)["console_url"]
        declined = command("pay", "24.90", "--decline", "insufficient_amount", folder=tmp_path)
        assert declined.returncode == 1, declined.stderr
        page = await chromium.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        await page.goto(address)
        assert "key=" not in page.url
        clicks = 0
        reason = page.get_by_text("not enough money on the card").first
        if not await reason.is_visible():
            await page.locator("a[data-row]").first.click()
            clicks += 1
        await reason.wait_for()
        assert clicks <= CLICKS_MAX
        await page.close()


async def test_a_page_says_since_when_it_is_not_live(windows: Windows, made: World) -> None:
    """And is live again with the service."""
    async with opening(windows, made) as window:
        one = await window(fresh=True)
        await one.page.clock.install()
        async with one.page.expect_response(lambda answer: EVENTS in answer.url):
            await one.open("/console/orders")
        await one.page.evaluate(HIDE, True)
        await one.page.route(f"**{EVENTS}*", lambda route: route.abort())
        async with one.page.expect_event("requestfailed", lambda request: EVENTS in request.url):
            await one.page.evaluate(HIDE, False)
        lost = one.page.locator("main [data-not-live]")
        await one.page.clock.run_for(10_000)
        await lost.wait_for()
        assert re.fullmatch(r"Not live since \d\d:\d\d", await lost.inner_text())
        # Beside what an open form says.
        assert await one.page.locator("#dialog [data-not-live]").text_content() == await lost.inner_text()
        one.faults.clear()
        await one.page.unroute(f"**{EVENTS}*")
        await lost.wait_for(state="hidden")
        order_id = await paid(made.service)
        await one.page.locator(f"a[data-row][href*='{order_id}']").wait_for()


async def test_a_window_beyond_the_limit_says_so(windows: Windows, made: World) -> None:
    """Without an error; it is updated all the same, and is live once another one is closed."""
    async with opening(windows, made) as window:
        one, session = await window(fresh=True), made.service.session
        await one.page.clock.install()
        cookie = "; ".join(f"{sent['name']}={sent['value']}" for sent in await one.page.context.cookies())
        async with contextlib.AsyncExitStack() as others:
            for _ in range(PER_READER_MAX):
                address = made.service.base_url + EVENTS
                await others.enter_async_context(session.get(address, headers={"Cookie": cookie}))
            await one.open("/console/orders")
            await one.reads("Not live: 8 other windows of yours are open. Updated every 10 s.")
            order_id = await paid(made.service)
            await one.page.clock.run_for(10_000)
            await one.page.locator(f"a[data-row][href*='{order_id}']").wait_for()
            assert await one.page.locator("main [data-not-live]").is_visible()
            for width in (390, 960, 1280):
                await one.page.set_viewport_size({"width": width, "height": 844})
                await one.check_width(f"at {width}")
        # Before that the page would be refused once more, and try again ten real seconds later.
        await until(lambda: not made.service.shared.objects[Hints])
        await one.page.clock.run_for(10_000)
        await one.page.locator("main [data-not-live]").wait_for(state="hidden")


async def test_new_password_can_be_shown(windows: Windows, made: World) -> None:
    """On the page of a link, which is still there after a refused password."""
    link = (await made.owner.did("POST", f"operators/{made.values['operator_id'][1]}/password-link"))["url"]
    async with opening(windows, made) as window:
        one = await window("viewer", viewport=PHONE)
        await one.open(link[link.index("/console/") :])
        field = one.page.locator("#password")
        await field.fill("rita@shop.example")
        for name, kind in (("Show", "text"), ("Hide", "password")):
            await one.click(name)
            assert await field.get_attribute("type") == kind
        await one.click("Set the password and sign in")
        await one.reads("must not contain the e-mail address")
        await one.open(urlsplit(one.page.url).path + "?" + urlsplit(one.page.url).query)
        await one.reads("Set your password")
