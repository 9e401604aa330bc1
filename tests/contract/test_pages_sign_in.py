"""Sign-in and sign-out in a browser: passwords, sessions, cookies and forms of other sites."""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import AsyncIterator
from functools import partial

import pytest
import structlog
from argon2 import PasswordHasher

from accounts import other_seller
from oauth_scene import frozen_clock
from page_scene import PASSWORD, Browser, authorization, browser, give_password
from paydesk.core.clock import MovableClock
from paydesk.core.secrets import Secret, digest
from paydesk.engine.sellers import passwords
from paydesk.engine.sellers import store as sellers
from paydesk.engine.sellers.passwords import hash_password, needs_rehash
from paydesk.engine.sellers.sessions import SELLERS
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Service, running
from tables import each

SESSION, VISIT, BROWSER = "paydesk_session", "paydesk_visit", "paydesk_browser"
HOUR_SECONDS = 3600
IDLE_MS = 30 * 60 * 1000


@pytest.fixture
def clock() -> MovableClock:
    """A clock that stands still."""
    return frozen_clock()


@pytest.fixture
async def service(database: Database, clock: MovableClock) -> AsyncIterator[Service]:
    """A service by that clock."""
    async with running(database, clock=clock, workers=False) as service:
        yield service


async def _is_signed_in(seller: Browser) -> bool:
    return not any(form.action == "/sign-in" for form in (await seller.get("/applications")).forms)


@pytest.mark.on_postgres
async def test_sign_in_begins_a_new_session(service: Service, clock: MovableClock) -> None:
    """An earlier cookie is worthless, the earlier session ends, and only a digest is stored."""
    seller = await browser(service)
    seller.cookies[SESSION] = planted = "a" * 64 + f"-{service.seller_id}"
    assert (await seller.sign_in("/applications")).location == "/applications"
    first = seller.cookies[SESSION]
    assert first != planted
    assert not await _is_signed_in(Browser(service, cookies={SESSION: planted}))
    second_tab = Browser(service, cookies={VISIT: seller.cookies[VISIT]})
    form = (await second_tab.get("/sign-in")).form("/sign-in")
    second_tab.cookies[SESSION] = first
    assert (await second_tab.submit(form, email=service.scene.seller.email, password=PASSWORD)).status == 303
    assert second_tab.cookies[SESSION] != first
    assert not await _is_signed_in(seller)
    assert await _is_signed_in(second_tab)
    stored = await service.database.read(lambda tx: tx.all("SELECT digest, expires_ms FROM seller_sessions"))
    assert {bytes(row[0]) for row in stored} == {digest(first), digest(second_tab.cookies[SESSION])}
    assert {row[1] for row in stored} == {clock.now_ms() + 12 * HOUR_SECONDS * 1000}


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_cookies_are_protected(database: Database, scheme: str) -> None:
    """From scripts and other sites' forms; on https they are bound to the host."""
    async with running(database, settings=Settings(public_url=f"{scheme}://127.0.0.1"), workers=False) as service:
        seller = await browser(service)
        page = await seller.get(authorization(service))
        form = page.form("/sign-in")
        answer = await seller.submit(form, email=service.scene.seller.email, password=PASSWORD)
        headers = page.headers.getall("set-cookie") + answer.headers.getall("set-cookie")
        prefix = "__Host-" if scheme == "https" else ""
        assert [header.partition("=")[0] for header in headers] == [prefix + name for name in (VISIT, SESSION, BROWSER)]
        for header in headers:
            attributes = [part.strip() for part in header.split(";")[1:]]
            assert {"Path=/", "HttpOnly", "SameSite=Lax"} <= set(attributes)
            assert ("Secure" in attributes) == (scheme == "https")
            assert not any(attribute.startswith("Domain") for attribute in attributes)
            assert ("Max-Age=31536000" in attributes) == (BROWSER in header)
        value = seller.cookies[prefix + SESSION]
        assert len(value.partition("-")[0]) == 64
        assert int(value.rpartition("-")[2]) == service.seller_id
        assert (await seller.get(answer.location)).form("/authorization")


