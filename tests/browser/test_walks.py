"""A seller authorizes an application, from its page and back, in each language and without JavaScript."""

from __future__ import annotations

from dataclasses import replace

import pytest

from browser.conftest import Open
from browser.shop import APPLICATION, NAME, Shop
from browser.visit import Visit

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOUR_MS = 3_600_000
SCOPES = ("read", "write", "offline_access")
# What a seller must be able to read; the rest is the pages' own words.
BY_HEART = {
    "pt": ("Entrar", "Senha", "Permitir", "Não permitir"),
    "es": ("Iniciar sesión", "Contraseña", "Permitir", "No permitir"),
    "en": ("Sign in", "Password", "Allow", "Don't allow"),
}


async def signed_in(window: Visit) -> None:
    """The seller has signed in and is asked to agree."""
    await window.ask()
    await window.sign_in()
    await window.sees("consent.title", application=APPLICATION)


async def agreed(window: Visit) -> None:
    """The seller is back at the application, which may act for them."""
    await signed_in(window)
    await window.press("consent.agree")
    await window.arrive()


async def test_agree(visit: Open, shop: Shop, language: str) -> None:
    """The seller signs in, reads the request, agrees, and the application gets tokens for the code.

    The pages are in the language that the browser prefers, and declare it.
    """
    window = await visit(language)
    by_role = window.page.get_by_role
    sign_in, password, agree, refuse = BY_HEART[language]
    await window.ask(scope="read write")
    await window.sees("sign_in.title")
    assert await window.page.locator("html").get_attribute("lang") == language
    await window.page.get_by_label(password, exact=True).wait_for()
    await by_role("button", name=sign_in, exact=True).wait_for()
    await window.sign_in()
    await by_role("button", name=agree, exact=True).wait_for()
    await by_role("button", name=refuse, exact=True).wait_for()
    await window.sees("consent.title", application=APPLICATION)
    await window.reads("scope.read")
    await window.reads("scope.write")
    await window.reads("consent.everything")
    assert await window.page.get_by_text(window.words("scope.offline_access")).count() == 0
    await window.page.get_by_text("localhost").first.wait_for()
    await window.press("consent.agree")
    came = await window.arrive()
    assert came.keys() == {"code", "state", "iss"}
    assert came["state"] == "a state & more"
    tokens = await shop.tokens()
    assert (tokens["scope"], tokens["user_id"]) == ("read write", shop.service.seller_id)


async def test_refuse(visit: Open, language: str) -> None:
    """The seller refuses, and the application gets `access_denied` with a description, and no code."""
    window = await visit(language)
    await signed_in(window)
    for scope in SCOPES:
        await window.reads(f"scope.{scope}")
    await window.press("consent.refuse")
    came = await window.arrive()
    assert came["error"] == "access_denied"
    assert came["state"] == "a state & more"
    assert "code" not in came


async def test_wrong_password(visit: Open, shop: Shop, language: str) -> None:
    """The notice is beside the form, which keeps the address; the right password leads to the consent page."""
    window = await visit(language)
    await window.ask()
    await window.sign_in("wrong")
    await window.reads("sign_in.failed")
    email = window.page.get_by_label(window.words("sign_in.email"), exact=True)
    password = window.page.get_by_label(window.words("sign_in.password"), exact=True)
    assert await email.input_value() == "ana@aurora.example"
    assert await password.input_value() == ""
    assert shop.receiver.received == []
    await window.sign_in()
    await window.sees("consent.title", application=APPLICATION)


async def test_wrong_requests(visit: Open, shop: Shop, language: str) -> None:
    """None goes to an unregistered redirect URI, nor for an unknown application; other faults are sent back to it."""
    window = await visit(language)
    for wrong in (f"{shop.receiver.redirect_uri}/", "http://localhost:9/callback"):
        await window.ask(redirect_uri=wrong)
        await window.sees("error.unregistered_address.title")
        assert window.page.url.startswith(shop.service.base_url)
    await window.ask(client_id="1")
    await window.sees("error.unknown_application.title")
    assert shop.receiver.received == []
    await window.ask(scope="everything")
    came = await window.arrive()
    assert (came["error"], came["state"]) == ("invalid_scope", "a state & more")


async def test_expired_session(visit: Open, shop: Shop, language: str) -> None:
    """A seller who left the consent page open for too long signs in again and can still agree."""
    window = await visit(language)
    await signed_in(window)
    shop.clock.advance(31 * 24 * HOUR_MS)
    await window.press("consent.agree")
    assert shop.receiver.received == []
    await again(window)


async def test_ended_session(visit: Open, shop: Shop, language: str) -> None:
    """A session that ended on the server, for example in another window, authorizes nothing."""
    window = await visit(language)
    await signed_in(window)
    await shop.service.scene.run("UPDATE seller_sessions SET ended_ms = created_ms")
    await window.press("consent.agree")
    assert shop.receiver.received == []
    await again(window)


