"""Operators sign in to the console: sessions, cookies, throttling, and forms and links of other sites."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator

import pytest
import structlog
from argon2 import PasswordHasher

from console_scene import console, links
from oauth_scene import frozen_clock
from operator_people import PASSWORD, SIGN_IN, begin_session, make_person, sign_in_page, signed_in
from page_scene import Browser
from paydesk.core.clock import MovableClock
from paydesk.core.secrets import digest
from paydesk.core.version import version
from paydesk.engine.sellers.passwords import needs_rehash
from paydesk.operators.sessions.rows import SESSIONS_MAX
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_dev.console_key import ConsoleKey
from service import Service, running
from tables import each

EMAIL = "eva@shop.example"


@pytest.fixture
def clock() -> MovableClock:
    """A clock that stands still."""
    return frozen_clock()


@pytest.fixture
async def service(database: Database, clock: MovableClock) -> AsyncIterator[Service]:
    """A service by that clock, with an operator who has a password."""
    async with running(database, clock=clock, workers=False) as service:
        await make_person(service, email=EMAIL)
        yield service


def _session(browser: Browser) -> str:
    """Return the name of the browser's session cookie."""
    port = browser.service.base_url.rpartition(":")[2]
    return f"paydesk_operator_{port}"


@pytest.mark.on_postgres
async def test_sign_in_begins_a_new_session(service: Service) -> None:
    """A cookie that was planted is worthless, the earlier session ends, and only a digest is stored."""
    eva = Browser(service)
    name = _session(eva)
    eva.cookies[name] = planted = "PDS-" + "a" * 40
    assert (await sign_in_page(eva, EMAIL)).location == "/console"
    first = eva.cookies[name]
    assert first != planted
    assert not await signed_in(Browser(service, cookies={name: planted}))
    second = Browser(service, cookies=dict(eva.cookies))
    form = (await Browser(service, cookies={"paydesk_visit": eva.cookies["paydesk_visit"]}).get(SIGN_IN)).form(SIGN_IN)
    assert (await second.submit(form, email=EMAIL, password=PASSWORD)).status == 303
    assert second.cookies[name] != first
    assert not await signed_in(eva)
    assert await signed_in(second)
    rows = await service.database.read(lambda tx: tx.all("SELECT digest FROM operator_sessions"))
    assert {bytes(row[0]) for row in rows} == {digest(first), digest(second.cookies[name])}


@pytest.mark.on_postgres
async def test_an_outdated_hash_is_replaced_at_sign_in(service: Service) -> None:
    """By one of the same password, which still signs in."""
    old = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    await service.scene.run("UPDATE operators SET password = $2 WHERE email = $1", EMAIL, old)
    for _ in range(2):
        assert (await sign_in_page(Browser(service), EMAIL)).location == "/console"
    stored = await service.scene.value("SELECT password FROM operators WHERE email = $1", EMAIL)
    assert stored != old
    assert not needs_rehash(stored)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_cookies_are_protected(database: Database, scheme: str) -> None:
    """From scripts and other sites' forms; on https they are bound to the host, on http the name has the port."""
    async with running(database, settings=Settings(public_url=f"{scheme}://127.0.0.1"), workers=False) as service:
        await make_person(service, email=EMAIL)
        eva = Browser(service)
        answer = await sign_in_page(eva, EMAIL)
        (header,) = answer.headers.getall("set-cookie")
        name = "__Host-paydesk_operator" if scheme == "https" else _session(eva)
        assert header.startswith(f"{name}=PDS-")
        attributes = {part.strip() for part in header.split(";")[1:]}
        secure = {"Secure"} if scheme == "https" else set()
        assert attributes == {"Path=/", "HttpOnly", "SameSite=Lax", *secure}
        assert await signed_in(eva)


