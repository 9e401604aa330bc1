"""The pages of the documentation: what they show is what is declared, and the search finds it."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from msgspec.structs import fields

from cost import Within, each_way
from described import resolved
from every_operation import DOCUMENTED, OPERATIONS
from paydesk.core.response import Response
from paydesk.engine.orders.openapi import WEBHOOKS
from paydesk.platform.docs import guides
from paydesk.platform.docs.code import Request, request_of, samples
from paydesk.platform.docs.pages import members_of
from paydesk.platform.docs.sections import section_of
from paydesk.platform.docs.site import AtHand, Site
from paydesk.platform.http.openapi import document as openapi
from paydesk.platform.operation import Operation
from paydesk.platform.settings import Settings
from tables import each

BYTES_MAX = 150_000
URL = "https://pay.example.com"
TERMINAL = "NEWLAND_N950__N950NCB801293324"


def site_of(rows: tuple[Operation, ...] = OPERATIONS, **identifiers: str) -> Site:
    """Return the documentation of these operations; with identifiers, as in development."""
    at_hand = AtHand(lambda: identifiers, frozenset({"application"})) if identifiers else None
    site = Site(WEBHOOKS, Settings(public_url=URL), at_hand)
    site.bind(rows)
    return site


@pytest.fixture(scope="module")
def site() -> Site:
    """The documentation of every operation."""
    return site_of()


def shown(site: Site, name: str) -> str:
    """Return the page of an operation as HTML."""
    page = site.pages[name]
    body: bytes = site.show("operation.html", here=page.url, page=page).body
    return body.decode()


def test_every_operation_that_is_no_page_has_one(site: Site) -> None:
    """And every webhook; nothing that is not served."""
    described = {row.name.replace("_", "-") for row in OPERATIONS if section_of(row) is not None}
    assert site.pages.keys() == described | {one.name.replace("_", "-") for one in WEBHOOKS}
    assert {"create-order", "refund-order", "create-token", "device-hello"} <= site.pages.keys()
    left_out = [row for row in OPERATIONS if section_of(row) is None and row.media_type == "application/json"]
    assert {row.path for row in left_out} <= {"/openapi.json", "/dev/docs"} | {
        row.path for row in left_out if row.path.startswith("/openapi/") or row.surface == "console"
    }


def test_a_listener_shows_only_what_it_serves() -> None:
    """The operators' has no operation of applications, and no webhook."""
    of_operators = site_of(tuple(row for row in OPERATIONS if row.surface in ("operator", "metrics", "console")))
    assert "operator-list-orders" in of_operators.pages
    assert not {"create-order", "webhook-order-created"} & of_operators.pages.keys()
    assert of_operators.has_console
    assert next(iter(of_operators.groups)) == "Operators"


def test_pages_have_the_members_and_errors_that_are_declared(site: Site) -> None:
    """Each member with its rule; the operation's own errors apart from those of every request."""
    page, html = site.pages["refund-order"], shown(site, "refund-order")
    assert page.row is not None
    assert page.own_errors == page.row.errors
    assert "unauthorized" in [one.code for one in page.common_errors]
    assert all(kind.code in html for kind in page.row.errors)
    assert "transactions[].amount" in [one.path for one in page.body]
    assert {"id", "status", "transactions.refunds[].id"} <= {one.path for one in page.successes[0].members}
    assert "POST</span> <code>/v1/orders/{order_id}/refund" in html


def test_every_answer_with_a_body_shows_its_members(site: Site) -> None:
    """None is an empty box, however its schema is written down."""
    for page in site.pages.values():
        answer = page.row.answer if page.row is not None else None
        has_members = isinstance(answer, type) and issubclass(answer, Response) and fields(answer)
        assert not has_members or page.successes[0].members, page.name


@each("name", ["create-order", "cancel-order", "webhook-order-processed", "operator-create-sellers"])
def test_the_markdown_of_a_page_says_the_same(site: Site, name: str) -> None:
    """Each member and error of the page, and nothing of HTML."""
    page = site.pages[name]
    text = site.text("operation.md", "text/markdown", page=page).body.decode()
    assert all(f"`{one.path}`" in text for one in page.body)
    assert all(f"`{one.code}`" in text for one in (*page.own_errors, *page.common_errors))
    html = shown(site, name)
    for said in ("has no second effect", "or a higher one"):
        assert (said in text) == (said in html), said
    assert "&#" not in text
    assert "&lt;" not in text


def test_no_page_is_heavy(site: Site) -> None:
    """Of operations, guides and the first."""
    sizes = {name: len(shown(site, name)) for name in site.pages}
    sizes |= {one.name: len(site.show("guide.html", here=one.url, guide=one).body) for one in guides.every_guide()}
    sizes["start"] = len(site.show("start.html", here="/docs").body)
    assert {name: size for name, size in sizes.items() if size >= BYTES_MAX} == {}


