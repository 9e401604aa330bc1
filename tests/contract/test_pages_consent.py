"""A seller authorizes an application: sign-in, consent or refusal, and the redirect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

import pytest
import structlog

from accounts import other_seller
from oauth_scene import CHALLENGE, REDIRECT_URI, VERIFIER, frozen_clock
from page_scene import PASSWORD, STATE, Browser, authorization, browser, give_password
from paydesk.core.keys import Keys
from paydesk.engine.oauth.clients import applications
from paydesk.engine.oauth.consent.requests import OPEN_MAX
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction
from service import Service, running

ISSUER = "http://127.0.0.1"
TWO_KEYS = Keys(2, {1: b"k" * 32, 2: b"another key of thirty-two bytes!"})


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service that knows its own address."""
    async with running(database, settings=Settings(public_url=ISSUER), workers=False) as service:
        yield service


async def test_a_seller_agrees(service: Service) -> None:
    """After sign-in and consent the application gets a code with state and iss, and tokens for it."""
    seller = await browser(service)
    path = authorization(service, code_challenge=CHALLENGE, code_challenge_method="s256", scope="write read")
    answer = await seller.sign_in(path)
    assert answer.location == "/authorization?" + answer.location.partition("?")[2]
    page = await seller.get(answer.location)
    assert page.status == 200
    assert "Till" in page.text
    assert "till.example" in page.text
    agreed = await seller.submit(page.form("/authorization"), decision="agree")
    assert agreed.location.startswith(f"{REDIRECT_URI}?code=TG-")
    assert (agreed.query["state"], agreed.query["iss"]) == (STATE, ISSUER)
    body = service.scene.exchange(agreed.query["code"], code_verifier=VERIFIER)
    reply = await service.request("POST", "/oauth/token", body, token=None, key=None)
    assert (reply.status, reply.body["scope"], reply.body["user_id"]) == (200, "read write", service.seller_id)


async def test_a_seller_refuses(service: Service) -> None:
    """The application gets `access_denied` with its state, and no authorization."""
    seller = await browser(service)
    refused = await seller.submit(await seller.consent(), decision="refuse")
    assert refused.query == {
        "error": "access_denied",
        "error_description": "The seller refused.",
        "state": STATE,
        "iss": ISSUER,
    }
    assert await _codes(service) == 0


async def test_the_consent_page_names_what_is_authorized(service: Service) -> None:
    """Application, host, seller, each scope in plain words, and what the scopes don't say."""
    seller = await browser(service)
    page = await seller.get((await seller.sign_in(authorization(service, scope="read offline_access"))).location)
    for text in (
        "Allow Till to act for you?",
        "till.example",
        service.scene.seller.email,
        "See your orders, payments and terminals",
        "Stay connected when you are not here",
        "sees all of your orders, whichever application created them",
        "Not you?",
    ):
        assert text in page.text, text
    assert "refund" not in page.text
    assert page.form("/authorization").buttons == [("decision", "agree"), ("decision", "refuse")]
    # Where the application sends the browser on is its own affair, and browsers hold it against this page's policy.
    assert "form-action" not in page.headers["content-security-policy"]


async def test_every_authorization_needs_a_consent(service: Service) -> None:
    """A signed-in seller confirms each time, and each consent is a new authorization."""
    seller = await browser(service)
    for expected in (1, 2):
        form = await seller.consent()
        assert (await seller.submit(form, decision="agree")).query["code"]
        standing = "SELECT count(*) FROM authorizations WHERE seller_id = $1 AND application_id = $2"
        application_id = service.scene.application.application_id
        # One more stands for the tokens that the service was started with, live and test.
        assert await service.scene.value(standing, service.seller_id, application_id) == 2 + expected


async def test_a_second_click_gets_the_same_code(service: Service) -> None:
    """The same decision redirects as before, also under another active server key."""
    seller = await browser(service)
    for decision in ("agree", "refuse"):
        form = await seller.consent()
        first = await seller.submit(form, decision=decision)
        assert (await seller.submit(form, decision=decision)).location == first.location
    form = await seller.consent()
    first = await seller.submit(form, decision="agree")
    async with running(service.database, settings=Settings(public_url=ISSUER), workers=False, keys=TWO_KEYS) as node:
        rotated = Browser(node, cookies=seller.cookies)
        assert (await rotated.submit(form, decision="agree")).location == first.location
    assert await _codes(service) == 2
    events = "SELECT count(*) FROM application_events WHERE action = 'application.authorized'"
    assert await service.scene.value(events) == 2