async def test_unknown_email_and_wrong_password_look_the_same(service: Service) -> None:
    """One refusal and one page; only the log has the difference. So do programs and people without a password."""
    eva = Browser(service)
    with structlog.testing.capture_logs() as logged:
        wrong = await sign_in_page(eva, EMAIL, "wrong")
        unknown = await sign_in_page(eva, "unknown@shop.example")
    assert wrong.status == unknown.status == 403
    assert wrong.html.replace(EMAIL, "…") == unknown.html.replace("unknown@shop.example", "…")
    assert [line["reason"] for line in logged if "reason" in line] == [
        "password differs",
        "unknown or revoked operator",
    ]
    assert not await signed_in(eva)
    assert (await sign_in_page(eva, f" {EMAIL.title()} ")).status == 303


@each(
    "sent, opened",
    [
        ("/console/orders?status=created", "/console/orders?status=created"),
        ("/console", "/console"),
        ("", "/console"),
        ("//evil.example", "/console"),
        ("/console//evil.example", "/console//evil.example"),
        ("/consoles", "/console"),
        ("/console@evil.example", "/console"),
        ("https://evil.example/console", "/console"),
        ("/console/\r\nSet-Cookie: a=b", "/console"),
        ("/console\\evil", "/console"),
        ("/console/sign-in", "/console"),
        ("/console/events", "/console"),
        ("/console/../demo/callback", "/console"),
        ("/console/%2e%2E/demo/callback", "/console"),
        ("/applications", "/console"),
    ],
)
async def test_sign_in_leads_to_the_console_alone(service: Service, sent: str, opened: str) -> None:
    """Never to another site, and not to what is no page."""
    eva = Browser(service)
    answer = await sign_in_page(eva, EMAIL, return_to=urllib.parse.quote(sent, safe=""))
    assert answer.location == opened
    shown = await eva.get(f"{SIGN_IN}?return_to={urllib.parse.quote(sent, safe='')}")
    assert shown.location == opened, "signed in already"


async def test_an_open_page_does_not_keep_the_session(service: Service) -> None:
    """Browsers open the stream of hints again by themselves, and pages fetch what has changed."""
    eva = Browser(service)
    await sign_in_page(eva, EMAIL)
    long_ago = await service.scene.value("SELECT used_ms - 600000 FROM operator_sessions")
    await service.scene.run(f"UPDATE operator_sessions SET used_ms = {long_ago}")
    cookie = "; ".join(f"{name}={value}" for name, value in eva.cookies.items())
    assert (await eva.get("/console/orders", HX_Request="true", X_Paydesk_Background="true")).status == 200
    async with service.session.get(f"{service.base_url}/console/events", headers={"Cookie": cookie}) as stream:
        assert stream.status == 200
    assert await service.scene.value("SELECT used_ms FROM operator_sessions") == long_ago
    await eva.get("/console/orders")
    assert await service.scene.value("SELECT used_ms FROM operator_sessions") > long_ago


async def test_page_leads_to_sign_in_and_back(service: Service) -> None:
    """Without a session; an ended one is named."""
    eva = Browser(service)
    to_sign_in = (await eva.get("/console/orders?status=created")).location
    assert to_sign_in.startswith(f"{SIGN_IN}?return_to=")
    form = (await eva.get(to_sign_in)).form(SIGN_IN)
    assert (await eva.submit(form, email=EMAIL, password=PASSWORD)).location == "/console/orders?status=created"
    await service.scene.run("UPDATE operator_sessions SET ended_ms = 1")
    ended = await eva.get((await eva.get("/console/orders")).location)
    assert any(given.get("id") == "notice" for _, given in ended.tags)


async def test_form_of_another_browser_or_site_signs_in_no_operator(service: Service) -> None:
    """A form without the token of this browser, or sent from another site, is refused."""
    eva = Browser(service)
    theirs = (await Browser(service).get(SIGN_IN)).form(SIGN_IN)
    good = (await eva.get(SIGN_IN)).form(SIGN_IN)
    filled = {"email": EMAIL, "password": PASSWORD}
    for token in (theirs.fields["form_token"], "", "1-", "1-" + "0" * 64, "x", "1-é"):
        assert (await eva.submit(good, **filled, form_token=token)).status == 403, token
    assert (await Browser(service).submit(good, **filled)).status == 403
    for headers in (
        {"Origin": "https://evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site", "Origin": "null"},
    ):
        assert (await eva.post(SIGN_IN, {**good.fields, **filled}, **headers)).status == 403, headers
    assert await service.scene.value("SELECT COUNT(*) FROM operator_sessions") == 0
    assert (await eva.submit(good, **filled)).status == 303


