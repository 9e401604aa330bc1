"""The pages of one listener: what it serves, grouped by what people do, rendered once each."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from paydesk import __version__
from paydesk.core.errors import NOT_FOUND, TOO_MANY_REQUESTS, ErrorKind
from paydesk.core.limits.rates import Buckets, network
from paydesk.platform.docs import code, guides
from paydesk.platform.docs.pages import Page, pages_of
from paydesk.platform.docs.search import Entry, Index
from paydesk.platform.docs.sections import APPLICATIONS, DEVELOPMENT, OPERATORS, SECTIONS, Section, section_of
from paydesk.platform.http.openapi import document as openapi
from paydesk.platform.http.openapi.notifications import Webhook
from paydesk.platform.http.refusals.retired import DESCRIBED
from paydesk.platform.http.surfaces import POLICIES
from paydesk.platform.operation import Answer, Operation, Surface
from paydesk.platform.roles import lowest
from paydesk.platform.settings import Settings
from paydesk.platform.web import html, language

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

PACKAGE = "paydesk.platform.docs"
POLICY = f"{html.POLICY}{html.SCRIPTS}; form-action 'self'"
HEADERS = (
    ("content-security-policy", POLICY),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("cache-control", "no-cache"),
)
TEXT, MARKDOWN = "text/plain; charset=utf-8", "text/markdown; charset=utf-8"
WEIGHTS: Mapping[str, float] = {APPLICATIONS: 1.8, OPERATORS: 0.7, DEVELOPMENT: 0.6}
OF_TASKS, OF_GUIDES, OF_SETTINGS = 1.5, 1.2, 0.8
DECLARED = ("errors", "settings", "webhook-events")
"""Guides whose parts are found by what the code declares."""
_CODE = re.compile("`([^`]+)`")


@dataclass(frozen=True, slots=True)
class AtHand:
    """What a service in development puts into its pages, and which requests it can send from them. No secret."""

    identifiers: Callable[[], Mapping[str, str]] = dict
    sends: frozenset[Surface] = field(default_factory=frozenset)


class Site:
    """The documentation that a listener shows: of the operations that it serves, and all guides."""

    def __init__(
        self,
        webhooks: Sequence[Webhook],
        settings: Settings,
        at_hand: AtHand | None = None,
        processes: int = 1,
    ) -> None:
        per_minute = settings.searches_per_minute_address
        self._searches: Buckets[str] = Buckets(per_minute, seconds=60, processes=processes)
        self._webhooks, self._at_hand = webhooks, at_hand or AtHand()
        self._base_url = settings.issuer
        self._rows: tuple[Operation, ...] = ()
        self._answers: dict[str, asyncio.Task[Answer]] = {}
        self._building, self._is_ready = asyncio.Lock(), False
        self.has_console = self.has_applications = False
        self.documents: list[str] = []
        """The addresses of its OpenAPI documents."""

    def bind(self, rows: Iterable[Operation]) -> None:
        """Set the operations of the listener."""
        self._rows = tuple(row for row in rows if row.surface != "console")
        self.documents = sorted(row.path for row in self._rows if row.path.startswith("/openapi"))
        surfaces = {row.surface for row in self._rows}
        self.has_console, self.has_applications = "operator" in surfaces, "application" in surfaces

    async def ready(self) -> None:
        """Build what all pages share, once and in a thread: it takes a second, in which payments go on."""
        if not self._is_ready:
            async with self._building:
                if not self._is_ready:
                    await asyncio.to_thread(self._build)
                    self._is_ready = True

    def _build(self) -> Index:
        guides.groups(), guides.examples()  # They keep what they find.
        return self.index

    @cached_property
    def pages(self) -> dict[str, Page]:
        """The pages by name, in the order of their sections."""
        webhooks = self._webhooks if self.has_applications else ()
        rows = [row for row in self._rows if section_of(row) is not None]
        document = openapi.document(rows, webhooks)
        pages = sorted(pages_of(rows, document, webhooks), key=lambda page: SECTIONS.index(page.section))
        return {page.name: page for page in pages}

    @cached_property
    def groups(self) -> dict[str, dict[Section, list[Page]]]:
        """The pages by group and section."""
        grouped: dict[str, dict[Section, list[Page]]] = {}
        for page in self.pages.values():
            grouped.setdefault(page.section.group, {}).setdefault(page.section, []).append(page)
        return grouped

    @cached_property
    def index(self) -> Index:
        """The search."""
        return Index([*self._of_pages(), *_of_guides(), *_of_settings(), *self._of_errors()])

    def samples(self, page: Page) -> tuple[tuple[str, str], ...]:
        """Return the request of a page in each language; of a webhook there is none."""
        if page.row is None:
            return ()
        return code.samples(code.request_of(page, self._at_hand.identifiers()), self._base_url)

    def request(self, page: Page) -> code.Request | None:
        """Return the request that the page can send; None if it sends none."""
        is_sent = page.row is not None and page.row.surface in self._at_hand.sends
        return code.request_of(page, self._at_hand.identifiers()) if is_sent else None

    def identifier(self, name: str) -> str:
        """Return the identifier of that name in development; empty if it is unknown."""
        return self._at_hand.identifiers().get(name, "")

    async def once(self, path: str, make: Callable[[], Answer]) -> Answer:
        """Return the answer at a path, made once, in a thread, at the first request; a failure is not kept."""
        if path not in self._answers or self._answers[path].cancelled():
            self._answers[path] = asyncio.create_task(asyncio.to_thread(make))
        try:
            return await asyncio.shield(self._answers[path])
        except Exception:
            self._answers.pop(path, None)
            raise

    def count_search(self, address: str) -> None:
        """Count a search. Raises `TOO_MANY_REQUESTS`."""
        if seconds := self._searches.take(network(address)):
            wait = (("retry-after", str(seconds)),)
            raise TOO_MANY_REQUESTS.with_reason("address searches too often", headers=wait)

    async def find(self, query: str, address: str) -> list[tuple[Entry, str]]:
        """Return the best entries of the search, with the part of their text that fits. Raises `TOO_MANY_REQUESTS`."""
        self.count_search(address)
        await self.ready()
        return await asyncio.to_thread(lambda: self.index.find(query))

    def show(self, template: str, *, here: str = "", status: int = 200, **values: Any) -> Answer:
        """Return a page of the site; `here` is its address, which the sidebar marks."""
        refusal = NOT_FOUND.with_reason("no such page") if status == 404 else None
        body = self._template(template).render(self._common(here) | values)
        return Answer(status, body.encode(), HEADERS, html.HTML, refusal)

    def part(self, template: str, block: str, **values: Any) -> Answer:
        """Return one block of a page, for its script."""
        source = self._template(template)
        body = "".join(source.blocks[block](source.new_context(self._common("") | values)))
        return Answer(200, body.encode(), HEADERS, html.HTML)

    def text(self, template: str, media_type: str, **values: Any) -> Answer:
        """Return a template as a text."""
        body = self._template(template).render(self._common("") | values)
        return Answer(200, body.encode(), HEADERS, media_type)

    def _template(self, name: str) -> Any:
        return _environment().get_template(name)

    def _common(self, here: str) -> dict[str, Any]:
        return {
            "t": language.texts("en"),
            "site": self,
            "here": here,
            "guides": guides,
            "version": __version__,
            "base_url": self._base_url,
            "is_development": bool(self._at_hand.sends),
            "retired": DESCRIBED,
            "query": "",
            "missing": "",
            "scripts": True,
        }

    def _of_pages(self) -> Iterable[Entry]:
        for page in self.pages.values():
            # Those of a webhook are the same for all.
            rows = (*itertools.chain(*(rows for _, rows in page.parameters)), *page.body) if page.row else ()
            members = " ".join(f"{one.path} {one.rules}" for one in rows)
            errors = " ".join(one.code for one in page.own_errors)
            names = f"{page.name} {page.path}"
            kind = f"{page.section.group} · {page.section.title}"
            text = f"{page.description} {members} {errors}"
            yield Entry(kind, page.title, page.url, names, text, WEIGHTS.get(page.section.group, 1.0))

    def _of_errors(self) -> Iterable[Entry]:
        kinds = dict[str, ErrorKind]()
        for page in self.pages.values():
            kinds |= {one.code: one for one in (*page.own_errors, *page.common_errors)}
        for kind in kinds.values():
            title, url = f"{kind.status} {kind.code}", f"{guides.PATH}errors#{kind.code}"
            yield Entry("Error", title, url, "", f"{kind.message} {kind.advice}")


def _of_guides() -> Iterable[Entry]:
    tasks = {name for section in SECTIONS if section.group == APPLICATIONS for name in section.guides}
    for one in guides.every_guide():
        weight = OF_TASKS if one.name in tasks else OF_GUIDES
        for heading in one.headings[: 1 if one.name in DECLARED else None]:
            kind = "Guide" if heading.level == 1 else f"Guide · {one.title}"
            url = one.url if heading.level == 1 else f"{one.url}#{heading.anchor}"
            names = "" if heading.level == 1 else one.title
            yield Entry(kind, heading.title, url, names, heading.text, weight)


def _of_settings() -> Iterable[Entry]:
    for name, setting in Settings.model_fields.items():
        url = f"{guides.PATH}settings#{name}"
        yield Entry("Setting", name, url, f"PAYDESK_{name.upper()}", setting.description or "", OF_SETTINGS)


def _environment() -> Environment:
    environment = html.environment(PACKAGE)
    environment.filters |= {"marked": marked, "pretty": pretty}
    environment.globals |= {"credential_of": credential_of, "lowest": lowest}
    return environment


def credential_of(row: Operation) -> str:
    """Return the description of the credential that an operation asks for; empty without one."""
    credential = POLICIES[row.surface].credential
    return credential.described if credential is not None else ""


def marked(text: str) -> Markup:
    """Return the text with its backticks rendered as code."""
    from markupsafe import Markup, escape

    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped in the line itself


def pretty(value: Any) -> str:
    """Return a value as JSON with line breaks, and a text as it is."""
    return value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