@pytest.mark.parametrize(
    "end",
    [
        "UPDATE codes SET exchanged_ms = 1",
        "UPDATE codes SET expired_ms = 1",
        "UPDATE codes SET expires_ms = 1",
        "UPDATE authorizations SET withdrawn_ms = 1",
    ],
)
async def test_a_redeemed_code_is_not_sent_again(service: Service, end: str) -> None:
    """A second click after the exchange is refused: reuse of the code would revoke the tokens."""
    seller = await browser(service)
    form = await seller.consent()
    await seller.submit(form, decision="agree")
    await service.scene.run(end)
    again = await seller.submit(form, decision="agree")
    assert (again.status, again.code) == (409, "request_decided")


async def test_another_decision_on_the_same_page_is_refused(service: Service) -> None:
    """A seller who goes back and decides otherwise, or too late, can start again."""
    seller = await browser(service)
    form = await seller.consent()
    code = (await seller.submit(form, decision="agree")).query["code"]
    assert (await service.request("POST", "/oauth/token", service.scene.exchange(code), token=None)).status == 200
    for decision in ("agree", "refuse"):
        again = await seller.submit(form, decision=decision)
        assert (again.status, again.code) == (409, "request_decided")
        links = [given["href"] for tag, given in again.tags if tag == "a"]
        assert links == [form.fields["return_to"]]
    assert await _codes(service) == 1
    assert (await seller.get(form.fields["return_to"])).form("/authorization")


async def test_a_refusal_can_not_be_changed(service: Service) -> None:
    """A seller who refused can't agree on the same page."""
    seller = await browser(service)
    form = await seller.consent()
    await seller.submit(form, decision="refuse")
    assert (await seller.submit(form, decision="agree")).code == "request_decided"
    assert await _codes(service) == 0


async def test_64_concurrent_clicks_get_one_code(service: Service) -> None:
    """All of them get the same code, and there is no other."""
    seller = await browser(service)
    form = await seller.consent()
    answers = await asyncio.gather(*(seller.submit(form, decision="agree") for _ in range(64)))
    assert len({answer.location for answer in answers}) == 1
    assert await _codes(service) == 1


async def test_two_tabs_are_decided_separately(service: Service) -> None:
    """Each with its own state."""
    seller = await browser(service)
    one, other = await seller.consent(state="one"), await seller.consent(state="other")
    assert (await seller.submit(other, decision="refuse")).query["state"] == "other"
    assert (await seller.submit(one, decision="agree")).query["state"] == "one"


@pytest.mark.on_postgres
async def test_a_session_has_a_limited_number_of_open_requests(database: Database) -> None:
    """The oldest one is then answered as expired; those of other sessions stay."""
    clock, forms = frozen_clock(), []
    async with running(database, clock=clock, settings=Settings(public_url=ISSUER), workers=False) as service:
        seller, elsewhere = await browser(service), await browser(service)
        theirs = await elsewhere.consent()
        for number in range(OPEN_MAX + 1):
            clock.advance(1)
            forms.append(await seller.consent(state=str(number)))
        assert await service.scene.value("SELECT COUNT(*) FROM consent_requests") == OPEN_MAX + 1
        assert (await seller.submit(forms[0], decision="agree")).code == "request_decided"
        for answered, form in ((seller, forms[1]), (seller, forms[-1]), (elsewhere, theirs)):
            assert (await answered.submit(form, decision="agree")).query["code"]


async def test_a_form_of_another_browser_is_refused(service: Service) -> None:
    """No token, another's token, another site: nothing is decided, and the page stays open."""
    seller, elsewhere = await browser(service), await browser(service)
    form, theirs = await seller.consent(), await elsewhere.consent()
    for token in ("", "1-" + "0" * 64, theirs.fields["form_token"]):
        page = await seller.submit(form, decision="agree", form_token=token)
        assert (page.status, page.code) == (403, "form_outdated")
        assert form.fields["return_to"] in [given.get("href") for _, given in page.tags]
    foreign = await seller.post(
        "/authorization",
        {**form.fields, "decision": "agree"},
        Origin="https://evil.example",
        Sec_Fetch_Site="cross-site",
    )
    assert (foreign.status, foreign.code) == (403, "forbidden")
    assert await _codes(service) == 0
    assert (await seller.submit(form, decision="agree")).query["code"]


