"""Earlier operations: 410 with the successor's name, before anything else is looked at, and in every document."""

from __future__ import annotations

import re

from every_operation import OPERATIONS
from paydesk.platform.http.refusals.retired import DESCRIBED, RETIRED
from paydesk.platform.storage.database import Database
from raw_http import head, wire
from service import Service, running

EARLIER = "/point/integration-api"
ORDER = "/v1/orders/{order_id}"
GUIDE = "See docs/migrate.md, Migrate from payment intents."
SUCCESSORS = (
    ("GET", f"{EARLIER}/devices", "GET", "/terminals/v1/list"),
    ("PATCH", f"{EARLIER}/devices/PAX_A910__SMARTPOS1", "PATCH", "/terminals/v1/setup"),
    ("POST", f"{EARLIER}/devices/PAX_A910__SMARTPOS1/payment-intents", "POST", "/v1/orders"),
    ("GET", f"{EARLIER}/payment-intents/0aa0519d-d985-4e83", "GET", ORDER),
    ("GET", f"{EARLIER}/payment-intents/events", "GET", "/v1/orders"),
    ("DELETE", f"{EARLIER}/devices/PAX_A910__SMARTPOS1/payment-intents/0aa0519d", "POST", f"{ORDER}/cancel"),
    ("POST", "/v1/payments/12345/refunds", "POST", f"{ORDER}/refund"),
    ("GET", f"{EARLIER}/payment-intents/events/2024", "GET", "/docs"),
    ("PUT", f"{EARLIER}/", "GET", "/docs"),
    ("TRACE", EARLIER, "GET", "/docs"),
    ("POST", "/v1/payments", "POST", "/v1/orders"),
    ("GET", "/v1/payments/12345", "GET", ORDER),
    ("GET", "/v1/payments/search?external_reference=1", "GET", "/v1/orders"),
    ("GET", "/v1/payments/", "GET", "/docs"),
    ("GET", "/v1/payments/1/refunds/2", "GET", "/docs"),
    ("GET", f"{EARLIER}%0A", "GET", "/docs"),
    ("GET", f"{EARLIER}/devices%0A", "GET", "/terminals/v1/list"),
    ("POST", "/v1/payments/12345/refunds%0A", "POST", f"{ORDER}/refund"),
)


async def test_the_successor_is_named(service: Service) -> None:
    """In the message by method and path, and in `Link`."""
    for method, path, successor_method, successor in SUCCESSORS:
        reply = await service.request(method, path, token=None, key=None)
        assert (reply.status, reply.code) == (410, "gone"), path
        assert (
            reply.body["message"] == f"This operation is retired. Use {successor_method} {successor} instead. {GUIDE}"
        )
        assert reply.headers["link"] == f'<{successor}>; rel="successor-version"'
        assert reply.headers["x-request-id"]


async def test_another_method_on_a_retired_path_returns_405(service: Service) -> None:
    """Before any other check, with the methods that the path had, and what to use instead."""
    for method, path, had, successor in (
        ("POST", f"{EARLIER}/devices", "GET", "GET /terminals/v1/list"),
        ("OPTIONS", f"{EARLIER}/devices", "GET", "GET /terminals/v1/list"),
        ("TRACE", f"{EARLIER}/devices", "GET", "GET /terminals/v1/list"),
        ("GET", f"{EARLIER}/devices/PAX_A910__SMARTPOS1", "PATCH", "PATCH /terminals/v1/setup"),
        ("GET", f"{EARLIER}/devices/PAX_A910__SMARTPOS1/payment-intents", "POST", "POST /v1/orders"),
        ("GET", "/v1/payments/12345/refunds", "POST", f"POST {ORDER}/refund"),
        ("PUT", "/v1/payments/12345", "GET", f"GET {ORDER}"),
        ("GET", "/v1/payments", "POST", "POST /v1/orders"),
        ("HEAD", "/v1/payments", "POST", "POST /v1/orders"),
        ("DELETE", "/v1/payments/search", "GET", "GET /v1/orders"),
    ):
        reply = await service.request(method, path, token=None, key=None)
        assert (reply.status, reply.headers["allow"]) == (405, had), path
        assert reply.headers["link"] == f'<{successor.partition(" ")[2]}>; rel="successor-version"'
        if method != "HEAD":
            assert reply.code == "method_not_allowed"
            assert reply.body["message"].endswith(
                f" had only {had} here, which is retired. Use {successor} instead. {GUIDE}"
            )


async def test_every_described_retired_path_has_its_methods_alone(service: Service) -> None:
    """As the document says."""
    own = {path: {row.method for row in DESCRIBED if row.path == path} for path in {row.path for row in DESCRIBED}}
    for path, methods in own.items():
        sent = re.sub(r"\{\w+\}", "1", path)
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
            reply = await service.request(method, sent, token=None, key=None)
            assert reply.status == (410 if method in methods else 405), (method, path)


async def test_retired_paths_return_410_before_any_other_check(service: Service) -> None:
    """No token, a body that is none, another host, the sandbox header: it is gone all the same."""
    path = f"{EARLIER}/devices/D/payment-intents"
    for options in (
        {"token": None},
        {"token": "APP_USR-nobodys"},
        {"data": b"{"},
        {"data": b" " * 70_000},
        {"headers": {"x-test-scope": "sandbox", "Host": "elsewhere.example", "Content-Type": "text/plain"}},
    ):
        reply = await service.request("POST", path, **options)
        assert (reply.status, reply.code) == (410, "gone"), options


async def test_a_head_has_no_body(service: Service) -> None:
    """The answer to HEAD is the head alone."""
    async with wire(service) as connection:
        for method in ("HEAD", "GET"):
            await connection.send(head(method, f"{EARLIER}/devices", host="localhost"))
            reply = await connection.answer(to_head=method == "HEAD")
            assert (reply.status, bool(reply.raw)) == (410, method == "GET")


async def test_similar_paths_return_404(service: Service) -> None:
    """Only what was there once is gone."""
    for path in ("/point/integration-ap", "/point", f"{EARLIER}s", "/v1/payment", "/v1/payments2", "/payments/1"):
        reply = await service.request("GET", path)
        assert (reply.status, reply.code) == (404, "not_found"), path


async def test_operators_have_a_separate_listener(database: Database) -> None:
    """Where only operators are served nothing of the earlier interface is known."""
    async with running(database, workers=False, surfaces=("operator", "public")) as service:
        assert (await service.request("GET", f"{EARLIER}/devices")).status == 404


async def test_retired_operations_are_on_the_page_alone(service: Service) -> None:
    """Generated clients have no use for operations that are always refused, so the OpenAPI document has none."""
    document = (await service.request("GET", "/openapi.json")).body
    page = (await service.request("GET", "/docs/retired")).raw.decode()
    for row in DESCRIBED:
        assert row.method.lower() not in document["paths"].get(row.path, {})
        assert f"{row.method} {row.path}" in page
        assert row.successor in page


def test_every_successor_exists() -> None:
    """What they are sent to is an operation of today; the refund's path is written as its order's are."""
    today = {(row.method, row.path) for row in OPERATIONS}
    for row in RETIRED:
        method, _, path = row.successor.partition(" ")
        if not path.endswith("/refund"):
            assert (method, path) in today, row
        assert re.fullmatch(r"(/[a-z0-9]+|/\{order_id\})+", path)
