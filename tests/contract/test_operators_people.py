"""Operators who are people: e-mail addresses, links that set a password, own passwords, roles and sessions."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncIterator

import pytest

from oauth_scene import frozen_clock
from operator_calls import Operator, audited, operator
from operator_people import PASSWORD, begin_session, make_person, sign_in_page, signed_in
from page_scene import Browser
from paydesk.core.clock import MovableClock, rfc3339
from paydesk.core.errors import Refusal
from paydesk.core.secrets import digest
from paydesk.engine.sellers import passwords
from paydesk.operators.accounts.passwords import hashed
from paydesk.operators.accounts.store import Person
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Service, running

EMAIL = "ana@example.com"
EVA = {"name": "Eva", "role": "operator", "email": "Evaline@Shop.example"}
HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> MovableClock:
    """A clock that stands still."""
    return frozen_clock()


@pytest.fixture
async def service(database: Database, clock: MovableClock) -> AsyncIterator[Service]:
    """A service by that clock."""
    async with running(database, clock=clock, workers=False) as service:
        yield service


def _path(url: str) -> str:
    return url[url.index("/console/") :]


async def test_person_gets_a_link_instead_of_a_token(service: Service, clock: MovableClock) -> None:
    """The link is in no list and no audit entry, and only its digest is stored."""
    owner = await operator(service)
    made = await owner.did("POST", "operators", EVA)
    url, expires = made.pop("password_url"), made.pop("password_expires_date")
    assert "token" not in made
    assert (made["email"], made["has_token"], made["has_password"]) == ("evaline@shop.example", False, False)
    assert url.partition("=")[0].endswith("/console/password?link")
    assert expires == rfc3339(clock.now_ms() + 24 * HOUR_MS)
    assert (await owner.did("GET", f"operators/{made['operator_id']}")) == {**made, "link_expires_date": expires}
    token = url.partition("=")[2]
    assert len(token) == 44
    assert token not in str(await audited(service))
    rows = await service.database.read(lambda tx: tx.all("SELECT digest FROM operator_links"))
    assert [bytes(row[0]) for row in rows] == [digest(token)]


async def test_link_has_the_operators_address(database: Database) -> None:
    """Also where clients use another one, as in development."""
    settings = Settings(operator_public_url="http://127.0.0.1:2")
    async with running(database, settings=settings, workers=False, is_public=True) as service:
        owner = await operator(service)
        made = await owner.did("POST", "operators", EVA)
        link = await owner.did("POST", f"operators/{made['operator_id']}/password-link")
    assert made["password_url"].startswith("http://127.0.0.1:2/console/password?")
    assert link["url"].startswith("http://127.0.0.1:2/console/password?")


async def test_email_belongs_to_one_operator(service: Service) -> None:
    """Whatever its case, also in a change; one's own is accepted."""
    owner = await operator(service)
    made = await owner.did("POST", "operators", EVA)
    other = await owner.did("POST", "operators", {"name": "Ana", "role": "viewer"})
    assert await owner.refused("POST", "operators", {**EVA, "email": "EVALINE@shop.example"}) == (409, "email_taken")
    path = f"operators/{other['operator_id']}"
    assert await owner.refused("PATCH", path, {"email": "evaline@SHOP.example"}) == (409, "email_taken")
    assert (await owner.did("PATCH", path, {"email": "Ana@shop.example"}))["email"] == "ana@shop.example"
    same = await owner.did("PATCH", f"operators/{made['operator_id']}", {"email": "evaline@shop.example"})
    assert same["email"] == "evaline@shop.example"
    for email in ("eva", "e va@shop.example", "", 1, None):
        assert (await owner.ask("POST", "operators", {**EVA, "email": email})).status == 400, email


async def test_email_has_one_spelling_in_unicode(service: Service) -> None:
    """It belongs to one account, and signs in, whether its letters are sent composed or decomposed."""
    owner, composed = await operator(service), "jos\u00e9@shop.example"
    decomposed = unicodedata.normalize("NFD", composed)
    made = await owner.did("POST", "operators", {**EVA, "email": decomposed})
    assert made["email"] == composed
    assert await owner.refused("POST", "operators", {**EVA, "email": composed}) == (409, "email_taken")
    seller = {"name": "Shop", "email": decomposed.upper(), "country": "BRA", "currency": "BRL", "password": PASSWORD}
    assert (await owner.did("POST", "sellers", seller))["email"] == composed
    assert await owner.refused("POST", "sellers", {**seller, "email": composed}) == (409, "email_taken")
    assert await owner.refused("POST", "sellers", {**seller, "email": "a\u3164@shop.example"}) == (
        400,
        "property_value",
    )
    browser = Browser(service)
    assert (await browser.sign_in("/applications", email=decomposed, password=PASSWORD)).status == 303
    await make_person(service, email="ren\u00e9e@shop.example")
    assert (await sign_in_page(Browser(service), "rene\u0301e@shop.example")).status == 303