async def test_a_request_of_another_session_is_refused(service: Service) -> None:
    """A request belongs to the session, and so to the seller, that it was shown to."""
    seller, elsewhere = await browser(service), await browser(service)
    other = await other_seller(service)
    await give_password(other)
    other_browser = Browser(other)
    form = await seller.consent()
    for one in (elsewhere, other_browser):
        own = await one.consent()
        page = await one.submit(own, decision="agree", request=form.fields["request"])
        assert (page.status, page.code) == (409, "request_decided")
    unknown = await seller.submit(form, decision="agree", request="0" * 64)
    assert unknown.code == "request_decided"
    assert await _codes(service) == 0
    assert (await seller.submit(form, decision="agree")).status == 303


async def test_a_malformed_form_is_refused(service: Service) -> None:
    """Missing, unknown, repeated and non-text fields, and other media types."""
    seller = await browser(service)
    form = await seller.consent()
    good = {**form.fields, "decision": "agree"}
    broken: tuple[Mapping[str, str] | bytes, ...] = (
        {**good, "decision": "maybe"},
        {**good, "further": "1"},
        form.fields,
        {**good, "request": "x" * 101},
        urlencode(good).encode() + b"&decision=refuse",
        urlencode(good).encode() + b"&x=%FF",
        urlencode({**good, "return_to": "a\r\nSet-Cookie: x"}).encode(),
        b"",
        b"{}",
        b"\xff\xfe",
    )
    for data in broken:
        page = await seller.post("/authorization", data)
        assert (page.status, page.code) == (400, "bad_request"), data
        assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert (await seller.post("/authorization", b"x=" + b"y" * 65_536)).status == 413
    assert (await seller.post("/authorization", b"{}", Content_Type="application/json")).status == 415
    assert await _codes(service) == 0
    assert (await seller.submit(form, decision="agree")).status == 303


async def test_an_expired_page_is_refused(database: Database) -> None:
    """Also if the clock is set back; the lifetime of the code begins when it is created."""
    clock = frozen_clock()
    async with running(database, clock=clock, workers=False) as service:
        seller = await browser(service)
        form, late = await seller.consent(), await seller.consent()
        clock.advance(30 * 60_000 - 1)
        code = (await seller.submit(form, decision="agree")).query["code"]
        assert await service.scene.value("SELECT expires_ms FROM codes") == clock.now_ms() + 600_000
        clock.advance(1)
        assert (await seller.submit(late, decision="agree")).code == "request_decided"
        await service.scene.run("UPDATE consent_requests SET expires_ms = expires_ms + 3600000")
        assert (await seller.submit(late, decision="agree")).code == "request_decided"
        clock.advance(600_000 - 2)
        reply = await service.request("POST", "/oauth/token", service.scene.exchange(code), token=None, key=None)
        assert reply.status == 200