async def test_a_wrong_address_and_a_wrong_password_look_the_same(service: Service) -> None:
    """One refusal and one page, which keeps the typed address; only the log has the difference."""
    seller = await browser(service)
    with structlog.testing.capture_logs() as logged:
        wrong = await seller.sign_in(authorization(service), password="wrong")
        unknown = await seller.sign_in(authorization(service), email="unknown@shop.example")
    email = service.scene.seller.email
    assert wrong.status == unknown.status == 403
    assert wrong.html.replace(email, "…") == unknown.html.replace("unknown@shop.example", "…")
    assert wrong.form("/sign-in").fields["email"] == email
    assert wrong.form("/sign-in").fields["password"] == ""
    invalid = [given for tag, given in wrong.tags if tag == "input" and given.get("aria-invalid") == "true"]
    assert [given["aria-describedby"] for given in invalid] == ["notice", "notice"]
    assert any(given.get("id") == "notice" and given.get("role") == "alert" for _, given in wrong.tags)
    assert SESSION not in seller.cookies
    reasons = [line["reason"] for line in logged if "reason" in line]
    assert reasons == ["password differs", "unknown e-mail address"]
    assert (await seller.submit(wrong.form("/sign-in"), password=PASSWORD)).status == 303


async def test_case_and_spaces_of_an_email_are_ignored(service: Service) -> None:
    """As a phone's keyboard adds them."""
    seller = await browser(service)
    assert (await seller.sign_in("/applications", email=f" {service.scene.seller.email.title()} ")).status == 303


async def test_a_form_of_another_browser_signs_in_no_seller(service: Service) -> None:
    """A form without the token of this browser, or sent from another site, is refused."""
    seller, other_browser = await browser(service), Browser(service)
    theirs = (await other_browser.get("/sign-in")).form("/sign-in")
    good = (await seller.get("/sign-in")).form("/sign-in")
    filled = {"email": service.scene.seller.email, "password": PASSWORD}
    for token in (theirs.fields["form_token"], "", "1-", "1-" + "0" * 64, "9-" + "0" * 64, "x", "²-1", "1-é"):
        page = await seller.submit(good, **filled, form_token=token)
        assert (page.status, SESSION in seller.cookies) == (403, False), token
        assert page.form("/sign-in").fields["email"] == ""
    without_cookie = await Browser(service).submit(good, **filled)
    assert without_cookie.status == 403
    assert VISIT in str(without_cookie.headers.getall("set-cookie"))
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1.evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site", "Origin": "null"},
    ):
        page = await seller.post("/sign-in", {**good.fields, **filled}, **headers)
        assert (page.status, page.code) == (403, "forbidden"), headers
    assert (await service.database.read(lambda tx: tx.all("SELECT 1 FROM seller_sessions"))) == []
    for headers in ({"Origin": "null"}, {"Origin": service.base_url}, {"Sec_Fetch_Site": "same-origin"}):
        assert (await seller.post("/sign-in", {**good.fields, **filled}, **headers)).status == 303, headers


async def test_a_form_token_is_valid_for_its_purpose_only(service: Service) -> None:
    """The token of one form is refused in another."""
    seller = await browser(service)
    form = await seller.consent()
    page = await seller.post("/sign-out", {"form_token": form.fields["form_token"], "return_to": ""})
    assert (page.status, page.code) == (403, "form_outdated")
    assert await _is_signed_in(seller)


@each(
    "wanted",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "/authorization", "/authorization@evil.example",
     "/authorization\\..?x", "/applications/withdraw", "/applications?x=//evil.example", "javascript:alert(1)",
     "/docs", ""],
)  # fmt: skip
async def test_redirects_stay_on_this_service(sqlite_service: Service, wanted: str) -> None:
    """Whatever a form names, the browser continues to an authorization request or the applications."""
    seller = await browser(sqlite_service)
    form = (await seller.get("/sign-in")).form("/sign-in")
    filled = {"email": sqlite_service.scene.seller.email, "password": PASSWORD}
    assert (await seller.submit(form, **filled, return_to=wanted)).location == "/applications"