@pytest.mark.on_postgres
async def test_link_sets_the_password_once(service: Service) -> None:
    """The operator is then signed in; the link is not valid any more; the audit trail has no password."""
    owner = await operator(service)
    made = await owner.did("POST", "operators", EVA)
    path = _path(made["password_url"])
    eva = Browser(service)
    form = (await eva.get(path)).form(path)
    for bad in ("short", "passwordpassword", "the evaline@shop words"):
        page = await eva.submit(form, password=bad)
        assert page.status == 400, bad
        assert "The password must" in page.text
        assert "generated" not in page.text, "this page generates none"
    shown = await eva.submit(form, password=PASSWORD)
    assert shown.location == "/console"
    assert await signed_in(eva)
    assert (await owner.did("GET", f"operators/{made['operator_id']}"))["has_password"] is True
    assert (await eva.get(path)).status == 410
    again = await Browser(service).get(path)
    assert (again.status, again.forms) == (410, [])
    assert (await eva.submit(form, password="another good password here")).status == 410
    lines = await audited(service)
    assert [line.action for line in lines] == ["operators.create", "operators.password"]
    assert lines[1].operator_id == made["operator_id"]
    assert PASSWORD not in str(lines)


async def test_link_expires_after_a_day(service: Service, clock: MovableClock) -> None:
    """Also if the form was opened before."""
    owner = await operator(service)
    made = await owner.did("POST", "operators", EVA)
    eva = Browser(service)
    path = _path(made["password_url"])
    form = (await eva.get(path)).form(path)
    clock.advance(24 * HOUR_MS)
    assert (await eva.submit(form, password=PASSWORD)).status == 410
    assert (await eva.get("/console/password?link=PDL-" + "0" * 40)).status == 410
    assert (await eva.get("/console/password?link=x")).status == 410


@pytest.mark.on_postgres
async def test_newer_link_replaces_older_ones(service: Service) -> None:
    """Setting the password with it ends all sessions, and the operator's other links."""
    owner = await operator(service)
    eva = await make_person(service)
    session = Browser(service)
    await sign_in_page(session, eva.email)
    first = await owner.did("POST", f"operators/{eva.operator_id}/password-link")
    second = await owner.did("POST", f"operators/{eva.operator_id}/password-link")
    assert await signed_in(session), "a link alone changes nothing"
    assert (await Browser(service).get(_path(first["url"]))).status == 410
    shown = await owner.did("GET", f"operators/{eva.operator_id}")
    assert shown["link_expires_date"] == second["expires_date"]
    assert "last_used_date" in shown
    browser = Browser(service)
    path = _path(second["url"])
    form = (await browser.get(path)).form(path)
    assert (await browser.submit(form, password="quite different words in a row")).status == 303
    assert not await signed_in(session)
    assert (await sign_in_page(Browser(service), eva.email)).status == 403
    assert (await sign_in_page(Browser(service), eva.email, "quite different words in a row")).status == 303


async def test_link_ends_with_the_email_it_was_made_for(service: Service) -> None:
    """The link may have gone to another person; other changes leave it valid."""
    owner = await operator(service)
    made = await owner.did("POST", "operators", EVA)
    path, page = f"operators/{made['operator_id']}", _path(made["password_url"])
    await owner.did("PATCH", path, {"name": "Evaline", "email": EVA["email"]})
    assert (await Browser(service).get(page)).status == 200
    await owner.did("PATCH", path, {"email": "eve@shop.example"})
    assert (await Browser(service).get(page)).status == 410


async def test_links_are_for_valid_people(service: Service) -> None:
    """Not for a program or a revoked operator; only owners make them; revoking ends them."""
    owner, program = await operator(service), await operator(service, "operator")
    eva = await make_person(service)
    path = f"operators/{eva.operator_id}/password-link"
    reply = await owner.ask("POST", f"operators/{program.operator_id}/password-link")
    assert (reply.status, reply.code, "email" in reply.details[0]) == (409, "cannot_sign_in", True)
    assert await program.refused("POST", path) == (403, "forbidden")
    link = await owner.did("POST", path)
    await owner.did("POST", f"operators/{eva.operator_id}/revoke")
    assert await owner.refused("POST", path) == (409, "cannot_sign_in")
    assert (await Browser(service).get(_path(link["url"]))).status == 410
    assert await owner.refused("POST", "operators/01J67CQQH5904WDBVZEM4JMEP3/password-link") == (
        404,
        "operator_not_found",
    )


