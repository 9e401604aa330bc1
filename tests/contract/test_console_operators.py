"""The console's screens of operators: who there is, what an owner does about them, and their sessions."""

from __future__ import annotations

import re
import urllib.parse

import pytest
import structlog

from console_scene import ROLES, Console, alert_of, console, links, main_of, part_of
from operator_calls import Operator, audited
from operator_people import begin_session
from page_scene import Browser, Page
from service import Service

HERE = "/console/operators"
EVA = {"name": "Eva Prado", "email": "eva@shop.example", "role": "viewer"}
NOT_OWNERS = ROLES[1:]
PASSWORD = "quite different words in a row"


@pytest.fixture
async def owner(service: Service) -> Console:
    """The browser of an owner."""
    return await console(service)


def secret_of(page: Page) -> str:
    """Return the link or the token that the page shows."""
    assert page.status == 200, (page.status, page.text)
    return part_of(page, "id", "secret")


async def added(owner: Console, **fields: str) -> str:
    """Add a person, and return the path of the page."""
    secret_of(await owner.act(f"{HERE}/add-person", **{**EVA, **fields}))
    return await path_of(owner, {**EVA, **fields}["email"])


async def path_of(owner: Console, email: str) -> str:
    """Return the path of the page of the person with this e-mail address."""
    assert owner.operator is not None
    listed = (await owner.operator.did("GET", "operators"))["data"]
    (person,) = [one for one in listed if one.get("email") == email]
    return f"{HERE}/{person['operator_id']}"


async def test_owner_without_a_token_adds_a_person(service: Service, owner: Console) -> None:
    """The link is shown once, sets a password and signs in; the new person then is active."""
    with structlog.testing.capture_logs() as logged:
        page = await owner.act(f"{HERE}/add-person", **EVA)
        url = secret_of(page)
    assert re.fullmatch(r"http://[^/]+/console/password\?link=PDL-[0-9a-f]{40}", url)
    assert "It is valid once, until" in main_of(page)
    assert any(given.get("data-copy") == url for _, given in page.tags)
    token = url.partition("link=")[2]
    assert token not in str(logged)
    assert token not in str(page.headers)
    assert token not in str(await audited(service))
    assert await service.scene.value("SELECT COUNT(*) FROM recorded_requests") == 0
    path = await path_of(owner, EVA["email"])
    assert path in links(await owner.open(HERE))
    shown = await owner.open(path)
    assert "Link open" in main_of(shown)
    assert token not in shown.html
    eva, link = Browser(service), f"/console/password?link={token}"
    form = (await eva.get(link)).form(link)
    assert (await eva.submit(form, password=PASSWORD)).location == "/console"
    shown = await owner.open(path)
    assert "Active" in main_of(shown)
    assert "Python 127.0.0.1" in main_of(shown)
    assert "Set the password of operator Eva Prado" in main_of(shown)
    assert f"{path}/sessions/end" in links(shown)


async def test_owner_adds_a_program(service: Service, owner: Console) -> None:
    """Its token is shown once and works."""
    page = await owner.act(f"{HERE}/add-program", name="Deploy script", role="support")
    program = Operator(service, "", secret_of(page))
    assert (await program.did("GET", "operators"))["data"]
    shown = main_of(await owner.open(HERE))
    assert "Deploy script Active support program, with a token" in shown
    assert program.token not in shown


async def test_operator_is_changed(owner: Console) -> None:
    """Only what differs is sent; a taken address, and none for a person, is refused in the form."""
    path = await added(owner)
    assert await owner.done(f"{path}/change") == "Nothing has changed."
    assert await owner.done(f"{path}/change", role="operator", name="Eva") == "Eva is changed."
    assert "Eva" in main_of(await owner.open(path))
    assert (await owner.refused(f"{path}/change", email="", name="Eva 2"))[0] == 400
    other = await added(owner, name="Rita", email="rita@shop.example")
    status, reason = await owner.refused(f"{other}/change", email=EVA["email"])
    assert (status, "must not be another operator's" in reason) == (409, True)


async def test_a_program_becomes_a_person(owner: Console) -> None:
    """It gets an e-mail address in the form in which it has none."""
    page = await owner.act(f"{HERE}/add-program", name="Till", role="viewer")
    (path,) = {href for href in links(page) if href.startswith(f"{HERE}/01")}
    assert await owner.done(f"{path}/change", email="till@shop.example") == "Till is changed."
    assert "till@shop.example" in main_of(await owner.open(path))


async def test_new_link_replaces_the_first(service: Service, owner: Console) -> None:
    """And is shown once."""
    first = secret_of(await owner.act(f"{HERE}/add-person", **EVA))
    second = secret_of(await owner.act(f"{await path_of(owner, EVA['email'])}/link"))
    for url, status in ((first, 410), (second, 200)):
        target = urllib.parse.urlsplit(url)
        assert (await Browser(service).get(f"{target.path}?{target.query}")).status == status


async def test_operator_is_revoked_or_deleted(service: Service, owner: Console) -> None:
    """The page of one that was revoked has no further action, but the deletion of one that has changed nothing."""
    path = await added(owner)
    assert await owner.done(f"{path}/revoke") == "Eva Prado is revoked."
    page = await owner.open(path)
    assert "Revoked" in main_of(page)
    assert {href for href in links(page) if href.startswith(f"{path}/")} == {f"{path}/delete"}
    assert await owner.done(f"{path}/delete") == "Eva Prado is deleted."
    assert (await owner.get(path)).status == 404
    author = await console(service)
    await added(author)
    assert author.operator is not None
    own = f"{HERE}/{author.operator.operator_id}"
    assert f"{own}/delete" not in links(await owner.open(own))
    assert (await owner.refused(f"{own}/delete"))[0] == 409