async def test_form_of_a_link_is_protected_too(service: Service) -> None:
    """Another site can't set the password with a link that it knows and sign its operator in."""
    owner = await make_person(service, "owner", "owner@shop.example")
    browser = Browser(service)
    await sign_in_page(browser, owner.email)
    link = await service.request(
        "POST",
        f"/operator/v1/operators/{owner.operator_id}/password-link",
        token=browser.cookies[_session(browser)],
        key=None,
    )
    path = link.body["url"][link.body["url"].index("/console/") :]
    form = (await browser.get(path)).form(path)
    fields = {**form.fields, "password": "quite different words in a row"}
    assert (await browser.post("/console/password", fields, Origin="https://evil.example")).status == 403
    assert (await Browser(service).post("/console/password", fields)).status == 403
    assert (await browser.post("/console/password", {**fields, "form_token": "1-0"})).status == 403
    assert (await browser.post("/console/password", fields)).status == 303


async def test_sign_out_ends_the_session(service: Service) -> None:
    """On the server, and only by the form of this session."""
    eva, other = Browser(service), Browser(service)
    for browser in (eva, other):
        await sign_in_page(browser, EMAIL)
    token = eva.cookies[_session(eva)]
    theirs = (await other.get("/console/account")).form("/console/sign-out")
    assert (await eva.submit(theirs)).status == 403
    form = (await eva.get("/console/account")).form("/console/sign-out")
    assert (await eva.post(form.action, form.fields, Sec_Fetch_Site="cross-site")).status == 403
    assert (await eva.submit(form)).location == SIGN_IN
    assert _session(eva) not in eva.cookies
    assert not await signed_in(Browser(service, cookies={_session(eva): token}))
    assert await signed_in(other)
    assert (await eva.submit(form)).location == SIGN_IN, "twice has no further effect"


async def test_sessions_beyond_the_first_page_are_reached(service: Service) -> None:
    """The page says that there are more."""
    browser = await console(service, "viewer")
    assert browser.operator is not None
    for _ in range(SESSIONS_MAX):
        await begin_session(service, browser.operator.operator_id)
    page = await browser.open("/console/account")
    assert version() in page.text
    assert page.html.count('<tr id="') == SESSIONS_MAX
    (older,) = [href for href in links(page) if "sessions_after=" in href]
    last = await browser.open(older)
    assert last.html.count('<tr id="') == 1
    assert not [href for href in links(last) if "sessions_after=" in href]


async def test_sign_out_everywhere_ends_all_sessions(service: Service) -> None:
    """Also the one that asks for it."""
    eva, other = Browser(service), Browser(service)
    for browser in (eva, other):
        await sign_in_page(browser, EMAIL)
    path = "/console/account/sessions/end"
    form = (await eva.get(path)).form(path)
    assert (await eva.submit(form)).location == SIGN_IN
    for browser in (eva, other):
        assert not await signed_in(browser)


async def test_account_ends_one_session_and_changes_the_password(service: Service) -> None:
    """With the current password; then only the new one signs in."""
    eva, other = Browser(service), Browser(service)
    for browser in (eva, other):
        await sign_in_page(browser, EMAIL)
    account = await eva.get("/console/account")
    assert EMAIL in account.text
    (path,) = [
        given["href"] for tag, given in account.tags if tag == "a" and "/account/sessions/0" in given.get("href", "")
    ]
    assert (await eva.submit((await eva.get(path)).form(path))).location == "/console/account"
    assert not await signed_in(other)
    assert await signed_in(eva)
    path = "/console/account/password"
    form = (await eva.get(path)).form(path)
    new = "quite different words in a row"
    for current, password, status in (
        ("wrong", new, 403),
        (PASSWORD, "short", 400),
        (PASSWORD, "passwordpassword", 400),
        (PASSWORD, PASSWORD, 400),
    ):
        page = await eva.submit(form, current=current, password=password)
        assert page.status == status, (current, password)
        assert PASSWORD not in page.html
    changed = await eva.submit(form, current=PASSWORD, password=new)
    assert "The password is changed." in (await eva.get(changed.location)).text
    assert not await signed_in(eva)
    assert (await sign_in_page(eva, EMAIL)).status == 403
    assert (await sign_in_page(eva, EMAIL, new)).status == 303