def test_references_parts_and_variants_are_one_list_of_members() -> None:
    """A variant's own members are optional; a constant of each variant is a choice."""
    document: dict[str, Any] = {
        "components": {
            "schemas": {
                "Code": {
                    "properties": {"kind": {"const": "code"}, "code": {"type": "string"}},
                    "required": ["kind", "code"],
                },
                "Refresh": {"properties": {"kind": {"const": "refresh"}}, "required": ["kind"]},
            }
        }
    }
    schema = {
        "allOf": [{"properties": {"id": {"type": "string"}}, "required": ["id"]}],
        "oneOf": [{"$ref": "#/components/schemas/Code"}, {"$ref": "#/components/schemas/Refresh"}],
    }
    members = {one.path: one for one in members_of(schema, document, {"code": "TG-1"})}
    assert {path: one.required for path, one in members.items()} == {"id": True, "kind": True, "code": False}
    assert members["kind"].rules == "`code`, `refresh`"
    assert members["code"].example == '"TG-1"'


def test_a_member_that_a_variant_forbids_has_the_rules_of_the_other() -> None:
    """A refresh has no code."""
    variants: list[Any] = [{"properties": {"code": {"maxLength": 9}}}, {"properties": {"code": {"not": {}}}}]
    for schema in (
        {"oneOf": variants},
        {"oneOf": variants[::-1]},
        {"oneOf": [{"properties": {"code": False}}, *variants]},
    ):
        (member,) = members_of(schema, {"components": {"schemas": {}}})
        assert member.rules == "at most 9 characters"


HOSTILE = 'a"b\\c`d${x}{y}$z'


def test_texts_are_texts_in_every_language() -> None:
    """None ends one, and none begins a variable; what the languages print is compared where they are."""
    request = Request("POST", "/x/${PAYDESK_ORDER_ID}{y}`", (("X-A", HOSTILE),), {"text": HOSTILE})
    printed = dict(samples(request, URL))
    compile(printed["Python"], "hostile", "exec")
    assert r"\`" in printed["Node"]
    assert r"\$z" in printed["PHP"]
    assert "{{y}}" in printed["Python"]


def test_every_body_that_must_have_something_has_an_example(site: Site) -> None:
    """So the code of a page sends one: a result without a body would be recorded as unreadable."""
    lacking = [page.name for page in site.pages.values() if page.body and page.example is None]
    assert lacking == ["dev-reset"], "that one resets with an empty body"


def test_no_fence_has_more_than_a_language() -> None:
    """Where its lines were run together, a reader would copy half."""
    for path, source in guides.sources().items():
        if path.endswith(".md"):
            assert re.findall(r"^ *```\S+ .*$", source.read_text(), flags=re.MULTILINE) == [], path


def test_code_has_the_identifiers_of_this_service_or_variables() -> None:
    """A secret is always a variable."""
    rows = tuple(row for row in OPERATIONS if row.name in ("create_order", "create_token", "cancel_order"))
    for site, terminal in ((site_of(rows, terminal_id=TERMINAL), TERMINAL), (site_of(rows), "PAYDESK_TERMINAL_ID")):
        for _, text in site.samples(site.pages["create-order"]):
            assert f"{URL}/v1/orders" in text
            assert terminal in text
            assert "PAYDESK_ACCESS_TOKEN" in text
        for _, text in site.samples(site.pages["create-token"]):
            assert "PAYDESK_CLIENT_SECRET" in text
        for _, text in site.samples(site.pages["cancel-order"]):
            assert "PAYDESK_ORDER_ID" in text


def test_the_code_in_python_is_python(site: Site) -> None:
    """Of every operation."""
    for page in site.pages.values():
        if page.row is not None:
            languages = dict(samples(request_of(page, {}), URL))
            compile(languages["Python"], page.name, "exec")
            assert all("${NEW_KEY}" not in text for text in languages.values()), page.name


def test_texts_are_escaped() -> None:
    """A text of the table cannot become markup of a page."""
    row = next(row for row in OPERATIONS if row.name == "get_order")
    hostile = Operation("GET", "/v1/orders/x", "x", "application", row.handler, "<b>bold</b>", description="`<i>`")
    html = shown(site_of((hostile,)), "x")
    assert "&lt;b&gt;bold&lt;/b&gt;" in html
    assert "<code>&lt;i&gt;</code>" in html