async def test_operator_changes_the_own_password(service: Service) -> None:
    """With the current one; all sessions end, and links too. A program has none."""
    owner = await operator(service)
    eva = await make_person(service)
    session = Operator(service, eva.operator_id, await begin_session(service, eva.operator_id))
    link = await owner.did("POST", f"operators/{eva.operator_id}/password-link")
    body = {"current_password": PASSWORD, "password": "quite different words in a row"}
    assert await session.refused("POST", "password", {**body, "current_password": "x"}) == (403, "wrong_password")
    for bad in ("short", "passwordpassword", PASSWORD):
        assert await session.refused("POST", "password", {**body, "password": bad}) == (400, "property_value")
    assert (await session.ask("POST", "password", body)).status == 204
    assert await session.refused("GET", "operators") == (401, "unauthorized")
    assert (await Browser(service).get(_path(link["url"]))).status == 410
    assert (await sign_in_page(Browser(service), eva.email)).status == 403
    assert await owner.refused("POST", "password", body) == (409, "cannot_sign_in")


@pytest.mark.parametrize(
    ("password", "rule"),
    [
        ("ana@example.com", "the e-mail address"),
        ("my ANA@EXAMPLE.COM words", "the e-mail address"),
        ("ana and her own shop", "before the @"),
        ("words of my ana-lima", "before the @"),
        ("an analima of words", "your name"),
        ("an Ana Lima of words", "your name"),
        ("bananas for the shop", None),
    ],
)
def test_password_has_nothing_of_its_operator(password: str, rule: str | None) -> None:
    """Neither the e-mail address, its local part nor the name; a short one may be a part of other words."""
    name, email = ("Ana Lima", "ana-lima@a.example") if "lima" in password.lower() else ("Ana", EMAIL)
    person = Person("", name, "owner", email, None, None)
    if rule is None:
        assert asyncio.run(hashed(password, person)).startswith("$argon2id$")
        return
    with pytest.raises(Refusal) as refused:
        asyncio.run(hashed(password, person))
    assert rule in refused.value.details[0]