async def test_too_many_failures_are_throttled(database: Database) -> None:
    """The page says how long to wait; sellers' failures do not count, and operators are alerted."""
    settings = Settings(sign_in_failures_per_hour=5)
    async with running(database, settings=settings, workers=False) as service:
        await make_person(service, email=EMAIL)
        eva = Browser(service)
        statuses = [(await sign_in_page(eva, EMAIL, "wrong")).status for _ in range(6)]
        assert statuses == [403] * 5 + [429]
        page = await sign_in_page(eva, EMAIL)
        assert page.status == 429
        assert int(page.headers["retry-after"]) > 0
        assert "Wait " in page.text
        assert (await eva.sign_in("/applications", email=EMAIL, password="x")).status == 403
        assert await service.scene.value("SELECT COUNT(*) FROM operator_events WHERE kind = 'sign_in_failures'") == 1


async def test_each_failed_sign_in_is_an_operator_event(service: Service) -> None:
    """Also the first one; one row an hour for each operator, and one for all addresses that none has."""
    eva = Browser(service)
    for email in (EMAIL, EMAIL, "unknown-1@shop.example", "unknown-2@shop.example"):
        assert (await sign_in_page(eva, email, "wrong")).status == 403
    rows = await service.database.read(lambda tx: tx.all("SELECT kind, subject, body FROM operator_events"))
    operator_id = await service.scene.value("SELECT operator_id FROM operators WHERE email = $1", EMAIL)
    body = '{"address":"127.0.0.1"}'
    assert sorted(map(tuple, rows)) == sorted(
        ("sign_in_failures", subject, body) for subject in (operator_id, "unknown_operator")
    )


async def test_no_page_or_log_has_a_secret(service: Service) -> None:
    """Neither the session's token, nor the password, nor the link."""
    eva = Browser(service)
    with structlog.testing.capture_logs() as logged:
        failed = await sign_in_page(eva, EMAIL, "wrong-secret-words")
        await sign_in_page(eva, EMAIL)
        account = await eva.get("/console/account")
        link = await eva.get("/console/password?link=PDL-" + "1" * 40)
    token = eva.cookies[_session(eva)]
    for text in (failed.html, account.html, str(logged)):
        assert "wrong-secret-words" not in text
        assert token not in text
        assert PASSWORD not in text
    assert "PDL-" not in str(logged)
    for page in (failed, account, link):
        assert "no-store" in page.headers["cache-control"]
        assert page.headers["x-frame-options"] == "DENY"


async def test_key_of_the_development_service_opens_the_console(database: Database) -> None:
    """The address of the answer has no key. A wrong one is not found, and nothing is there in production."""
    async with running(database, workers=False) as service:
        eva = await make_person(service, "owner", EMAIL)
    key = ConsoleKey(eva.operator_id)
    path = key.url("")
    async with running(database, workers=False, development=True, console_key=key) as service:
        browser = Browser(service)
        assert (await browser.get(path)).location == "/console"
        assert await signed_in(browser)
        for wrong in ("/console/enter?key=" + "0" * 40, "/console/enter?key=", "/console/enter?key=é", path[:-1]):
            assert (await Browser(service).get(wrong)).status == 404, wrong
        assert repr(key).count(key.value) == 0
        await service.scene.run("UPDATE operators SET revoked_ms = 1")
        assert (await Browser(service).get(path)).status == 404
    async with running(database, workers=False, console_key=key) as service:
        assert (await Browser(service).get(path)).status == 404
