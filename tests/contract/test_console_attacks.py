"""Attacks on the console: forms of other sites, frames, planted sessions, requests by hand that a role may not make.

Each goes through all screens and forms that the service has, so that a new one is attacked as well.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher

from console_scene import Console
from console_world import PASSWORD, World, forms, screens, world
from page_scene import Browser, Page
from paydesk.console.request import SESSION
from paydesk.platform.operation import Operation
from paydesk.platform.storage.database import Database
from paydesk.platform.web import event_streams
from waiting import HANGS_SECONDS

KEPT = (
    "operator_audit", "operators", "sellers", "applications", "application_secrets", "stores", "pos", "subscriptions",
    "subscription_secrets", "orders", "refunds", "terminal_owners", "print_actions", "clock_settings",
)  # fmt: skip
"""The tables that an operator's change changes; what workers write by themselves is not compared."""
OWN = ("/console/account/", "/console/sign-out")
"""Every operator may end a session of their own and change their password."""
CHECKS = "/verify"
"""Forms that change nothing, for every role."""
RESENT = ("resend", "replay", "send-to")
"""Support may send notifications again."""
ROLES_BY_HAND = ("viewer", "support")
SECRETS = re.compile(r"\b(?:PD[A-Z]-[0-9a-f]{8}|whsec_\w|APP_USR-\d|TEST-\d|TG-[0-9a-f])")


@pytest.fixture
async def made(database: Database, tmp_path: Path) -> AsyncIterator[World]:
    """Yield a service with one of everything."""
    async with world(database, tmp_path) as made:
        yield made


async def state(database: Database) -> dict[str, list[Any]]:
    """Return what operators can change, and which sessions have ended."""

    async def read(tx: Any) -> dict[str, list[Any]]:
        found = {name: sorted(map(repr, map(tuple, await tx.all(f"SELECT * FROM {name}")))) for name in KEPT}
        ended = await tx.all("SELECT session_id FROM operator_sessions WHERE ended_ms IS NOT NULL ORDER BY 1")
        return {**found, "sessions": [row[0] for row in ended]}

    return await database.read(read)


def pages() -> list[Operation]:
    """Return the screens that are HTML."""
    return [one for one in screens() if one.media_type.startswith("text/html")]


def is_permitted(role: str, path: str) -> bool:
    """Return whether a role that does not change orders may send this form."""
    return path.startswith(OWN) or path.endswith(CHECKS) or (role == "support" and any(word in path for word in RESENT))


# What every page has. -------------------------------------------------------------------------------------------------


def open_to_attacks(path: str, page: Page, session: str) -> dict[str, Any]:
    """Return by path what other sites or people could use: missing headers, inline scripts and styles, tokens."""
    expected = {
        "cache-control": "no-store",
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }
    found: list[Any] = [
        (name, page.headers.get(name)) for name, value in expected.items() if page.headers.get(name) != value
    ]
    # The policy would block them, and the page would not work.
    for tag, given in page.tags:
        inline = [name for name in given if name.startswith(("on", "hx-on", "hx-live")) or name == "style"]
        is_foreign = tag == "script" and not given["src"].startswith("/pages/assets/")
        if inline or is_foreign or tag in ("style", "iframe", "object", "embed"):
            found.append((tag, given))
    # The token of the forms is bound to the session, and may be there.
    found += SECRETS.findall(page.html) + [session] * (session in page.html)
    return {path: found} if found else {}