async def again(window: Visit) -> None:
    """From wherever the page leaves them the seller gets on, by what it offers."""
    offered = window.page.get_by_role("link", name=window.words("again"), exact=True)
    if await offered.count():
        await offered.click()
    await window.sign_in()
    await window.sees("consent.title", application=APPLICATION)
    await window.press("consent.agree")
    assert "code" in await window.arrive()


async def test_a_consent_page_is_answered_once(visit: Open, shop: Shop, language: str) -> None:
    """The same form with another decision gets an error page, and no second code."""
    window = await visit(language)
    await signed_in(window)
    form = await window.page.content()
    await window.press("consent.agree")
    await window.arrive()
    await window.list_applications()
    await window.page.set_content(form)
    await window.press("consent.refuse")
    await window.sees("error.request_decided.title")
    assert len(shop.receiver.received) == 1


async def test_back_button_and_second_request(visit: Open, shop: Shop, language: str) -> None:
    """Going back after agreeing shows a working page, on which the seller can agree again.

    At the application's next request they only confirm, and are never redirected without a consent.
    """
    window = await visit(language)
    await agreed(window)
    await window.page.go_back()
    await window.sees("consent.title", application=APPLICATION)
    await window.press("consent.agree")
    await window.arrive()
    codes = {came["code"] for came in shop.receiver.received}
    assert len(codes) == len(shop.receiver.received) == 2
    await window.ask(state="second")
    await window.sees("consent.title", application=APPLICATION)
    assert len(shop.receiver.received) == 2
    await window.press("consent.agree")
    assert (await window.arrive())["state"] == "second"


async def test_not_you(visit: Open, language: str) -> None:
    """A seller in the wrong account signs out on the page, and returns to it after signing in."""
    window = await visit(language)
    await signed_in(window)
    await window.page.get_by_text(NAME).first.wait_for()
    await window.press("signed_in.not_you")
    await window.sees("sign_in.title")
    await window.sign_in()
    await window.sees("consent.title", application=APPLICATION)
    await window.press("consent.agree")
    assert "code" in await window.arrive()


async def test_sign_out_everywhere(visit: Open, language: str) -> None:
    """The seller ends the sessions of all windows in one of them; the other one must sign in."""
    window, elsewhere = await visit(language), await visit(language)
    for one in (window, elsewhere):
        await one.list_applications()
        await one.sign_in()
        await one.sees("applications.title")
    await window.press("signed_in.everywhere")
    await window.sees("sign_in.title")
    await elsewhere.list_applications()
    await elsewhere.sees("sign_in.title")
    await elsewhere.reads("sign_in.ended")


async def test_an_idle_session(visit: Open, shop: Shop, language: str) -> None:
    """The list is for sellers alone: they sign in first, and again after 30 minutes, and return to the same page."""
    window = await visit(language)
    await window.list_applications()
    await window.sees("sign_in.title")
    await window.sign_in()
    await window.sees("applications.title")
    shop.clock.advance(HOUR_MS // 2)
    await window.list_applications()
    await window.reads("sign_in.ended")
    await window.sign_in()
    await window.sees("applications.title")


async def test_in_a_popup(visit: Open, shop: Shop) -> None:
    """An application that opens a popup keeps it through sign-in and consent, and is called back by it."""
    window = await visit("en", java_script_enabled=True)
    await window.page.goto(shop.receiver.redirect_uri)
    async with window.page.expect_popup() as opening:
        await window.page.evaluate("address => { window.popup = window.open(address) }", shop.address())
    popup = replace(window, page=await opening.value)
    await popup.sign_in("wrong")
    await popup.reads("sign_in.failed")
    await popup.sign_in()
    await popup.press("consent.agree")
    assert "code" in await popup.arrive()
    assert await popup.page.evaluate("window.opener.location.href") == shop.receiver.redirect_uri
    assert await window.page.evaluate("!window.popup.closed")


async def test_the_list_of_applications_is_isolated_from_its_opener(visit: Open, shop: Shop) -> None:
    """A site that opens it has no reference to its window."""
    window = await visit("en", java_script_enabled=True)
    await window.page.goto(shop.receiver.redirect_uri)
    listed = f"{shop.service.base_url}/applications"
    async with window.page.expect_popup() as opening:
        await window.page.evaluate("address => { window.popup = window.open(address) }", listed)
    popup = replace(window, page=await opening.value)
    await popup.sees("sign_in.title")
    assert await popup.page.evaluate("window.opener") is None
    assert await window.page.evaluate("window.popup.closed")


async def test_withdraw(visit: Open, shop: Shop, language: str) -> None:
    """The seller finds the application in the list and withdraws; its tokens are invalid at once."""
    window = await visit(language)
    await agreed(window)
    token = (await shop.tokens())["access_token"]
    assert (await shop.service.request("GET", "/terminals/v1/list", token=token)).status == 200
    await window.list_applications()
    await window.sees("applications.title")
    await window.page.get_by_text(APPLICATION).first.wait_for()
    await window.page.get_by_role("button", name=window.words("applications.withdraw")).first.click()
    await window.reads("applications.none")
    assert (await shop.service.request("GET", "/terminals/v1/list", token=token)).status == 401