@pytest.fixture
async def sqlite_service(sqlite_url: str) -> AsyncIterator[Service]:
    """A service where the kind of database doesn't matter."""
    from paydesk.platform.storage.connect import open_database

    database = await open_database(sqlite_url)
    async with running(database, workers=False) as service:
        yield service
    await database.close()


async def test_sign_in_returns_to_the_authorization_request(service: Service) -> None:
    """With all its parameters."""
    seller = await browser(service)
    path = authorization(service, state="ção &?#/<", scope="write read")
    back = (await seller.sign_in(path)).location
    assert urllib.parse.parse_qs(back.partition("?")[2]) == urllib.parse.parse_qs(path.partition("?")[2])
    assert (await seller.get(back)).form("/authorization")


async def test_signing_out_ends_the_session(service: Service) -> None:
    """On the server, and another seller can continue with the same authorization request."""
    seller = await browser(service)
    page = await seller.get((await seller.sign_in(authorization(service))).location)
    kept = dict(seller.cookies)
    form = page.form("/sign-out")
    assert (await seller.post("/sign-out", form.fields, Sec_Fetch_Site="cross-site")).status == 403
    assert (await Browser(service, cookies=kept).post("/sign-out", {"form_token": "1-0"})).code == "form_outdated"
    answer = await seller.submit(form)
    assert answer.location == page.form("/authorization").fields["return_to"]
    assert SESSION not in seller.cookies
    assert not await _is_signed_in(Browser(service, cookies=kept))
    assert (await seller.get(answer.location)).form("/sign-in")
    assert (await seller.submit(form)).location == answer.location


async def test_a_password_with_invisible_characters_is_accepted(service: Service) -> None:
    """It was set before they were refused. Other fields must not have them, and no field a control character."""
    password = "the cafe\xad and \U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    seller = await browser(service)
    hashed = PasswordHasher().hash(password)
    await service.scene.run("UPDATE sellers SET password = $2 WHERE seller_id = $1", service.seller_id, hashed)
    email = service.scene.seller.email
    for refused in (
        {"email": email, "password": password + "\x01"},
        {"email": email, "password": password + "\x9f"},
        {"email": email + "\xad", "password": password},
    ):
        assert (await seller.sign_in("/applications", **refused)).code == "bad_request"
    assert (await seller.sign_in("/applications", password=password)).status == 303


async def test_sign_out_everywhere_ends_all_sessions_of_the_seller(service: Service) -> None:
    """Those of other browsers too, from this response on; another seller stays signed in."""
    seller, elsewhere, other_service = await browser(service), Browser(service), await other_seller(service)
    await give_password(other_service)
    other = Browser(other_service)
    for one in (seller, elsewhere, other):
        await one.sign_in("/applications")
    form = (await seller.get("/applications")).form("/sign-out")
    assert form.buttons == [("everywhere", "yes")]
    assert (await seller.post("/sign-out", {**form.fields, "everywhere": "no"})).code == "bad_request"
    assert (await seller.submit(form, form_token="1-0", everywhere="yes")).code == "form_outdated"
    assert await _is_signed_in(elsewhere)
    assert (await seller.submit(form, everywhere="yes")).location == "/applications"
    assert SESSION not in seller.cookies
    assert [await _is_signed_in(one) for one in (seller, elsewhere, other)] == [False, False, True]
    assert "You are no longer signed in" in (await elsewhere.get("/applications")).text
    assert (await elsewhere.sign_in("/applications")).status == 303


async def test_an_ended_session_ends_no_other_sessions(service: Service) -> None:
    """With an ended session the browser must sign in first."""
    seller, elsewhere = await browser(service), Browser(service)
    for one in (seller, elsewhere):
        await one.sign_in("/applications")
    kept = dict(seller.cookies)
    form = (await seller.get("/applications")).form("/sign-out")
    await seller.submit(form)
    page = await Browser(service, cookies=kept).submit(form, everywhere="yes")
    assert (page.status, page.form("/sign-in").fields["return_to"]) == (403, "/applications")
    assert await _is_signed_in(elsewhere)
    unknown = {SESSION: f"{'0' * 64}-{service.seller_id}"}
    assert (await Browser(service, cookies=unknown).submit(form, everywhere="yes")).code == "form_outdated"


