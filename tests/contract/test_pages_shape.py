"""Every page: its headers, its language, no scripts and no external resources."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from faulty_database import FaultyDatabase
from page_scene import PASSWORD, Browser, Page, authorization, browser
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Unavailable
from paydesk.platform.web import assets
from paydesk.platform.web.language import LANGUAGES
from service import Service, running

POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"
NASTY = "<script>alert('1')</script>\"><img src=x onerror=alert(2)>{{987654321*9}}{0}"
TITLES = {
    "pt": ("Entrar", "Permitir que Till aja em seu nome?", "Aplicativos que agem em seu nome"),
    "es": ("Iniciar sesión", "¿Permitir que Till actúe en tu nombre?", "Aplicaciones que actúan en tu nombre"),
    "en": ("Sign in", "Allow Till to act for you?", "Applications that act for you"),
}


@pytest.fixture
async def faulty(sqlite_url: str) -> AsyncIterator[FaultyDatabase]:
    """A database that can be away; its kind doesn't matter to how pages look."""
    database = await open_database(sqlite_url)
    yield FaultyDatabase(database)
    await database.close()


@pytest.fixture
async def service(faulty: FaultyDatabase) -> AsyncIterator[Service]:
    """A service on it."""
    async with running(faulty, workers=False) as service:
        yield service


async def _pages(seller: Browser) -> dict[str, Page]:
    """One page of each kind."""
    service = seller.service
    path = authorization(service)
    pages = {"sign-in": await seller.get(path)}
    pages["wrong"] = await seller.sign_in(path, password="wrong")
    consent = await seller.get((await seller.sign_in(path)).location)
    pages |= {"consent": consent, "applications": await seller.get("/applications")}
    form = consent.form("/authorization")
    await seller.submit(form, decision="refuse")
    pages |= {
        "decided": await seller.submit(form, decision="agree"),
        "outdated": await seller.submit(form, decision="agree", form_token=""),
        "unknown": await seller.get("/authorization?client_id=1"),
        "foreign": await seller.post("/sign-out", consent.form("/sign-out").fields, Sec_Fetch_Site="cross-site"),
        "malformed": await seller.post("/sign-in", b"x"),
        "large": await seller.post("/sign-in", b"x" * 65_537),
        "type": await seller.post("/sign-in", b"{}", Content_Type="application/json"),
        "header": await seller.get("/applications", x_test_scope="1"),
        "host": await seller.get("/applications", Host="elsewhere.example"),
        "method": await seller.post("/applications", b""),
    }
    return pages


async def test_the_headers_of_every_page(service: Service, faulty: FaultyDatabase) -> None:
    """No script, no frame, no cache and no referrer, on error pages too."""
    seller = await browser(service)
    pages = await _pages(seller)
    faulty.fault = Unavailable("away")
    pages["away"] = await seller.get("/applications")
    faulty.fault = None
    statuses = {name: page.status for name, page in pages.items()}
    assert statuses == {
        **dict.fromkeys(("sign-in", "consent", "applications"), 200),
        **dict.fromkeys(("wrong", "outdated", "foreign"), 403),
        **dict.fromkeys(("unknown", "malformed", "header"), 400),
        "decided": 409,
        "large": 413,
        "type": 415,
        "host": 421,
        "method": 405,
        "away": 503,
    }
    for name, page in pages.items():
        forms = "" if name == "consent" else "; form-action 'self'"
        assert page.headers["content-security-policy"] == POLICY + forms, name
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers.get("cross-origin-opener-policy") == ("same-origin" if name == "applications" else None)
        assert page.headers["x-request-id"]
    assert pages["method"].headers["allow"] == "GET"
    assert pages["away"].headers["retry-after"] == "1"


async def test_the_authorization_keeps_its_popup(service: Service) -> None:
    """No response from the first page to the last redirect isolates the window; the list does."""
    seller = await browser(service)
    path = authorization(service)
    listed = await seller.get("/applications")
    asked = await seller.get(path)
    signed_in = await seller.submit(asked.form("/sign-in"), email=service.scene.seller.email, password=PASSWORD)
    consent = await seller.get(signed_in.location)
    switched = await seller.submit(consent.form("/sign-out"))
    again = await seller.sign_in(switched.location)
    agreed = await seller.submit((await seller.get(again.location)).form("/authorization"), decision="agree")
    assert "code" in agreed.query
    for page in (asked, signed_in, consent, switched, again, agreed):
        assert "cross-origin-opener-policy" not in page.headers
        assert page.headers["x-frame-options"] == "DENY"
    assert listed.form("/sign-in")
    assert listed.headers["cross-origin-opener-policy"] == "same-origin"


