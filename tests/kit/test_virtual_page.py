"""The page of a virtual terminal: its key, its forms, its stream, and what limits them."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest
import structlog

from authorize_scene import rows
from hand_clock import HandClock
from moved_time import advance
from page_counter import HTMX, PageCounter, page_counter
from paydesk.core.clock import MovableClock
from paydesk.core.limits.throttle_log import ThrottleLog
from paydesk.platform.http.rate_limit import BearerRates
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.web import event_streams, live
from paydesk_dev.virtual import page_keys
from paydesk_dev.virtual.terminal.screens import Screen
from service import KEYS
from skipped_waits import skipped_waits
from waiting import HANGS_SECONDS

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none';"
    " script-src 'self'; connect-src 'self'; form-action 'self'"
)
NASTY = "<script>alert(1)</script>\"><img src=x onerror=alert(2)>'{{7*7}}{b}</pre>"
PNG = b"\x89PNG\r\n\x1a\n and so on"


@pytest.fixture
async def counter(database: Database, tmp_path: Path) -> AsyncIterator[PageCounter]:
    """A manual terminal with its page."""
    with skipped_waits(database):
        async with page_counter(database, tmp_path) as counter:
            yield counter


async def test_the_glass_has_the_time_of_the_service(database: Database, tmp_path: Path) -> None:
    """The one that receipts have, in their zone: moved, and at a standstill."""
    clock = MovableClock()
    async with page_counter(database, tmp_path, clock=clock) as counter:

        async def glass() -> str:
            (found,) = re.findall(r'<div class="bar" aria-hidden="true">(<time.*?</time>)', (await counter.get()).text)
            return str(found)

        before = await glass()
        clock.advance(3 * 3_600_000)
        ahead = [int(re.findall(r'data-clock="(-?[0-9]+)"', one)[0]) for one in (before, await glass())]
        assert ahead[1] - ahead[0] == 3 * 3_600_000
        clock.freeze()
        local = datetime.fromtimestamp(clock.now_ms() / 1000).astimezone()
        assert await glass() == f"<time>{local:%H:%M}</time>"


# The key. -------------------------------------------------------------------------------------------------------------


async def test_page_has_the_headers_of_a_page_with_scripts(counter: PageCounter) -> None:
    """Nothing inline, no other host, no referrer, no cache; the key is not in the title."""
    page = await counter.get()
    assert page.status == 200
    assert page.headers["content-security-policy"] == POLICY
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"
    title = re.search("<title>(.*?)</title>", page.text)
    assert title is not None
    assert title[1] == "Till · virtual terminal · Paydesk"
    assert not re.search(
        r"<style|<script(?! src=)| style=| on[a-z]+=|https?://", page.text.replace(counter.address, "")
    )


@pytest.mark.parametrize("path", ["", "/events", "/paper/1"])
async def test_wrong_keys_and_unknown_terminals_are_the_same_404(counter: PageCounter, path: str) -> None:
    """Whether a terminal exists cannot be found by trying."""
    other = page_keys.page_url("", KEYS, "PAYDESK_VIRTUAL__000000000000").partition("key=")[2]
    answers = [await counter.get(path, key) for key in ("", "1-0", "2-0", f"{counter.key}0", other, "%00", "ü")]
    unknown = PageCounter(
        counter.service, counter.fleet, type(counter.terminal)("PAYDESK_VIRTUAL__0", ""), counter.streams
    )
    answers += [await unknown.get(path), await unknown.get(path, "1-0")]
    assert {answer.status for answer in answers} == {404}
    assert len({answer.raw for answer in answers}) == 1
    assert "There is no such page" in answers[0].text


async def test_forms_without_the_key_or_from_another_site_change_nothing(counter: PageCounter) -> None:
    """The key is in the form; the browser says where the form came from."""
    assert (await counter.post("/actions", action="power_off", key="1-0")).status == 404
    assert (await counter.post("/orders", amount="24.90", key="")).status == 404
    for headers in ({"Origin": "https://elsewhere.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert (await counter.post("/actions", headers, action="power_off")).status == 403
        assert (await counter.post("/orders", headers, amount="24.90")).status == 403
    await counter.shows("idle")
    assert (await counter.post("/actions", {"Origin": "null"}, action="power_off")).status == 303
    await counter.shows("off")


def _stopped(settings: Settings) -> BearerRates:
    """Return rates whose time stands still."""
    return BearerRates(settings, ThrottleLog(), monotonic=HandClock())


async def test_guessed_keys_are_limited_per_address(database: Database, tmp_path: Path) -> None:
    """As other failed credentials are; the holder of the key is not locked out."""
    limited = Settings(bearer_failures_per_minute=3)
    async with page_counter(database, tmp_path, settings=limited, bearer_rates=_stopped(limited)) as counter:
        assert [(await counter.get(key=f"1-{guess}")).status for guess in range(5)] == [404, 404, 404, 429, 429]
        assert (await counter.get()).status == 200


async def test_a_page_is_limited_as_an_application_is(database: Database, tmp_path: Path) -> None:
    """By the limit of requests per token."""
    limited = Settings(token_requests_per_second=1, token_requests_burst=3)
    async with page_counter(database, tmp_path, settings=limited, bearer_rates=_stopped(limited)) as counter:
        assert [(await counter.get()).status for _ in range(5)] == [200, 200, 200, 429, 429]


async def test_the_key_is_in_no_log_line(counter: PageCounter) -> None:
    """Log lines have paths without queries and forms."""
    with structlog.testing.capture_logs() as logged:
        await counter.get()
        await counter.get(key=f"{counter.key}x")
        await counter.post("/actions", action="power_off")
        async with counter.stream() as stream:
            await stream.message()
    assert {counter.path, f"{counter.path}/actions"} <= {line.get("path") for line in logged}
    assert counter.key not in repr(logged)


# Forms. ---------------------------------------------------------------------------------------------------------------


@pytest.mark.on_postgres
async def test_a_payment_with_forms_alone(counter: PageCounter) -> None:
    """Each form leads back to the page, which shows the next screen."""
    created = await counter.post("/orders", amount="24,90", description="Two coffees")
    assert (created.status, created.headers["location"]) == (303, f"{counter.path}?key={counter.key}")
    await counter.shows("present_card")
    order_id = counter.screen.order_id
    assert order_id is not None
    assert (await counter.service.get(order_id))["description"] == "Two coffees"
    assert (await counter.post("/actions", action="insert", card="debvisa_approved")).status == 303
    for digit in "1234":
        assert (await counter.post("/actions", action="press", press=digit)).status == 303
    assert 'aria-label="4 digits entered"' in (await counter.get()).text
    assert (await counter.post("/actions", action="press", press="ok")).status == 303
    await counter.ended(order_id, "processed")
    await counter.shows("remove_card")
    assert 'value="remove_card"' in (await counter.get()).text
    assert (await counter.post("/actions", action="remove_card")).status == 303
    await counter.shows("idle")


async def test_htmx_gets_the_live_parts_or_nothing_if_the_stream_is_open(counter: PageCounter) -> None:
    """An open stream brings what changes, so the answer is empty."""
    off = await counter.post("/actions", HTMX, action="power_off")
    assert off.status == 200
    assert re.findall(r'hx-target="#(\w+)"', off.text) == [
        "status", "hint", "paper", "copies", "lights", "glass", "slot", "faults", "messages", "played", "say",
    ]  # fmt: skip
    assert "Plug in" in off.text
    on = await counter.post("/actions", {**HTMX, "Prefer": "return=minimal"}, action="power_on")
    assert (on.status, on.raw) == (204, b"")


async def test_an_impossible_action_says_what_the_screen_does_not_take(counter: PageCounter) -> None:
    """409 with the reason in the place of the hint: as parts, or as the page."""
    refused = await counter.post("/actions", HTMX, action="tap", card="visa_approved")
    assert refused.status == 409
    assert re.findall(r'hx-target="#(\w+)"', refused.text) == ["hint", "say"]
    assert "The terminal waits for an order. Create one first." in refused.text
    page = await counter.post("/actions", action="tap", card="visa_approved")
    assert page.status == 409
    assert page.text.startswith("<!doctype html>")
    assert "The terminal waits for an order. Create one first." in page.text
    unknown = await counter.post("/actions", HTMX, action="set_script", script="dance")
    assert unknown.status == 409
    assert "unknown script" in unknown.text
    assert counter.screen.name == "idle"


async def test_a_script_chosen_on_the_page_is_the_terminals(counter: PageCounter) -> None:
    """The terminal plays it, and the list of operators shows it; an unknown one changes neither."""
    recorded = "SELECT script FROM terminals WHERE terminal_id = $1", counter.terminal.id
    assert (await counter.post("/actions", HTMX, action="set_script", script="hold")).status == 200
    assert await rows(counter.service, *recorded) == [("hold",)]
    assert (await counter.post("/actions", HTMX, action="set_script", script="dance")).status == 409
    assert await rows(counter.service, *recorded) == [("hold",)]
    await counter.service.create(counter.terminal)
    await counter.shows("present_card")
    assert "Script: hold" in (await counter.get()).text


MALFORMED: tuple[dict[str, str], ...] = (
    {"action": "dance"},
    {},
    {"action": "press", "press": "A"},
    {"action": "choose", "value": "many"},
    {"action": "go_offline", "seconds": "nan"},
    {"action": "go_offline", "seconds": "-1"},
    {"action": "go_offline", "seconds": "0"},
    {"action": "go_offline", "seconds": "3601"},
    {"action": "go_offline", "seconds": "1e9"},
    {"action": "pin", "digits": "1" * 20},
    {"action": "power_off", "more": "1"},
    {"action": "tap", "card": "x" * 100},
)


async def test_malformed_forms_change_nothing(counter: PageCounter) -> None:
    """400, and the terminal stays as it is."""
    for fields in MALFORMED:
        status = (await counter.post("/actions", HTMX, **fields)).status
        assert (status, counter.screen.name) == (400, "idle"), fields


# New orders. ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"amount": "abc"}, 400, "the amount must be a decimal string"),
        ({"amount": "0"}, 400, "the amount must be above zero"),
        ({"amount": "1.00", "description": "5031 7557 3453 0604"}, 400, "must not contain a card number"),
    ],
)
async def test_an_invalid_order_is_refused_with_the_rule(
    counter: PageCounter, fields: dict[str, str], status: int, message: str
) -> None:
    """By the rules of POST /v1/orders."""
    refused = await counter.post("/orders", HTMX, **fields)
    assert refused.status == status
    assert message in refused.text
    assert await counter.service.scene.database.read(lambda tx: tx.one("SELECT COUNT(*) FROM orders")) == (0,)


async def test_a_second_order_and_a_terminal_in_another_mode_are_refused(counter: PageCounter) -> None:
    """With the same errors as an application gets."""
    assert (await counter.post("/orders", HTMX, amount="1.00")).status == 200
    second = await counter.post("/orders", HTMX, amount="2.00")
    assert second.status == 409
    assert "already has an order" in second.text
    await counter.post("/actions", action="press_cancel")
    await counter.shows("canceled")
    scene = counter.service.scene
    await scene.run("UPDATE terminals SET operating_mode = 'STANDALONE'")
    other = await counter.post("/orders", HTMX, amount="3.00")
    assert other.status == 409
    assert "does not accept orders" in other.text


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE authorizations SET withdrawn_ms = 1",
        "UPDATE authorizations SET scope = 'read'",
        "UPDATE applications SET scopes = 'read'",
        "UPDATE applications SET suspended_ms = 1",
        "UPDATE sellers SET suspended_ms = 1",
    ],
)
async def test_no_order_where_no_application_may_create_one(counter: PageCounter, change: str) -> None:
    """The page creates orders as an application does, so what stops that stops the page."""
    await counter.service.scene.run(change)
    none = await counter.post("/orders", HTMX, amount="4.00")
    assert none.status == 409
    assert "No application can create an order" in none.text
    assert 'hx-target="#order-refused"' in none.text


# Content. -------------------------------------------------------------------------------------------------------------


async def test_everything_from_applications_is_shown_as_text(counter: PageCounter) -> None:
    """Names, amounts, reasons and printed text; never as markup."""
    scene = counter.service.scene
    await scene.run("UPDATE pos SET name = $1", NASTY)
    display = counter.display
    display.exchanged(NASTY, sent=True)
    display.print(text=NASTY)
    display.show(Screen("idle", (NASTY, NASTY), order_id=NASTY, status_detail=NASTY))
    page = (await counter.get()).text
    display.show(Screen("tip", (NASTY,), amount=NASTY, currency=NASTY, card=NASTY, entry="insert"))
    page += (await counter.get()).text
    async with counter.stream() as stream:
        page += (await stream.message())[1]
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert not re.search(r"<img[^>]*onerror", page)


async def test_printed_text_has_its_styles_and_codes(counter: PageCounter) -> None:
    """Bold, wide, small and centered text; a QR code drawn; a PDF417 code as text; invalid tags as they are."""
    counter.display.print(
        text="{center}{b}Coupon{w}10%{/w}{/b}{br}{qr}https://x.example/?a=<b>{/qr}{/center}{s}end{/s}{pdf417}AB{/pdf417}"
    )
    page = (await counter.get()).text
    assert '<p class="row center"><span class="b ">Coupon</span><span class="b w ">10%</span></p>' in page
    assert 'aria-label="QR code: https://x.example/?a=&lt;b&gt;"><svg' in page
    assert '<span class="s">end</span>' in page
    assert "A terminal draws this as bars: AB" in page
    counter.display.print(text="{qr}<b>not closed")
    assert "{qr}&lt;b&gt;not closed" in (await counter.get()).text


async def test_a_printed_image_is_served_as_an_image_alone(counter: PageCounter) -> None:
    """With its media type, without sniffing, in a sandbox; any other number is 404."""
    counter.display.print(image=PNG)
    assert f'src="{counter.path}/paper/1?key={counter.key}"' in (await counter.get()).text
    image = await counter.get("/paper/1")
    assert (image.status, image.raw, image.headers["content-type"]) == (200, PNG, "image/png")
    assert image.headers["x-content-type-options"] == "nosniff"
    assert image.headers["content-security-policy"] == "default-src 'none'; sandbox"
    for number in ("2", "0", "01", "x"):
        assert (await counter.get(f"/paper/{number}")).status == 404
    counter.display.print(image=b"\xff\xd8\xff and so on")
    assert (await counter.get("/paper/2")).headers["content-type"] == "image/jpeg"
    assert (await counter.get("/paper/1")).status == 404


async def test_the_first_page_and_each_message_are_small(counter: PageCounter) -> None:
    """At most 60 KB with all assets, and 15 KB, compressed."""
    page = await counter.get()
    assets = set(re.findall(r'"(/pages/assets/[^"#]+)', page.text))
    assert len(assets) == 7
    total = len(gzip.compress(page.raw))
    for path in assets:
        async with counter.service.session.get(counter.service.base_url + path) as answer:
            assert answer.status == 200
            assert "immutable" in answer.headers["cache-control"]
            total += len(gzip.compress(await answer.read()))
    assert total <= 60_000
    for number in range(100):
        counter.display.exchanged(f"progress authorizing {number}", sent=True)
    async with counter.stream() as stream:
        assert len(gzip.compress((await stream.message())[1].encode())) <= 15_000


# The stream. ----------------------------------------------------------------------------------------------------------


async def test_the_stream_sends_the_parts_that_changed(counter: PageCounter) -> None:
    """From the state of the page that was served, and after each id again."""
    page = await counter.get()
    found = re.search(r"&#34;Last-Event-ID&#34;: &#34;([0-9a-f.]+)&#34;|\"Last-Event-ID\": \"([0-9a-f.]+)\"", page.text)
    assert found is not None
    state = found[1] or found[2]
    async with counter.stream(Last_Event_ID=state) as stream:
        assert stream.answer.headers["content-type"] == "text/event-stream"
        assert stream.answer.headers["cache-control"] == "no-store"
        counter.display.exchanged("a message", sent=True)
        identity, data = await stream.message()
        assert re.findall(r'hx-target="#(\w+)"', data) == ["messages"]
    async with counter.stream(Last_Event_ID=identity) as stream:
        counter.display.exchanged("another message", sent=True)
        identity, data = await stream.message()
        assert re.findall(r'hx-target="#(\w+)"', data) == ["messages"]
    await counter.act("power_off")
    async with counter.stream(Last_Event_ID=identity) as stream:
        _, data = await stream.message()
        assert {"glass", "status", "hint", "say"} <= set(re.findall(r'hx-target="#(\w+)"', data))
        assert "played" not in re.findall(r'hx-target="#(\w+)"', data)


async def test_a_stream_with_an_unknown_state_sends_everything(counter: PageCounter) -> None:
    """As after an update of the service."""
    for state in ("", "7", "x" * 1_000, "a.b.c"):
        async with counter.stream(Last_Event_ID=state) as stream:
            assert len(re.findall(r'hx-target="#(\w+)"', (await stream.message())[1])) == 11


async def test_the_stream_sends_at_most_four_messages_a_second(
    counter: PageCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes in between arrive together."""
    assert live.SPACING_SECONDS == 1 / 4
    monkeypatch.setattr(live, "SPACING_SECONDS", 100.0)  # So that only a move of time ends it.
    async with counter.stream() as stream:
        await stream.message()
        for number in range(10):
            counter.display.exchanged(f"number {number}", sent=True)
            advance(9)
            await counter.get()
        advance(10)
        _, data = await stream.message()
        assert all(f"number {number}" in data for number in range(10))


