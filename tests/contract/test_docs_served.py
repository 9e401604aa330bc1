"""The documentation over HTTP: pages, Markdown, pictures, the search; and what is the same for everyone."""

from __future__ import annotations

import gzip

from page_scene import Browser, authorization
from service import Reply, Service
from tables import each

MARKDOWN = "text/markdown; charset=utf-8"
HTML = "text/html; charset=utf-8"


async def get(service: Service, path: str, **headers: str) -> Reply:
    """Ask for a page as anyone, with these headers."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await service.request("GET", path, token=None, headers={"Accept-Encoding": "identity", **sent})


@each(
    "path, media_type, text",
    [
        ("/docs", HTML, "What do you build?"),
        ("/docs/create-order", HTML, "Create an order"),
        ("/docs/CREATE_ORDER", HTML, "Create an order"),
        ("/docs/create-order.md", MARKDOWN, "# Create an order"),
        ("/docs/webhook-order-processed", HTML, "The order is paid"),
        ("/docs/retired", HTML, "/point/integration-api/devices"),
        ("/docs/search?q=refund", HTML, "/docs/refund-order"),
        ("/docs/search", HTML, "Type a word"),
        ("/docs/guides", HTML, "Tutorials"),
        ("/docs/guides/", HTML, "Tutorials"),
        ("/docs/guides/webhooks", HTML, 'src="/docs/guides/webhook-retries.svg"'),
        ("/docs/guides/webhooks.md", MARKDOWN, "# Receive webhooks"),
        ("/docs/guides/clients.md", MARKDOWN, "](/docs/guides/examples/clients/payments.py)"),
        ("/docs/guides/switch-openapi.json", "application/json", "openapi"),
        ("/docs/guides/webhook-retries.svg", "image/svg+xml", "<svg"),
        ("/docs/guides/examples/clients/payments.py", "text/plain; charset=utf-8", "import"),
        ("/docs/", HTML, "What do you build?"),
        ("/llms.txt", "text/plain; charset=utf-8", "/docs/create-order.md"),
    ],
)
async def test_each_address_has_its_page(service: Service, path: str, media_type: str, text: str) -> None:
    """Without credentials."""
    answer = await get(service, path)
    assert answer.status == 200
    assert answer.headers["content-type"] == media_type
    assert text in answer.raw.decode()


async def test_a_picture_is_served_as_it_is(service: Service) -> None:
    """Its bytes are compressed already."""
    answer = await get(service, "/docs/guides/images/console-overview.png", accept_encoding="gzip")
    assert answer.headers["content-type"] == "image/png"
    assert "content-encoding" not in answer.headers
    assert answer.raw.startswith(b"\x89PNG")


@each(
    "path",
    [
        "/docs/refund-an-order",
        "/docs/guides/refund.md",
        "/docs/guides/LICENSE",
        "/docs/guides/images/x.png",
        "/docs/guides/examples/../LICENSE",
    ],
)
async def test_an_unknown_page_says_what_may_be_meant(service: Service, path: str) -> None:
    """It is a page too, and leads to what its name is about."""
    answer = await get(service, path)
    assert answer.status == 404
    assert answer.headers["content-type"] == HTML
    assert "There is no page" in answer.raw.decode()
    assert "refund" not in path or "/docs/refund-order" in answer.raw.decode()


async def test_pages_load_nothing_from_other_hosts_and_no_inline_script(service: Service) -> None:
    """Their policy forbids both, and that another site frames them."""
    for path in ("/docs", "/docs/create-order", "/docs/guides/webhooks", "/docs/search?q=a"):
        policy = (await get(service, path)).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


async def test_what_was_typed_is_text(service: Service) -> None:
    """Markup in a search, or in the address of a page that there is not."""
    for path in ("/docs/search?q=%3Cscript%3Ex", "/docs/%3Cscript%3Ex", "/docs/search?part=1&q=%3Cscript%3Ex"):
        assert "<script>x" not in (await get(service, path)).raw.decode()


CONSTANT = (
    "/docs",
    "/docs/create-order",
    "/docs/create-order.md",
    "/docs/guides/errors",
    "/docs/guides/webhook-retries.svg",
    "/docs/search?q=refund",
    "/llms.txt",
    "/openapi.json",
)


@each("path", CONSTANT)
async def test_a_client_that_has_it_gets_no_body(service: Service, path: str) -> None:
    """By its tag, alone or among others, and whatever form it has."""
    first = await get(service, path)
    tag = first.headers["etag"]
    assert (first.headers["vary"], len(first.raw) > 0) == ("accept-encoding", True)
    for sent in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
        again = await get(service, path, if_none_match=sent, accept_encoding="gzip")
        assert (again.status, again.raw, again.headers["etag"]) == (304, b"", tag)
        # RFC 9110 section 8.6: none, or that of the body that is not sent.
        assert "content-length" not in again.headers
        assert "content-encoding" not in again.headers
    assert (await get(service, path, if_none_match='"other"')).status == 200


@each("path", CONSTANT)
async def test_a_client_that_accepts_it_gets_it_compressed(service: Service, path: str) -> None:
    """The same bytes, and no other coding than gzip."""
    plain = await get(service, path)
    for accepted in ("gzip", "br, GZIP;q=0.5", "gzip, deflate"):
        async with service.session.get(
            service.base_url + path, headers={"Accept-Encoding": accepted}, auto_decompress=False
        ) as answer:
            packed = await answer.read()
        is_small = len(plain.raw) < 1000
        assert answer.headers.get("content-encoding") == (None if is_small else "gzip")
        assert is_small or gzip.decompress(packed) == plain.raw
        assert is_small or len(packed) < len(plain.raw) / 2
        assert answer.headers["etag"] == plain.headers["etag"]
    for accepted in ("identity", "gzip;q=0", "br", "gzip;q=0.0, *;q=0"):
        assert (await get(service, path, accept_encoding=accepted)).raw == plain.raw


async def test_personal_pages_and_the_interface_are_never_compressed(service: Service) -> None:
    """A form token or a token beside what the request made the page repeat would show by its length."""
    browser = Browser(service)
    for path in (authorization(service), "/sign-in", "/console"):
        page = await browser.get(path)
        assert {"content-encoding", "etag"}.isdisjoint(page.headers), path
    for path in ("/terminals/v1/list", "/livez"):
        answer = await service.request("GET", path, headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in answer.headers, path
    order = await service.create(await service.terminal())
    answer = await service.request("GET", f"/v1/orders/{order}", headers={"Accept-Encoding": "gzip"})
    assert {"content-encoding", "etag"}.isdisjoint(answer.headers)


async def test_nothing_is_sent_from_pages_in_production(service: Service) -> None:
    """There is no form, and nothing to send it to."""
    assert 'class="send' not in (await get(service, "/docs/create-order")).raw.decode()
    body = {"operation": "create_order", "parameters": {}}
    assert (await service.request("POST", "/dev/docs", body, token=None)).status in (404, 405)
