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
from paydesk.operation import Operation
from paydesk.storage.database import Database
from paydesk.web import hints

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


async def test_every_page_forbids_frames_caches_and_foreign_scripts(made: World) -> None:
    """Also its fragment, and the pages before sign-in."""
    browser = await made.console()
    shown = [(path, await browser.get(path)) for one in pages() for path in made.paths(one)]
    fragments = [(path, await browser.get(path, HX_Request="true")) for one in pages() for path in made.paths(one)]
    unknown = Browser(made.service)
    before = [(path, await unknown.get(path)) for path in ("/console/sign-in", "/console/password?link=PDL-0")]
    for path, page in (*shown, *before, *fragments):
        assert page.headers["cache-control"] == "no-store", path
        assert page.headers["x-frame-options"] == "DENY", path
        assert page.headers["x-content-type-options"] == "nosniff", path
        assert page.headers["referrer-policy"] == "no-referrer", path
    for path, page in (*shown, *before):
        assert page.status in (200, 303, 410), (path, page.status)
        if page.status == 303:
            continue
        policy = page.headers["content-security-policy"]
        assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} <= set(
            policy.split("; ")
        ), path
        assert "unsafe" not in policy, path
        assert page.headers["cross-origin-opener-policy"] == "same-origin", path


async def test_no_page_has_inline_scripts_or_styles(made: World) -> None:
    """The policy would block them, and the page would not work."""
    browser = await made.console()
    for one in pages():
        for path in made.paths(one):
            page = await browser.get(path)
            for tag, given in page.tags:
                assert tag not in ("style", "iframe", "object", "embed"), (path, tag)
                assert tag != "script" or given["src"].startswith("/pages/assets/"), (path, given)
                inline = [name for name in given if name.startswith(("on", "hx-on", "hx-live")) or name == "style"]
                assert not inline, (path, tag, inline)


async def test_no_page_has_a_token(made: World) -> None:
    """Neither of operators, applications nor terminals; only the token of the forms, which is bound to the session."""
    browser = await made.console()
    (session,) = (value for name, value in browser.cookies.items() if name.startswith(SESSION))
    for one in pages():
        for path in made.paths(one):
            html = (await browser.get(path)).html
            assert session not in html, path
            assert SECRETS.findall(html) == [], path


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


async def test_opening_pages_changes_nothing(made: World) -> None:
    """No GET acts, so that a link or an image of another site cannot act either; exports are recorded, as reads."""
    browser = await made.console()
    before = await state(made.service.database)
    for one in screens():
        for path in made.paths(one):
            page = await browser.get(path, Sec_Fetch_Site="cross-site")
            assert page.status in (200, 303), (path, page.status)
    for path in ("/console/sign-out", "/console/enter"):
        await browser.get(path)
    await made.service.scene.run("DELETE FROM operator_audit WHERE action = 'orders.export'")
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


@pytest.mark.parametrize("role", ROLES_BY_HAND)
async def test_forms_sent_by_hand_are_refused(made: World, role: str) -> None:
    """403 with the reason, for each form that the role has no button for; nothing changes."""
    browser = await made.console(role)
    before = await state(made.service.database)
    for one in forms():
        for path in made.paths(one):
            if is_permitted(role, path):
                continue
            page = await browser.send(path, reason="by hand", amount="1.00", outcome="approved", confirm="yes")
            assert page.status == 403, (path, page.status, page.text)
            assert f"Your role, {role}, may not do this." in page.text, path
            assert (await browser.get(path)).status == 403, f"{path}: the form itself"
    assert await state(made.service.database) == before


@pytest.mark.parametrize("role", ROLES_BY_HAND)
async def test_pages_link_no_form_that_the_role_may_not_send(made: World, role: str) -> None:
    """On no screen; all screens are readable."""
    browser = await made.console(role)
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
                assert not offered or is_permitted(role, target), (path, target)


# Sessions that end. ---------------------------------------------------------------------------------------------------


@pytest.fixture
def quick_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let streams check their sessions at once."""
    monkeypatch.setattr(hints, "COMMENT_SECONDS", 0.1)


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
        async with asyncio.timeout(5):
            while await stream.content.readany():
                pass
    before = await state(made.service.database)
    assert (await browser.get("/console/orders")).location.startswith("/console/sign-in?return_to=")
    fragment = await browser.get("/console/orders", HX_Request="true")
    assert (fragment.status, fragment.html) == (401, "")
    assert (await browser.submit(form, reason="Too late")).location.startswith("/console/sign-in")
    assert (await browser.get("/console/events")).status == 303
    assert await state(made.service.database) == before
