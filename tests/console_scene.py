"""A signed-in browser of an operator, for the tests of the console: it opens pages, sends forms and reads notices."""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass
from functools import partial
from html.parser import HTMLParser

from jinja2 import Template

from every_operation import API
from operator_calls import Operator, operator
from page_scene import Browser, Form, Page
from paydesk.console.screen import environment
from paydesk.console.sessions import OPERATORS
from service import KEYS, Service

ROLES = ("owner", "operator", "support", "viewer")
SESSION_MS = 3_600_000
ADDRESS, AGENT = "127.0.0.1", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
FORMS = re.compile(r"<form\b.*?</form>", re.DOTALL)
_VOID = frozenset(("br", "hr", "img", "input", "link", "meta", "use", "path", "rect"))


def template(name: str) -> Template:
    """Return a template of the console, with the functions that the pages of each noun add."""
    assert API.operations
    return environment().get_template(name)


class _Fields(HTMLParser):
    """Reads the fields of the form with this action, as a browser would send them."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.unchosen: set[str] = set()
        self._action, self._is_inside = action, False
        self._select = self._textarea = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._is_inside = given.get("action") == self._action
        elif not self._is_inside:
            return
        elif tag == "input":
            if given.get("type") == "checkbox" and "checked" not in given:
                self.unchosen.add(given["name"])
            else:
                self.fields[given["name"]] = given.get("value", "")
        elif tag == "select":
            self._select = given["name"]
        elif tag == "textarea":
            self._textarea = given["name"]
            self.fields[self._textarea] = ""
        elif tag == "option" and ("selected" in given or self._select not in self.fields):
            self.fields[self._select] = given["value"]

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_inside = False
        elif tag == "textarea":
            self._textarea = ""

    def handle_data(self, data: str) -> None:
        if self._textarea:
            self.fields[self._textarea] += data


class _Part(HTMLParser):
    """Reads the text in the elements that have this attribute."""

    def __init__(self, name: str, value: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self._wanted, self._depth = (name, value), 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if (self._depth or self._wanted in attrs) and tag not in _VOID:
            self._depth += 1

    def handle_endtag(self, tag: str) -> None:
        if self._depth and tag not in _VOID:
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        if self._depth and data.strip():
            self.words.append(" ".join(data.split()))


@dataclass
class Console(Browser):
    """The browser of an operator who is signed in. Paths begin with `/console`."""

    operator: Operator | None = None

    @property
    def form_token(self) -> str:
        """Return the token of all forms of this session, also where no page of this role has a form."""
        (session,) = [value for name, value in self.cookies.items() if name.startswith("paydesk_operator")]
        return f"{KEYS.active}-{KEYS.derive(KEYS.active, 'pages', 'form', 'console', session).hex()}"

    async def open(self, path: str, status: int = 200) -> Page:
        """Return the page, which must have this status."""
        page = await self.get(path)
        assert page.status == status, (path, page.status, page.text)
        return page

    async def live(self, path: str) -> str:
        """Return the part of the page that its script fetches again."""
        page = await self.get(path, HX_Request="true", X_Paydesk_Background="true")
        assert page.status == 200, (path, page.status, page.text)
        return page.html

    async def form_of(self, path: str) -> tuple[Form, set[str]]:
        """Return the form that the page of an action shows, filled in as it is, and its unchosen checkboxes."""
        reader = _Fields(path)
        for form in FORMS.findall((await self.open(path)).html):
            reader.feed(form)
        assert reader.fields, f"the page has no form for {path}"
        return Form(path, reader.fields), reader.unchosen

    async def act(self, path: str, **fields: str) -> Page:
        """Open the form of an action, fill in these fields and send it. Return the answer, of whatever status."""
        form, unchosen = await self.form_of(path)
        assert set(fields) <= {*form.fields, *unchosen}, f"the form has only {', '.join({*form.fields, *unchosen})}"
        return await self.submit(form, **fields)

    async def done(self, path: str, **fields: str) -> str:
        """Do an action that must succeed, and return what the next page says that happened."""
        page = await self.act(path, **fields)
        return notice_of(await self.open(page.location))

    async def refused(self, path: str, **fields: str) -> tuple[int, str]:
        """Do an action that must be refused. Return the status, and the reason that the form shows."""
        page = await self.act(path, **fields)
        assert page.status >= 400, (page.status, page.text)
        return page.status, alert_of(page)

    async def send(self, path: str, **fields: str) -> Page:
        """Send a form without opening it, with a valid token: by hand, where no page has a button for it."""
        return await self.post(path, {"form_token": self.form_token, **fields})


async def console(service: Service, role: str = "owner", **headers: str) -> Console:
    """Return the browser of a new operator with this role."""
    added = await operator(service, role)
    now_ms = service.clock.now_ms()
    begin = partial(
        OPERATORS.begin,
        account_id=added.operator_id,
        password_hash="",
        details=OPERATORS.details(now_ms, ADDRESS, AGENT),
        now_ms=now_ms,
        expires_ms=now_ms + SESSION_MS,
    )
    token = await service.database.write(begin)
    assert token is not None, "the operator is valid"
    port = urllib.parse.urlsplit(service.base_url).port
    sent = {"Accept": "text/html", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Console(service, sent, {f"paydesk_operator_{port}": token.reveal()}, added)


def part_of(page: Page, name: str, value: str) -> str:
    """Return the text of the page's elements that have this attribute."""
    reader = _Part(name, value)
    first = page.html.find(f'{name}="{value}"')
    if first > 0:
        reader.feed(page.html[page.html.rfind("<", 0, first) :])
    return " ".join(reader.words)


def main_of(page: Page) -> str:
    """Return the text of the page without its navigation."""
    return part_of(page, "id", "live")


def notice_of(page: Page) -> str:
    """Return what the page says that happened."""
    return part_of(page, "id", "notice")


def alert_of(page: Page) -> str:
    """Return why the form that the page shows was refused: what is said of the form, and at its fields."""
    return " ".join(part for part in (part_of(page, "role", "alert"), part_of(page, "class", "fault")) if part)


def links(page: Page) -> list[str]:
    """Return the addresses to which the page links."""
    return [given["href"] for tag, given in page.tags if tag == "a" and "href" in given]
