"""The declared errors of the sellers' pages: an error page, or the sign-in form."""

from __future__ import annotations

from dataclasses import replace

import counted
from accounts import other_application, other_seller
from declared.attempt import Attempt, Table
from faulty_database import FaultyDatabase
from page_scene import PASSWORD, Browser, authorization, give_password, session_of
from paydesk.engine.oauth.clients import applications
from paydesk.platform.operation import Operation
from service import Reply, Service

SIGN_IN_FAILURES = 1
FORM = "application/x-www-form-urlencoded"


async def _good(service: Service, database: FaultyDatabase, operation: Operation) -> Attempt:
    query = ""
    if operation.path == "/authorization":
        query = "?" + authorization(service).partition("?")[2]
    attempt = Attempt(service, database, operation, query=query)
    return await _with_form(attempt) if operation.method == "POST" else await _signed_in(attempt)


async def _signed_in(attempt: Attempt) -> Attempt:
    cookie = await session_of(attempt.service)
    return replace(attempt, headers={"Cookie": f"paydesk_session={cookie}"})


async def _with_form(attempt: Attempt) -> Attempt:
    """With the form that a page shows for it, filled in as a seller would."""
    service, path = attempt.service, attempt.operation.path
    browser = Browser(service)
    if path == "/sign-in":
        await give_password(service)
    else:
        browser.cookies["paydesk_session"] = await session_of(service)
    shown_on = {"/authorization": authorization(service), "/sign-in": "/sign-in"}
    page = await browser.get(shown_on.get(path, "/applications"))
    form = next(form for form in page.forms if form.action == path)
    said = {
        "/authorization": {"decision": "agree"},
        "/sign-in": {"email": service.scene.seller.email, "password": PASSWORD},
    }
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    return replace(
        attempt, query="", body={**form.fields, **said.get(path, {})}, headers={"Cookie": cookies, "Content-Type": FORM}
    )


TABLE = Table("page", _good)
TABLE.operations = [operation for operation in TABLE.operations if not operation.development]


@TABLE.way("forbidden")
async def _form_of_another_site(attempt: Attempt) -> Reply:
    return await attempt.send(headers={"Sec-Fetch-Site": "cross-site"})


@TABLE.way("session_ended")
async def _signed_out(attempt: Attempt) -> Reply:
    return await attempt.send(headers={"Cookie": "another=1"})


@TABLE.way("sign_out/session_ended")
async def _everywhere_after_the_end(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status == 303
    return await attempt.send(body={**attempt.body, "everywhere": "yes"})


@TABLE.way("form_outdated")
async def _form_of_another_session(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "form_token": "1-0"})


@TABLE.way("doubled_parameter")
async def _state_twice(attempt: Attempt) -> Reply:
    return await replace(attempt, query=f"{attempt.query}&state=another").send()


@TABLE.way("unknown_application")
async def _unknown_client(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?client_id=1").send()


@TABLE.way("unregistered_address")
async def _another_address(attempt: Attempt) -> Reply:
    return await replace(attempt, query=attempt.query.replace("till.example", "elsewhere.example")).send()


@TABLE.way("application_suspended", "application_changed")
async def _suspended_application(attempt: Attempt) -> Reply:
    other = await other_application(attempt.service)
    shown = await _good(other, attempt.database, attempt.operation)
    client_id, now_ms = other.scene.application.application_id, other.clock.now_ms()
    await other.database.write(lambda tx: applications.suspend(tx, client_id, now_ms))
    return await shown.send()


@TABLE.way("request_decided")
async def _other_decision(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status == 303
    return await attempt.send(body={**attempt.body, "decision": "refuse"})


@TABLE.way("sign_in_failed")
async def _unknown_address(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "email": counted.email()})


@TABLE.way("sign_in_throttled")
async def _guessed_passwords(attempt: Attempt) -> Reply:
    guess = {**attempt.body, "email": "unknown@shop.example"}
    for _ in range(SIGN_IN_FAILURES):
        assert (await attempt.send(body=guess)).status == 403
    return await attempt.send(body=guess)


@TABLE.way("seller_suspended")
async def _suspended_seller(attempt: Attempt) -> Reply:
    other = await other_seller(attempt.service)
    await give_password(other)
    await other.scene.run("UPDATE sellers SET suspended_ms = 1 WHERE seller_id = $1", other.seller_id)
    return await attempt.send(body={**attempt.body, "email": other.scene.seller.email})