async def test_own_password_changes_during_a_flood_of_sign_ins(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sign-ins of unknown origin, also those of sellers, leave room in the queue of hashes."""
    eva = await make_person(service)
    session = Operator(service, eva.operator_id, await begin_session(service, eva.operator_id))
    monkeypatch.setattr(passwords, "UNKNOWN_ORIGIN_QUEUE_MAX", 0)
    body = {"current_password": PASSWORD, "password": "quite different words in a row"}
    assert (await session.ask("POST", "password", body)).status == 204


async def test_wrong_own_passwords_are_throttled(database: Database) -> None:
    """As sign-ins: a stolen session can't guess the password."""
    async with running(database, settings=Settings(sign_in_failures_per_hour=2), workers=False) as service:
        eva = await make_person(service)
        session = Operator(service, eva.operator_id, await begin_session(service, eva.operator_id))
        body = {"current_password": "x", "password": "quite different words in a row"}
        for _ in range(2):
            assert await session.refused("POST", "password", body) == (403, "wrong_password")
        reply = await session.ask("POST", "password", {**body, "current_password": PASSWORD})
        assert (reply.status, reply.code) == (429, "too_many_requests")
        assert int(reply.headers["retry-after"]) > 0


@pytest.mark.on_postgres
async def test_sessions_are_listed_and_ended(service: Service) -> None:
    """One's own by every role; those of others by owners alone."""
    owner, eva = await operator(service), await make_person(service, "viewer")
    tokens = [await begin_session(service, eva.operator_id) for _ in range(2)]
    first, second = (Operator(service, eva.operator_id, token) for token in tokens)
    foreign = Operator(service, owner.operator_id, await begin_session(service, owner.operator_id))
    listed = (await first.did("GET", "sessions"))["data"]
    assert len(listed) == 2
    assert [one["session_id"] for one in listed] == sorted((one["session_id"] for one in listed), reverse=True)
    assert sorted(one["current"] for one in listed) == [False, True]
    assert {one["operator_id"] for one in listed} == {eva.operator_id}
    assert tokens[0] not in str(listed)
    for query in ("all", owner.operator_id):
        assert await first.refused("GET", f"sessions?operator={query}") == (403, "forbidden")
        assert await first.refused("DELETE", f"sessions?operator={query}") == (403, "forbidden")
    assert len((await first.did("GET", f"sessions?operator={eva.operator_id.lower()}"))["data"]) == 2
    everyone = (await owner.did("GET", "sessions?operator=all"))["data"]
    assert len(everyone) == 3
    paged = await owner.did("GET", "sessions?operator=all&limit=2")
    rest = await owner.did("GET", f"sessions?operator=all&limit=2&after={paged['next']}")
    assert paged["data"] + rest["data"] == everyone
    assert (await owner.did("GET", "sessions"))["data"] == everyone
    (of_owner,) = (await owner.did("GET", f"sessions?operator={owner.operator_id}"))["data"]
    assert (of_owner["operator_id"], of_owner["current"]) == (owner.operator_id, False)
    assert await first.refused("DELETE", f"sessions/{of_owner['session_id']}") == (403, "forbidden")
    other = next(one["session_id"] for one in listed if not one["current"])
    assert (await first.ask("DELETE", f"sessions/{other.lower()}")).status == 204
    assert await second.refused("GET", "sessions") == (401, "unauthorized")
    assert await first.refused("DELETE", f"sessions/{other}") == (404, "session_not_found")
    assert await owner.did("DELETE", "sessions?operator=all") == {"ended": 2}
    assert await owner.did("DELETE", "sessions?operator=all") == {"ended": 0}
    for session in (first, foreign):
        assert await session.refused("GET", "sessions") == (401, "unauthorized")
    assert await owner.refused("GET", "sessions?operator=ana") == (400, "property_value")
    lines = [line for line in await audited(service) if line.action == "sessions.end"]
    assert [(line.operator_id, line.subject) for line in lines[:1]] == [(eva.operator_id, other)]
    assert len(lines) == 3


@pytest.mark.on_postgres
async def test_session_ends_without_use_and_after_12_hours(service: Service, clock: MovableClock) -> None:
    """It stays ended, as if the clock were set back, and is in no list."""
    owner, eva = await operator(service), await make_person(service)
    session = Operator(service, eva.operator_id, await begin_session(service, eva.operator_id))
    clock.advance(30 * 60_000 - 1)
    assert len((await session.did("GET", "sessions"))["data"]) == 1
    clock.advance(1)
    assert await session.refused("GET", "sessions") == (401, "unauthorized")
    assert (await owner.did("GET", "sessions?operator=all"))["data"] == []
    await service.scene.run("UPDATE operator_sessions SET used_ms = $1", clock.now_ms())
    assert await session.refused("GET", "sessions") == (401, "unauthorized")
    browser = Browser(service)
    await sign_in_page(browser, eva.email)
    began_ms = clock.now_ms()
    while await signed_in(browser):
        clock.advance(29 * 60_000)
    assert 12 * HOUR_MS <= clock.now_ms() - began_ms < 12.5 * HOUR_MS


async def test_revoked_operator_has_no_session(service: Service) -> None:
    """All sessions end at once, also in a browser."""
    owner, eva = await operator(service), await make_person(service)
    browser = Browser(service)
    await sign_in_page(browser, eva.email)
    assert await signed_in(browser)
    await owner.did("POST", f"operators/{eva.operator_id}/revoke")
    assert not await signed_in(browser)
    assert (await sign_in_page(Browser(service), eva.email)).status == 403
    ended = await service.database.read(lambda tx: tx.all("SELECT 1 FROM operator_sessions WHERE ended_ms IS NULL"))
    assert ended == []


@pytest.mark.on_postgres
async def test_deleted_operator_leaves_nothing(service: Service) -> None:
    """Neither sessions nor links."""
    owner = await operator(service)
    made = await owner.did("POST", "operators", EVA)
    await begin_session(service, made["operator_id"])
    assert (await owner.ask("DELETE", f"operators/{made['operator_id']}")).status == 204
    for table in ("operator_sessions", "operator_links"):
        assert await service.scene.value(f"SELECT COUNT(*) FROM {table}") == 0


@pytest.mark.on_postgres
async def test_viewers_only_read(service: Service) -> None:
    """They change nothing and send nothing again; support sends again."""
    viewer, support = await operator(service, "viewer"), await operator(service, "support")
    await viewer.did("GET", "operators")
    unknown = "0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51.0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51"
    for path, body in (
        (f"deliveries/{unknown}/resend", None),
        ("deliveries/replay", {"order": "ORD01J67CQQH5904WDBVZEM4JMEP3"}),
    ):
        reply = await viewer.ask("POST", path, body)
        assert (reply.status, reply.code) == (403, "forbidden")
        assert reply.body["message"] == "Your role, viewer, may only read."
        assert (await support.ask("POST", path, body)).status == 404
    store = {"seller_id": service.seller_id, "name": "Centro"}
    for one in (viewer, support):
        assert await one.refused("POST", "stores", store) == (403, "forbidden")
