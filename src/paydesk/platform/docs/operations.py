"""The addresses of the documentation: `/docs`, a page an operation, the guides, the search, and `/llms.txt`."""

from __future__ import annotations

from functools import partial

from paydesk.core.errors import NOT_FOUND, TOO_MANY_REQUESTS, Refusal
from paydesk.platform.docs import guides
from paydesk.platform.docs.site import HEADERS, MARKDOWN, PACKAGE, TEXT, Site
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.rows import Rows
from paydesk.platform.web import assets, html

QUERY_CHARACTERS_MAX = 100
RETIRED, AS_MARKDOWN = "retired", ".md"
_IMAGES = "images/"
_PUBLIC = Rows("public", transaction="none", is_constant=True, media_type=html.HTML)
_DOCS = _PUBLIC.below("/docs")
_NAMED = _DOCS.below(errors=(NOT_FOUND,))


async def show_start(call: Call) -> Answer:
    """Show where to begin: what to build, the first order, and the search."""
    site = await _site(call)
    return await site.once("/docs", partial(site.show, "start.html", here="/docs"))


async def show_page(call: Call) -> Answer:
    """Show the page of an operation or a webhook, or with `.md` the same as Markdown."""
    site = await _site(call)
    name = call.path.lower().replace("_", "-")
    if name == RETIRED and site.has_applications:
        return await site.once(name, partial(site.show, "retired.html", here=f"/docs/{RETIRED}"))
    page = site.pages.get(name.removesuffix(AS_MARKDOWN))
    if page is None:
        return await _missing(call)
    if name.endswith(AS_MARKDOWN):
        return await site.once(name, partial(site.text, "operation.md", MARKDOWN, page=page))
    return await site.once(name, partial(site.show, "operation.html", here=page.url, page=page))


async def show_guide(call: Call) -> Answer:
    """Show a guide, or with `.md` its Markdown, or a picture of it."""
    return await _guide(call, call.path)


async def show_image(call: Call) -> Answer:
    """Show a picture of a guide."""
    return await _guide(call, _IMAGES + call.path)


async def show_example(call: Call) -> Answer:
    """Show a program of the guides."""
    site = await _site(call)
    source = guides.examples().get(call.path)
    if source is None:
        return await _missing(call)
    path = f"{guides.PATH}{guides.EXAMPLES}/{call.path}"
    return await site.once(path, lambda: Answer(200, source.read_bytes(), HEADERS, TEXT))


async def show_guides(call: Call) -> Answer:
    """Show the index of the guides."""
    return await _guide(call, guides.INDEX)


async def search(call: Call) -> Answer:
    """Search the documentation; with `part`, return the results alone."""
    site = await _site(call)
    query = call.query.get("q", "").strip()[:QUERY_CHARACTERS_MAX]
    results = await site.find(query, call.address)
    if "part" in call.query:
        return site.part("search.html", "results", query=query, results=results)
    return site.show("search.html", query=query, results=results)


async def list_pages(call: Call) -> Answer:
    """List all pages for language models: each is Markdown too."""
    site = await _site(call)
    return await site.once("/llms.txt", partial(site.text, "llms.txt", TEXT))


async def _site(call: Call) -> Site:
    site = call.shared.objects[Site]
    await site.ready()
    return site


async def _guide(call: Call, path: str) -> Answer:
    site = await _site(call)
    source = guides.sources().get(path)
    name = path.removesuffix(AS_MARKDOWN)
    if source is not None and name != path:
        text = partial(guides.markdown, name)
        return await site.once(guides.PATH + path, lambda: Answer(200, text().encode(), HEADERS, MARKDOWN))
    if source is not None:
        media_type = guides.FILES[path[path.rfind(".") :]]
        return await site.once(guides.PATH + path, lambda: Answer(200, source.read_bytes(), HEADERS, media_type))
    one = guides.guide(path)
    if one is None:
        return await _missing(call)
    return await site.once(one.url, partial(site.show, "guide.html", here=one.url, guide=one))


async def _missing(call: Call) -> Answer:
    site, name = await _site(call), call.path
    query = name.rpartition("/")[2].removesuffix(AS_MARKDOWN).replace("-", " ")[:QUERY_CHARACTERS_MAX]
    try:
        results = await site.find(query, call.address)
    except Refusal:
        raise NOT_FOUND.with_reason("no such page, and the address searches too often") from None
    return site.show("search.html", status=404, missing=name, query=query, results=results)


OPERATIONS = (
    _DOCS.get("", "docs", show_start),
    _DOCS.get("/", "docs_index", show_start),
    _DOCS.get(
        "/search",
        "docs_search",
        search,
        errors=(TOO_MANY_REQUESTS,),
        query=(
            Query("q", {"type": "string"}, "The words to find."),
            Query("part", {"type": "string"}, "If sent, the answer has the results alone, for the page's script."),
        ),
    ),
    _DOCS.get("/guides", "docs_guides", show_guides),
    _DOCS.get("/guides/", "docs_guides_index", show_guides),
    _NAMED.get("/guides/{name}", "docs_guide", show_guide),
    _NAMED.get("/guides/images/{name}", "docs_guide_image", show_image),
    _NAMED.get("/guides/examples/{name:path}", "docs_example", show_example),
    _NAMED.get("/{page}", "docs_page", show_page),
    _PUBLIC.get("/llms.txt", "docs_llms", list_pages, media_type=TEXT),
    *assets.operations(PACKAGE),
)
"""They are in no OpenAPI document: pages are no interface for programs."""
