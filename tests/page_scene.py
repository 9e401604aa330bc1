"""A browser of a seller, for the tests of pages: it keeps cookies, parses pages and sends forms."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from html.parser import HTMLParser
from typing import Any

from argon2 import PasswordHasher

import conformance
from oauth_scene import REDIRECT_URI
from paydesk.engine.sellers.sessions import SELLERS
from service import Service

PASSWORD = "a pass phrase of the seller's"
STATE = "xyz-123"
SESSION_MS = 3_600_000


@dataclass
class Form:
    """A form of a page: its action, fields and buttons."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._in_form = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if tag == "form":
            assert given["method"] in ("get", "post")
            self.forms.append(Form(given["action"]))
            self._in_form = True
        elif self._in_form and tag == "input" and "name" in given:
            self.forms[-1].fields[given["name"]] = given.get("value", "")
        elif self._in_form and tag == "button" and "name" in given:
            self.forms[-1].buttons.append((given["name"], given["value"]))

    def handle_endtag(self, tag: str) -> None:
        self._in_form = self._in_form and tag != "form"

    def handle_data(self, data: str) -> None:
        self.text += data


@dataclass
class Page:
    """A response to the browser."""

    status: int
    headers: Any
    html: str

    @cached_property
    def _read(self) -> _Reader:
        """What the page consists of; most pages are never asked for it."""
        reader = _Reader()
        reader.feed(self.html)
        return reader

    @property
    def forms(self) -> list[Form]:
        """The page's forms, in their order."""
        return self._read.forms

    @property
    def tags(self) -> list[tuple[str, dict[str, str]]]:
        """The page's elements with their attributes."""
        return self._read.tags

    @property
    def text(self) -> str:
        """All text of the page."""
        return self._read.text

    @property
    def location(self) -> str:
        """The redirect's address."""
        assert self.status == 303, (self.status, self.text)
        location: str = self.headers["location"]
        return location

    @property
    def query(self) -> dict[str, str]:
        """The query parameters of the redirect's address."""
        pairs = urllib.parse.parse_qsl(urllib.parse.urlsplit(self.location).query, keep_blank_values=True)
        assert len(dict(pairs)) == len(pairs), pairs
        return dict(pairs)

    @property
    def code(self) -> str:
        """The error code for developers on an error page."""
        return self.text.rsplit(": ", 1)[-1].strip()

    def form(self, action: str) -> Form:
        """Return the one form with this action."""
        (form,) = [form for form in self.forms if form.action == action]
        return form


@dataclass
class Browser:
    """A browser with its cookies; `headers` go with every request."""

    service: Service
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)

    @property
    def cookie(self) -> str:
        """Return the Cookie header."""
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    async def get(self, path: str, **headers: str) -> Page:
        """Open a page."""
        return await self._request("GET", path, None, headers)

    async def post(self, path: str, fields: Mapping[str, str] | bytes, **headers: str) -> Page:
        """Send a form."""
        data = fields if isinstance(fields, bytes) else urllib.parse.urlencode(fields).encode()
        return await self._request("POST", path, data, headers)

    async def submit(self, form: Form, **fields: str) -> Page:
        """Send a form with its own fields and the seller's input."""
        return await self.post(form.action, {**form.fields, **fields})

    async def sign_in(self, path: str, *, password: str = PASSWORD, email: str = "") -> Page:
        """Open a page, fill in its sign-in form, and send it."""
        page = await self.get(path)
        email = email or self.service.scene.seller.email
        return await self.submit(page.form("/sign-in"), email=email, password=password)

    async def consent(self, **parameters: str) -> Form:
        """Return the consent form, after sign-in if necessary."""
        path = authorization(self.service, **parameters)
        page = await self.get(path)
        if page.forms[0].action == "/sign-in":
            page = await self.get((await self.sign_in(path)).location)
        return page.form("/authorization")

    async def _request(self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]) -> Page:
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.cookies:
            sent["Cookie"] = self.cookie
        if data is not None:
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        async with self.service.session.request(
            method, self.service.base_url + path, data=data, headers=sent, allow_redirects=False
        ) as answer:
            html = await answer.text()
            # With `Accept: text/html` operations that are documented with their JSON answer return a page.
            if "Accept" not in sent:
                conformance.check(method, path, answer.status, None)
            for header in answer.headers.getall("set-cookie", []):
                name, _, value = header.partition(";")[0].partition("=")
                self.cookies[name] = value
                if "max-age=0" in header.lower():
                    del self.cookies[name]
        return Page(answer.status, answer.headers, html)


async def browser(service: Service, **headers: str) -> Browser:
    """Return a browser for the service's seller, who gets a password."""
    await give_password(service)
    return Browser(service, {name.replace("_", "-"): value for name, value in headers.items()})


async def give_password(service: Service) -> str:
    """Let the service's seller sign in with `PASSWORD`; return its hash."""
    hashed = PasswordHasher().hash(PASSWORD)
    await service.scene.run("UPDATE sellers SET password = $2 WHERE seller_id = $1", service.seller_id, hashed)
    return hashed


async def session_of(service: Service) -> str:
    """Return the cookie of a new session of the service's seller, who gets a password."""
    hashed = await give_password(service)
    now_ms = service.clock.now_ms()
    begin = partial(
        SELLERS.begin,
        account_id=service.seller_id,
        password_hash=hashed,
        now_ms=now_ms,
        expires_ms=now_ms + SESSION_MS,
    )
    cookie = await service.database.write(begin)
    assert cookie is not None
    return cookie.reveal()


def authorization(service: Service, **parameters: str) -> str:
    """The path to which the application sends its seller; a parameter that is empty is left out."""
    given = {
        "client_id": str(service.scene.application.application_id),
        "response_type": "code",
        "redirect_uri": REDIRECT_URI,
        "state": STATE,
        **parameters,
    }
    return "/authorization?" + urllib.parse.urlencode({name: value for name, value in given.items() if value})
