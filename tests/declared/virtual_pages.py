"""The declared errors of the page of a virtual terminal."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from declared.attempt import Attempt, Table
from declared.everywhere import FAILURES
from declared.virtual import all_withdrawn, second_order, standalone
from faulty_database import FaultyDatabase
from page_scene import Browser
from paydesk.platform.operation import Operation
from paydesk.platform.web.live import PER_PAGE_MAX
from paydesk_dev.virtual import page_keys
from service import KEYS, Reply, Service
from virtual_scene import create

FORM = "application/x-www-form-urlencoded"
BODIES: dict[str, dict[str, Any]] = {
    "virtual_page_action": {"action": "lose_acknowledgement"},
    "virtual_page_order": {"amount": "24.90"},
}


async def _good(service: Service, database: FaultyDatabase, operation: Operation) -> Attempt:
    attempt = Attempt(service, database, operation)
    if operation.name == "demo_inbox_button":
        return await _with_button(attempt)
    if "{terminal_id}" not in operation.path:
        return attempt
    terminal = await create(service, script="manual")
    key = terminal.made["page_url"].partition("key=")[2]
    attempt = attempt.at(terminal_id=terminal.id, **({"number": "1"} if "{number}" in operation.path else {}))
    if operation.method == "GET":
        return replace(attempt, query=f"?key={key}")
    return replace(attempt, body={"key": key, **BODIES[operation.name]}, headers={"Content-Type": FORM})


async def _with_button(attempt: Attempt) -> Attempt:
    """With the form of a demo inbox that has a notification."""
    await attempt.service.request("POST", "/demo/inbox", {}, token=None)
    browser = Browser(attempt.service)
    form = (await browser.get("/demo/inbox", Accept="text/html")).form(attempt.operation.path)
    return replace(attempt, body=form.fields, headers={"Content-Type": FORM, "Cookie": browser.cookie})


TABLE = Table("page", _good, needs_more=("virtual_page_events", "virtual_page_paper"))
"""A stream doesn't end, and an image is there after a print action."""
TABLE.operations = [operation for operation in TABLE.operations if operation.development]


@TABLE.way("not_found")
async def _terminal_of_another_process(attempt: Attempt) -> Reply:
    other = "PAYDESK_VIRTUAL__000000000000"
    key = page_keys.page_url("", KEYS, other).partition("key=")[2]
    return await _with_key(attempt.at(terminal_id=other), key).send()


@TABLE.way("too_many_requests")
async def _guessed_keys(attempt: Attempt) -> Reply:
    for guess in range(FAILURES + 1):
        reply = await _with_key(attempt, f"1-{guess}").send()
        if reply.status == 429:
            break
        assert reply.status == 404
    return reply


@TABLE.way("forbidden")
async def _form_of_another_site(attempt: Attempt) -> Reply:
    return await attempt.send(headers={"Sec-Fetch-Site": "cross-site"})


@TABLE.way("form_outdated")
async def _token_of_another_browser(attempt: Attempt) -> Reply:
    return await attempt.send(body={"form_token": "1-0"})


@TABLE.way("too_many_streams")
async def _many_windows(attempt: Attempt) -> Reply:
    async with contextlib.AsyncExitStack() as windows:
        for _ in range(PER_PAGE_MAX):
            url = attempt.service.base_url + attempt.path
            await windows.enter_async_context(attempt.service.session.get(url))
        return await attempt.send()


@TABLE.way("action_not_possible")
async def _card_without_an_order(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "action": "tap", "card": "visa_approved"})


@TABLE.way("property_value")
async def _no_amount(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "amount": "much"})


@TABLE.way("no_application")
async def _nothing_authorized(attempt: Attempt) -> Reply:
    async with all_withdrawn(attempt.service):
        return await attempt.send()


TABLE.way("already_queued_order_on_terminal")(second_order)
TABLE.way("terminal_not_in_pdv_mode")(standalone)


def _with_key(attempt: Attempt, key: str) -> Attempt:
    if attempt.operation.method == "GET":
        return replace(attempt, query=f"?key={key}")
    return replace(attempt, body={**attempt.body, "key": key})