async def test_last_owner_is_not_revoked(owner: Console) -> None:
    """Also if another owner has not opened the link; the form says why."""
    await added(owner, role="owner")
    assert owner.operator is not None
    path = f"{HERE}/{owner.operator.operator_id}"
    status, reason = await owner.refused(f"{path}/revoke")
    assert (status, "No other owner has a token or a password" in reason) == (409, True)
    assert "This is your own account." in main_of(await owner.open(f"{path}/revoke"))


@pytest.mark.parametrize("role", NOT_OWNERS)
async def test_others_see_operators_and_change_none(service: Service, owner: Console, role: str) -> None:
    """No buttons and no sessions of others; forms by hand get 403, and nothing changes."""
    path = await added(owner)
    other = await console(service, role)
    assert other.operator is not None
    assert owner.operator is not None
    listed, shown = await other.open(HERE), await other.open(path)
    assert "Eva Prado" in main_of(listed)
    assert "Signed in" not in main_of(listed)
    assert f"Your role is {role}" in main_of(listed)
    assert not [
        href for href in (*links(listed), *links(shown)) if re.search(r"add-|/(change|link|revoke|delete|end)$", href)
    ]
    assert "Sessions" not in main_of(shown)
    session = (await owner.operator.did("GET", f"sessions?operator={owner.operator.operator_id}"))["data"][0][
        "session_id"
    ]
    before = await audited(service)
    for form in (
        f"{HERE}/add-person",
        f"{HERE}/add-program",
        f"{HERE}/sessions/{session}/end",
        *(f"{path}/{name}" for name in ("change", "link", "revoke", "delete", "sessions/end")),
        f"{HERE}/{owner.operator.operator_id}/sessions/{session}/end",
    ):
        assert (await other.get(form)).status == 403, form
        page = await other.send(form, **EVA)
        assert (page.status, f"Your role, {role}, may not do this." in page.text) == (403, True), form
    assert await audited(service) == before
    number = other.operator.operator_id
    await service.scene.run("UPDATE operators SET email = 'sue@shop.example' WHERE operator_id = $1", number)
    await begin_session(service, number)
    own = links(await other.open(f"{HERE}/{number}"))
    assert "/console/account" in own
    (end,) = [href for href in own if href.endswith("/end")]
    assert await other.done(end) == "Your session has ended."


async def test_sessions_are_listed_and_ended(service: Service, owner: Console) -> None:
    """With the browser's name and the operator; the notice says how many have ended."""
    other = await console(service, "support")
    assert other.operator is not None
    await service.scene.run(
        "UPDATE operators SET email = 'sue@shop.example' WHERE operator_id = $1", other.operator.operator_id
    )
    path = f"{HERE}/{other.operator.operator_id}"
    shown = main_of(await owner.open(HERE))
    assert "Firefox on Linux this one" in shown
    assert "Firefox on Linux a support 127.0.0.1" in shown
    (end,) = [href for href in links(await owner.open(path)) if "/sessions/0" in href]
    form = main_of(await owner.open(end))
    assert "End the session of a support" in form
    assert "Firefox on Linux, signed in from 127.0.0.1, last used" in form
    assert await owner.done(end) == "The session of a support has ended."
    assert (await other.get("/console/orders")).status == 303
    for _ in range(2):
        await begin_session(service, other.operator.operator_id)
    assert await owner.done(f"{path}/sessions/end") == "2 sessions of a support have ended."
    await owner.open(end, 404)
    assert (await owner.send(end)).status == 404
    await begin_session(service, other.operator.operator_id)
    (of_all,) = [href for href in links(await owner.open(HERE)) if href.startswith(f"{HERE}/sessions/")]
    assert await owner.done(of_all) == "The session of a support has ended."


async def test_account_has_the_own_sessions_and_leads_to_operators(service: Service, owner: Console) -> None:
    """Those of others are with the operators."""
    await console(service, "support")
    page = await owner.open("/console/account")
    assert "a support" not in main_of(page)
    assert "Firefox on Linux this one" in main_of(page)
    assert {HERE, "/console/audit"} <= set(links(page))


async def test_refused_password_keeps_the_link(service: Service, owner: Console) -> None:
    """The address of the refusal opens the form again."""
    url = secret_of(await owner.act(f"{HERE}/add-person", **EVA))
    link = url[url.index("/console/") :]
    eva = Browser(service)
    form = (await eva.get(link)).form(link)
    page = await eva.submit(form, password="eva@shop.example")
    assert (page.status, "must not contain the e-mail address" in alert_of(page)) == (400, True)
    assert page.form(link).action == link
    assert (await eva.get(form.action)).status == 200


async def test_sign_in_page_says_what_ended_the_session(service: Service) -> None:
    """Once: after signing out everywhere."""
    browser = await console(service, "viewer")
    page = await browser.act("/console/account/sessions/end")
    assert "You are signed out everywhere." in (await browser.open(page.location)).text
    assert "You are signed out everywhere." not in (await browser.open(page.location)).text