@pytest.mark.on_postgres
async def test_a_session_that_is_not_used_for_30_minutes_ends(service: Service, clock: MovableClock) -> None:
    """Each use restarts the time; an expired session stays expired, whatever the clock."""
    seller, idle = await browser(service), Browser(service)
    for one in (seller, idle):
        await one.sign_in("/applications")
    for _ in range(2):
        clock.advance(IDLE_MS - 1)
        assert await _is_signed_in(seller)
    assert not await _is_signed_in(idle)
    clock.advance(IDLE_MS)
    form = (await seller.get("/applications")).form("/sign-in")
    assert form.fields["return_to"] == "/applications"
    await service.scene.run("UPDATE seller_sessions SET used_ms = $1", clock.now_ms())
    assert [await _is_signed_in(one) for one in (seller, idle)] == [False, False]


async def test_the_last_use_is_written_once_a_minute(service: Service, clock: MovableClock) -> None:
    """Further pages within a minute write nothing."""
    seller = await browser(service)
    await seller.sign_in("/applications")
    began, used = clock.now_ms(), "SELECT used_ms FROM seller_sessions"
    for advance_ms, written in ((59_999, None), (1, 60_000), (59_999, 60_000), (1, 120_000)):
        clock.advance(advance_ms)
        assert await _is_signed_in(seller)
        found = await service.scene.value(used)
        assert found == (None if written is None else began + written)


async def test_a_session_without_a_last_use_stays_valid(service: Service, clock: MovableClock) -> None:
    """Its idle time counts from its beginning; the next page writes a last use."""
    seller = await browser(service)
    await seller.sign_in("/applications")
    await service.scene.run("UPDATE seller_sessions SET used_ms = NULL, created_ms = $1", clock.now_ms() - IDLE_MS + 1)
    assert await _is_signed_in(seller)
    clock.advance(IDLE_MS - 1)
    assert await _is_signed_in(seller)


async def test_an_expired_session_stays_expired(service: Service, clock: MovableClock) -> None:
    """Also if the clock is set back; the page says that the session has ended."""
    seller = await browser(service)
    await seller.sign_in("/applications")
    for _ in range(24):
        clock.advance(IDLE_MS - 1)
        assert await _is_signed_in(seller)
    clock.advance(23)
    assert await _is_signed_in(seller)
    clock.advance(1)
    page = await seller.get("/applications")
    assert "You are no longer signed in" in page.text
    assert page.form("/sign-in").fields["return_to"] == "/applications"
    await service.scene.run("UPDATE seller_sessions SET expires_ms = expires_ms + 3600000")
    assert not await _is_signed_in(seller)


async def test_a_suspended_seller_can_not_sign_in(service: Service, clock: MovableClock) -> None:
    """The reason is shown after the right password; existing sessions are invalid."""
    seller, elsewhere = await browser(service), await browser(service)
    await elsewhere.sign_in("/applications")
    await service.database.write(lambda tx: sellers.suspend(tx, service.seller_id, clock.now_ms()))
    assert not await _is_signed_in(elsewhere)
    refused = await seller.sign_in("/applications")
    assert (refused.status, refused.code) == (403, "seller_suspended")
    wrong = await seller.sign_in("/applications", password="wrong")
    assert "password is wrong" in wrong.text
    assert await service.scene.value("SELECT count(*) FROM seller_sessions") == 1


async def test_a_new_password_ends_the_sessions_of_the_seller(service: Service, clock: MovableClock) -> None:
    """And of no other seller."""
    seller, elsewhere = await browser(service), await browser(service)
    other_service = await other_seller(service)
    await give_password(other_service)
    other_browser = Browser(other_service)
    for one in (seller, elsewhere, other_browser):
        await one.sign_in("/applications")
    new_hash = await hash_password("another one")

    now_ms = clock.now_ms()
    reset = partial(SELLERS.set_password, account_id=service.seller_id, password_hash=new_hash, now_ms=now_ms)
    assert await service.database.write(reset) == 2
    assert [await _is_signed_in(one) for one in (seller, elsewhere, other_browser)] == [False, False, True]
    assert (await seller.sign_in("/applications")).status == 403
    assert (await seller.sign_in("/applications", password="another one")).status == 303