async def test_pages_have_no_scripts_and_no_external_addresses(service: Service) -> None:
    """No inline style either; the assets are cached for a year."""
    seller = await browser(service)
    found: set[str] = set()
    for page in (await _pages(seller)).values():
        assert page.html.startswith("<!doctype html>")
        for tag, given in page.tags:
            assert tag not in ("script", "style", "iframe", "base", "object")
            assert not [name for name in given if name == "style" or name.startswith("on")]
            for name in ("href", "src", "action"):
                assert given.get(name, "/x")[0] == "/", given
                assert given.get(name, "/x")[:2] != "//"
            if tag in ("img", "link", "use"):
                found.add((given.get("href") or given["src"]).partition("#")[0])
    assert {path.partition("?")[0] for path in found} == {
        f"{assets.PATH}{name}" for name in ("paydesk.css", "pages.css", "icon.svg", "icons.svg")
    }
    for path in found:
        asset = await seller.get(path)
        assert asset.status == 200
        assert asset.headers["content-type"] == assets.MEDIA_TYPES[f".{path.partition('?')[0].rpartition('.')[2]}"]
        assert "immutable" in asset.headers["cache-control"]
        assert "url(" not in asset.html


@pytest.mark.parametrize("language", LANGUAGES)
async def test_pages_are_in_the_language_of_the_browser(service: Service, language: str) -> None:
    """Error pages too, with the `lang` attribute."""
    seller = await browser(service, Accept_Language=f"{language}-XX,{language};q=0.9,xx;q=0.1")
    pages = await _pages(seller)
    for page in pages.values():
        assert ("html", {"lang": language}) in page.tags
        assert page.headers["content-language"] == language
        assert len([tag for tag, _ in page.tags if tag == "h1"]) == 1
        assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags
    shown = tuple(_heading(pages[name]) for name in ("sign-in", "consent", "applications"))
    assert shown == TITLES[language]


async def test_every_field_is_accessible(service: Service) -> None:
    """Each has its label and its autocomplete hint."""
    page = await Browser(service).get("/applications")
    labels = {given["for"] for tag, given in page.tags if tag == "label"}
    fields = {given["id"]: given for tag, given in page.tags if tag == "input" and given["type"] != "hidden"}
    assert labels == set(fields) == {"email", "password"}
    assert {name: given["autocomplete"] for name, given in fields.items()} == {
        "email": "username",
        "password": "current-password",
    }


async def test_names_are_escaped(service: Service) -> None:
    """Names of applications and sellers and states are shown as text."""
    await service.scene.run("UPDATE applications SET name = $1", NASTY)
    await service.scene.run("UPDATE sellers SET name = $1", NASTY)
    seller = await browser(service)
    path = authorization(service, state=NASTY)
    pages = [await seller.get(path), await seller.sign_in(path, password="wrong", email=f'"{NASTY}')]
    consent = await seller.get((await seller.sign_in(path)).location)
    pages += [consent, await seller.get("/applications")]
    for page in pages:
        assert NASTY in page.text
        assert str(987_654_321 * 9) not in page.text
        assert not [tag for tag, given in page.tags if tag == "script" or "onerror" in given]
    answer = await seller.submit(consent.form("/authorization"), decision="refuse")
    assert answer.query["state"] == NASTY


async def test_reloading_a_form_address_shows_the_form(service: Service) -> None:
    """For a signed-in seller, the applications."""
    seller = await browser(service)
    form = (await seller.get("/sign-in")).form("/sign-in")
    await seller.submit(form, email=service.scene.seller.email, password=PASSWORD)
    assert (await seller.get("/sign-in")).location == "/applications"
    assert (await seller.get("/sign-out")).status == 405


def _heading(page: Page) -> str:
    found = re.search(r"<h1>(.*?)</h1>", page.html)
    assert found is not None
    return found[1]