async def test_an_ended_session_leads_to_sign_in(database: Database) -> None:
    """The sign-in form leads back to the same consent page."""
    clock = frozen_clock()
    settings = Settings(consent_minutes=1440, session_hours=1)
    async with running(database, clock=clock, settings=settings, workers=False) as service:
        seller = await browser(service)
        form = await seller.consent()
        clock.advance(3_600_000)
        page = await seller.submit(form, decision="agree")
        assert page.status == 403
        assert "You are no longer signed in" in page.text
        sign_in = page.form("/sign-in")
        assert sign_in.fields["return_to"] == form.fields["return_to"]
        back = await seller.submit(sign_in, email=service.scene.seller.email, password=PASSWORD)
        assert (await seller.get(back.location)).form("/authorization")
        assert (await seller.submit(form, decision="agree")).code == "form_outdated"
        assert await _codes(service) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uris": ("https://till.example/other",)},
        {"scopes": "read write"},
        {"pkce_required": True},
        {"suspended": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_an_application_changed_meanwhile_is_refused(service: Service, changes: dict[str, Any]) -> None:
    """A request that would not pass the checks any more can't be agreed to, without a redirect."""
    seller, application = await browser(service), service.scene.application
    agree, refuse = await seller.consent(), await seller.consent()
    good = {
        "name": application.name,
        "redirect_uris": application.redirect_uris,
        "scopes": application.scopes,
        "pkce_required": False,
        "on_replay": "revoke",
        "test_tokens": False,
    }

    async def change(tx: Transaction) -> None:
        if "suspended" in changes:
            await applications.suspend(tx, application.application_id, 1)
        else:
            await applications.change(tx, application.application_id, **{**good, **changes})

    await service.database.write(change)
    for form, decision in ((agree, "agree"), (refuse, "refuse")):
        page = await seller.submit(form, decision=decision)
        assert (page.status, page.code) == (409, "application_changed")
    assert await _codes(service) == 0


async def test_not_you_signs_in_another_seller(service: Service) -> None:
    """The other seller gets the same consent page."""
    seller, other = await browser(service), await other_seller(service)
    await give_password(other)
    await seller.consent()
    page = await seller.get(authorization(service))
    out = await seller.submit(page.form("/sign-out"))
    asked = await seller.get(out.location)
    back = await seller.submit(asked.form("/sign-in"), email=other.scene.seller.email, password=PASSWORD)
    page = await seller.get(back.location)
    assert other.scene.seller.email in page.text
    agreed = await seller.submit(page.form("/authorization"), decision="agree")
    assert agreed.query["code"].endswith(f"-{other.seller_id}")


async def test_the_query_of_a_redirect_uri_is_kept(service: Service) -> None:
    """The response is appended to it."""
    address = "https://till.example/callback?shop=1"
    uris = json.dumps([address])
    await service.scene.run("UPDATE applications SET redirect_uris = $1", uris)
    seller = await browser(service)
    agreed = await seller.submit(await seller.consent(redirect_uri=address), decision="agree")
    assert agreed.location.startswith(f"{address}&code=TG-")
    body = service.scene.exchange(agreed.query["code"], redirect_uri=address)
    assert (await service.request("POST", "/oauth/token", body, token=None, key=None)).status == 200


async def test_the_state_is_returned_unchanged(service: Service) -> None:
    """Whatever its characters; without a state none is returned."""
    seller = await browser(service)
    for state in ("ção \U0001f600 <>&\"'+%=#/?", "s" * 2048):
        answer = await seller.submit(await seller.consent(state=state), decision="agree")
        assert answer.query["state"] == state
    assert set((await seller.submit(await seller.consent(state=""), decision="agree")).query) == {"code", "iss"}


async def test_no_secret_is_logged_or_stored_in_clear(service: Service) -> None:
    """Passwords, cookies, form tokens, request tokens, codes and states."""
    seller = await browser(service)
    with structlog.testing.capture_logs() as logged:
        await seller.sign_in("/applications", password="a wrong one")
        form = await seller.consent(state="a-state-of-the-application")
        await seller.submit(form, decision="agree", form_token="1-" + "0" * 64)
        code = (await seller.submit(form, decision="agree")).query["code"]
        await seller.submit(form, decision="agree")
    lines = json.dumps(logged, default=str)
    assert len(logged) >= 8
    secrets = [
        PASSWORD,
        "a wrong one",
        code,
        form.fields["form_token"],
        form.fields["request"],
        *seller.cookies.values(),
    ]
    assert [secret for secret in [*secrets, "a-state-of-the-application"] if secret in lines] == []
    tables = "sellers", "seller_sessions", "consent_requests", "codes", "authorizations", "application_events"
    rows = [await service.database.read(partial(_rows, table=table)) for table in tables]
    stored = repr(rows)
    assert all(rows)
    assert [secret for secret in secrets if secret in stored] == []


async def _rows(tx: Transaction, table: str) -> list[Any]:
    return [tuple(row) for row in await tx.all(f"SELECT * FROM {table}")]


async def _codes(service: Service) -> int:
    count: int = await service.scene.value("SELECT count(*) FROM codes")
    return count