async def test_a_password_changed_during_sign_in_is_checked_again(service: Service, clock: MovableClock) -> None:
    """A session begins only with the current password of a seller who is not suspended."""
    await give_password(service)
    hours_ms = 12 * HOUR_SECONDS * 1000
    stored = await service.scene.value("SELECT password FROM sellers WHERE seller_id = $1", service.seller_id)

    async def begin(password_hash: str) -> Secret | None:
        now_ms = clock.now_ms()
        return await service.database.write(
            lambda tx: SELLERS.begin(
                tx,
                service.seller_id,
                password_hash=password_hash,
                now_ms=now_ms,
                expires_ms=now_ms + hours_ms,
            )
        )

    assert await begin(stored)
    assert await begin("$argon2id$another") is None
    await service.database.write(lambda tx: sellers.suspend(tx, service.seller_id, clock.now_ms()))
    assert await begin(stored) is None


@pytest.mark.on_postgres
async def test_an_outdated_hash_is_replaced_at_sign_in(service: Service) -> None:
    """Once, and the password stays the same."""
    old = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    stored = "SELECT password FROM sellers WHERE seller_id = $1"
    seller = Browser(service)
    hashes = [old]
    await service.scene.run("UPDATE sellers SET password = $2 WHERE seller_id = $1", service.seller_id, old)
    assert (await seller.sign_in("/applications", password="wrong")).status == 403
    assert await service.scene.value(stored, service.seller_id) == old
    for _ in range(2):
        assert (await Browser(service).sign_in("/applications")).status == 303
        hashes.append(await service.scene.value(stored, service.seller_id))
    assert not needs_rehash(hashes[1])
    assert hashes[1] == hashes[2] != old
    await service.scene.run("UPDATE sellers SET password = $2 WHERE seller_id = $1", service.seller_id, old)
    at_once = await asyncio.gather(*(Browser(service).sign_in("/applications") for _ in range(4)))
    assert [page.status for page in at_once] == [303] * 4
    assert not await service.database.write(
        lambda tx: tx.run(SELLERS.change_hash, service.seller_id, "of a password that is no more", old)
    )


async def test_too_many_sign_in_attempts(database: Database) -> None:
    """The page says how long to wait; a browser in which the seller has signed in is not affected."""
    settings = Settings(sign_in_failures_per_hour=2)
    async with running(database, settings=settings, workers=False) as service:
        known, other_browser = await browser(service), await browser(service)
        await known.sign_in("/applications")
        await known.submit((await known.get("/applications")).form("/sign-out"))
        statuses = [(await other_browser.sign_in("/applications", password="wrong")).status for _ in range(4)]
        assert statuses == [403, 403, 429, 429]
        page = await other_browser.sign_in("/applications")
        assert page.status == 429
        assert 0 < int(page.headers["retry-after"]) <= HOUR_SECONDS
        assert f"Wait {-(-int(page.headers['retry-after']) // 60)} min" in page.text
        forged = {BROWSER: known.cookies[BROWSER].replace(".", "0.")}
        assert (await Browser(service, cookies=forged).sign_in("/applications")).status == 429
        assert (await known.sign_in("/applications")).status == 303


@pytest.mark.parametrize(
    ("language", "text"), [("en", "service is overloaded"), ("es", "demasiado que hacer"), ("pt", "muito o que fazer")]
)
async def test_too_many_concurrent_sign_ins(
    sqlite_service: Service, monkeypatch: pytest.MonkeyPatch, language: str, text: str
) -> None:
    """With a full queue of password hashes the page says when to try again, and the database stays ready."""
    monkeypatch.setattr(passwords, "UNKNOWN_ORIGIN_QUEUE_MAX", 0)
    page = await Browser(sqlite_service, {"Accept-Language": language}).sign_in("/applications")
    assert (page.status, page.headers["retry-after"]) == (503, "1")
    assert text in page.text