async def test_a_quiet_stream_sends_comments(counter: PageCounter, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that proxies keep it open."""
    monkeypatch.setattr(event_streams, "COMMENT_SECONDS", 0.05)
    async with counter.stream() as stream:
        await stream.message()
        async with asyncio.timeout(HANGS_SECONDS):
            for _ in range(3):
                assert await stream.answer.content.readuntil(b"\n\n") == event_streams.COMMENT


async def test_streams_are_bounded_and_counted_down(counter: PageCounter) -> None:
    """A closed stream makes room for the next one."""
    opened = [counter.stream() for _ in range(live.PER_PAGE_MAX)]
    streams = [await one.__aenter__() for one in opened]
    try:
        assert {stream.answer.status for stream in streams} == {200}
        refused = await counter.get("/events")
        assert refused.status == 503
        assert "windows" in refused.text
    finally:
        for one in opened:
            await one.__aexit__(None, None, None)
    await counter.until_streams(0)
    async with counter.stream() as stream:
        assert stream.answer.status == 200


async def test_the_stream_ends_with_the_terminal(counter: PageCounter, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself, not with the next comment; the page of a removed terminal is 404."""
    monkeypatch.setattr(event_streams, "COMMENT_SECONDS", 3_600.0)
    async with counter.stream() as stream:
        await stream.message()
        await counter.fleet.remove(counter.terminal.id)
        async with asyncio.timeout(HANGS_SECONDS):
            await stream.answer.read()
    assert (await counter.get()).status == 404
    assert (await counter.post("/actions", action="power_off")).status == 404


async def test_the_stream_ends_when_the_node_stops(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself, not with the next comment, so that it does not delay the end of the service."""
    monkeypatch.setattr(event_streams, "COMMENT_SECONDS", 3_600.0)
    async with page_counter(database, tmp_path) as counter, counter.stream() as stream:
        await stream.message()
        database.signals.stop()
        async with asyncio.timeout(HANGS_SECONDS):
            await stream.answer.read()