@each(
    "query, url",
    [
        ("refund", "/docs/refund-order"),
        ("refun", "/docs/refund-order"),
        ("cancel at the terminal", "/docs/cancel-order"),
        ("webhook signature", "/docs/guides/webhooks#verify-a-delivery"),
        ("refund_period_exceeded", "/docs/guides/errors#refund_period_exceeded"),
        ("public_url", "/docs/guides/settings#public_url"),
        ("order.processed", "/docs/webhook-order-processed"),
        ("errors", "/docs/guides/errors"),
        ("glossary", "/docs/guides/glossary"),
    ],
)
def test_the_search_finds_it_first(site: Site, query: str, url: str) -> None:
    """Operations, guides, errors, settings and webhooks."""
    assert next(entry.url for entry, _ in site.index.find(query)) == url


def test_the_search_finds_nothing_without_words(site: Site) -> None:
    """Nor a word that is nowhere."""
    assert site.index.find("") == site.index.find(" .:- ") == site.index.find("zyxwv") == []


def test_every_link_of_a_guide_leads_somewhere() -> None:
    """Guides, their headings and rows, pictures, and pages of operations."""
    known = {one.url: one for one in (*guides.every_guide(), guides.guide(guides.INDEX)) if one is not None}
    anchors = {url: set(re.findall(r' id="([^"]+)"', one.html)) for url, one in known.items()}
    files = {guides.PATH + path for path in guides.sources()}
    programs = {f"{guides.PATH}examples/{path}" for path in guides.examples()}
    for one in known.values():
        for address in re.findall(r'(?:href|src)="([^"]+)"', one.html):
            path, _, anchor = address.partition("#")
            if path.startswith("http") or path == "/openapi.json" or path in files or path in programs:
                continue
            assert (path or one.url) in known, (one.name, address)
            assert not anchor or anchor in anchors[path or one.url], (one.name, address)


def test_guides_have_nothing_that_the_policy_blocks() -> None:
    """No style, script or handler."""
    for one in guides.every_guide():
        assert re.findall(r"<(?:script|style)|\s(?:style|on\w+)=", one.html) == [], one.name


def test_a_link_to_a_file_that_is_not_served_is_its_text() -> None:
    """In the guides there are such links, to folders and decisions."""
    linked = re.findall(
        r"\]\(\.\./[^)]+\)",
        "".join(source.read_text() for path, source in guides.sources().items() if path.endswith(".md")),
    )
    assert linked
    assert not any('href=".' in one.html for one in guides.every_guide())


def test_settings_and_errors_have_a_row_to_link_to() -> None:
    """The search leads to it."""
    settings = guides.guide("settings")
    assert settings is not None
    assert all(f'id="{name}"' in settings.html for name in Settings.model_fields)


def test_every_guide_is_in_the_sidebar_once() -> None:
    """Under the headings of the index, or under the last one."""
    addresses = [url for links in guides.groups().values() for url, _ in links]
    assert len(addresses) == len(set(addresses))
    assert set(addresses) == {one.url for one in guides.every_guide()}
    assert list(guides.groups()) == ["Begin", "Tutorials", "How-to", "Reference", "Explanation"]


def test_the_list_for_language_models_has_every_page(site: Site) -> None:
    """By its whole address, as Markdown."""
    text = site.text("llms.txt", "text/plain").body.decode()
    pages = (*(page.url for page in site.pages.values()), *(one.url for one in guides.every_guide()))
    assert all(f"]({URL}{url}.md)" in text for url in pages)


def test_members_are_those_of_the_openapi_document(site: Site) -> None:
    """Both name the same parameters and required members, for every operation."""
    rows = [row for row in OPERATIONS if section_of(row) is not None]
    document = json.loads(openapi.as_json(openapi.document(DOCUMENTED, WEBHOOKS)))
    for row in rows:
        described = document["paths"][openapi.path_template(row)][row.method.lower()]
        page = site.pages[row.name.replace("_", "-")]
        parameters = itertools.chain.from_iterable(members for _, members in page.parameters)
        names = {resolved(document, one)["name"] for one in described.get("parameters", ())}
        assert {one.path for one in parameters} == names, row.name


def test_links_of_the_markdown_are_those_of_the_page() -> None:
    """Of every guide, with code between them left as it is."""
    for path in guides.sources():
        one = guides.guide(path.removesuffix(".md")) if path.endswith(".md") else None
        if one is not None:
            text = re.sub(r"```.*?```", "", guides.markdown(one.name), flags=re.DOTALL)
            shown = re.findall(r'<a href="([^"]+)"', one.html)
            assert re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", text) == [url.replace("&amp;", "&") for url in shown]


@each_way
def test_a_search_is_cheap(site: Site, within: Within) -> None:
    """Of as many words as count, each the beginning of many."""
    within(20, site.index.find, "a e i o s t r c")