def lacks_a_policy(path: str, page: Page) -> dict[str, Any]:
    """Return by path what is wrong with the status of a whole page or with its policy."""
    if page.status == 303:
        return {}
    policy = page.headers.get("content-security-policy", "")
    needed = {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"}
    opener = page.headers.get("cross-origin-opener-policy")
    is_strict = needed <= set(policy.split("; ")) and "unsafe" not in policy and opener == "same-origin"
    return {} if is_strict and page.status in (200, 410) else {path: (page.status, policy, opener)}


async def test_every_page_is_closed_to_attacks(made: World) -> None:
    """Also its fragment, and the pages before sign-in.

    No frame, no cache, no foreign or inline script, no token. No GET acts, so that a link or an image of another site
    cannot act either; exports are recorded, as reads.
    """
    browser = await made.console()
    before = await state(made.service.database)
    (session,) = (value for name, value in browser.cookies.items() if name.startswith(SESSION))
    failed: dict[str, Any] = {}
    for one in pages():
        for path in made.paths(one):
            page, fragment = await browser.get(path), await browser.get(path, HX_Request="true")
            failed |= open_to_attacks(path, page, session) | lacks_a_policy(path, page)
            failed |= open_to_attacks(f"{path}, a fragment", fragment, session)
    unknown = Browser(made.service)
    for path in ("/console/sign-in", "/console/password?link=PDL-0"):
        page = await unknown.get(path)
        failed |= open_to_attacks(path, page, session) | lacks_a_policy(path, page)
    for path in [next(made.paths(one)) for one in screens()]:
        page = await browser.get(path, Sec_Fetch_Site="cross-site")
        failed |= {} if page.status in (200, 303) else {f"{path}, from elsewhere": page.status}
    for path in ("/console/sign-out", "/console/enter"):
        await browser.get(path)
    assert failed == {}
    await made.service.scene.run("DELETE FROM operator_audit WHERE action = 'orders.export'")
    assert await state(made.service.database) == before
    await browser.open("/console")


# Forms of other sites. ------------------------------------------------------------------------------------------------


async def sent_from_elsewhere(browser: Console, other: Console, path: str) -> dict[str, Page]:
    """Return the answers to the form as other sites can send it."""
    good = {"form_token": browser.form_token, "reason": "forged"}
    return {
        "no token": await browser.post(path, {"reason": "forged"}),
        "empty token": await browser.post(path, {**good, "form_token": ""}),
        "token of another session": await browser.post(path, {**good, "form_token": other.form_token}),
        "foreign origin": await browser.post(path, good, Origin="https://evil.example"),
        "cross-site": await browser.post(path, good, Sec_Fetch_Site="cross-site"),
        "same-site": await browser.post(path, good, Sec_Fetch_Site="same-site"),
        "as text": await browser.post(path, good, Content_Type="text/plain"),
    }


async def test_forms_of_other_sites_change_nothing(made: World) -> None:
    """By token, origin and Sec-Fetch-Site, each on its own; whatever the form."""
    browser, other = await made.console(), await made.console()
    before = await state(made.service.database)
    for one in forms():
        path = next(made.paths(one))
        for name, page in (await sent_from_elsewhere(browser, other, path)).items():
            assert page.status in (400, 403, 415), (path, name, page.status)
    assert await state(made.service.database) == before
    await browser.open("/console")


async def test_a_planted_session_is_not_the_one_after_sign_in(made: World) -> None:
    """Neither an invented token nor one of another's session: a new token is made, and the planted session ends."""
    service, password = made.service, PasswordHasher().hash(PASSWORD)
    sql = "UPDATE operators SET email = $2, password = $3 WHERE operator_id = $1"
    await service.scene.run(sql, made.owner.operator_id, "ada@shop.example", password)
    attacker = await made.console("viewer")
    (name,) = (name for name in attacker.cookies if name.startswith(SESSION))
    for planted in (f"PDS-{'0' * 40}", attacker.cookies[name]):
        victim = Browser(service)
        form = (await victim.get("/console/sign-in")).form("/console/sign-in")
        victim.cookies[name] = planted
        await victim.submit(form, email="ada@shop.example", password=PASSWORD)
        assert victim.cookies[name] not in ("", planted)
        assert "a owner" in (await victim.get("/console")).html
        assert (await Browser(service, cookies={name: planted}).get("/console")).status == 303


# What a role may not do. ----------------------------------------------------------------------------------------------


async def test_forms_sent_by_hand_are_refused(made: World) -> None:
    """403 with the reason, for each form that the role has no button for; nothing changes."""
    browsers = {role: await made.console(role) for role in ROLES_BY_HAND}
    before = await state(made.service.database)
    for role, browser in browsers.items():
        for path in [next(made.paths(one)) for one in forms()]:
            if is_permitted(role, path):
                continue
            page = await browser.send(path, reason="by hand", amount="1.00", outcome="approved", confirm="yes")
            assert page.status == 403, (role, path, page.status, page.text)
            assert f"Your role, {role}, may not do this." in page.text, (role, path)
            assert (await browser.get(path)).status == 403, f"{role}, {path}: the form itself"
        await shows_no_form_that_it_may_not_send(made, browser, role)
    assert await state(made.service.database) == before


async def shows_no_form_that_it_may_not_send(made: World, browser: Console, role: str) -> None:
    """On no screen; all screens are readable."""
    patterns = [re.compile(re.sub(r"\\{\w+\\}|{\w+}", "[^/]+", re.escape(one.path)) + "$") for one in forms()]
    sent_from = {one.path for one in forms()}
    for one in pages():
        if one.path in sent_from:
            continue
        for path in made.paths(one):
            page = await browser.open(path)
            linked = {given.get("href", given.get("action", "")).partition("?")[0] for _, given in page.tags}
            for target in linked:
                offered = any(pattern.match(target) for pattern in patterns)
                assert not offered or is_permitted(role, target), (role, path, target)


# Sessions that end. ---------------------------------------------------------------------------------------------------


@pytest.fixture
def quick_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let streams check their sessions at once."""
    monkeypatch.setattr(event_streams, "COMMENT_SECONDS", 0.1)


async def end(made: World, browser: Console, how: str) -> None:
    """End the session of the browser."""
    assert browser.operator is not None
    operator_id = browser.operator.operator_id
    if how == "revoked":
        await made.owner.did("POST", f"operators/{operator_id}/revoke")
        return
    listed = (await made.owner.did("GET", f"sessions?operator={operator_id}"))["data"]
    reply = await made.owner.ask("DELETE", f"sessions/{listed[0]['session_id']}")
    assert reply.status in (200, 204)


@pytest.mark.usefixtures("quick_comments")
@pytest.mark.parametrize("how", ["revoked", "session ended"])
async def test_an_ended_session_shows_nothing_more(made: World, how: str) -> None:
    """The next request leads to sign-in, with and without script; the stream ends; a form does nothing."""
    browser = await made.console("operator")
    headers = {"Cookie": browser.cookie}
    path = f"/console/orders/{made.orders['created']}/cancel"
    form = (await browser.open(path)).form(path)
    async with made.service.session.get(f"{made.service.base_url}/console/events", headers=headers) as stream:
        assert stream.status == 200
        await end(made, browser, how)
        async with asyncio.timeout(HANGS_SECONDS):
            while await stream.content.readany():
                pass
    before = await state(made.service.database)
    assert (await browser.get("/console/orders")).location.startswith("/console/sign-in?return_to=")
    fragment = await browser.get("/console/orders", HX_Request="true")
    assert (fragment.status, fragment.html) == (401, "")
    assert (await browser.submit(form, reason="Too late")).location.startswith("/console/sign-in")
    assert (await browser.get("/console/events")).status == 303
    assert await state(made.service.database) == before
