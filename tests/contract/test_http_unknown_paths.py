"""404 and 405: each says what to do instead, and repeats nothing of the request."""

from __future__ import annotations

import io
import json
import re

from every_operation import OPERATIONS
from kept_logging import kept_logging
from operator_calls import operator
from paydesk.core.errors import METHOD_NOT_ALLOWED, NOT_FOUND
from paydesk.platform import logs
from paydesk.platform.storage.database import Database
from service import Service, running

ORDER = "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3"
BY_TERMINAL = "An order here is processed by its terminal"
BY_OPERATORS = "Stores and points of sale are created by the operators"
TERMINALS_ONLY = "This service takes payments on card terminals only"
DOCS = "GET /docs lists all operations."
DEVELOPMENT = [one for one in OPERATIONS if one.development and one.surface in ("operator", "virtual")]
NOT_SERVED = {(404, "not_found"), (405, "method_not_allowed")}


async def message(service: Service, method: str, path: str) -> str:
    """Return the message of the 404."""
    reply = await service.request(method, path, token=None, key=None)
    assert (reply.status, reply.code, reply.body["errors"][0]["code"]) == (404, "not_found", "not_found"), path
    assert reply.body["message"].startswith(reply.body["errors"][0]["message"])
    text: str = reply.body["message"]
    return text


async def test_operations_for_other_kinds_of_orders_say_what_to_use(service: Service) -> None:
    """Whatever the method and without a token; the official clients show the message."""
    for method, path, sentence in (
        ("POST", f"{ORDER}/process", BY_TERMINAL),
        ("POST", f"{ORDER}/capture", BY_TERMINAL),
        ("POST", f"{ORDER}/transactions", BY_TERMINAL),
        ("PUT", f"{ORDER}/transactions/PAY01J67CQQH5904WDBVZEM4JMEP3", BY_TERMINAL),
        ("DELETE", f"{ORDER}/transactions/PAY01J67CQQH5904WDBVZEM4JMEP3", BY_TERMINAL),
        ("POST", "/pos", BY_OPERATORS),
        ("GET", "/pos/1", BY_OPERATORS),
        ("POST", "/users/1160535239/stores", BY_OPERATORS),
        ("PUT", "/users/1160535239/stores/7", BY_OPERATORS),
        ("GET", "/v1/payment_methods", TERMINALS_ONLY),
        ("GET", "/v1/identification_types", TERMINALS_ONLY),
        ("POST", "/v1/customers", TERMINALS_ONLY),
        ("POST", "/v1/customers/1/cards", TERMINALS_ONLY),
        ("POST", "/v1/card_tokens", TERMINALS_ONLY),
        ("GET", "/v1/chargebacks/search", TERMINALS_ONLY),
        ("POST", "/v1/advanced_payments", TERMINALS_ONLY),
        ("POST", "/checkout/preferences", TERMINALS_ONLY),
        ("POST", "/checkout/preferences/", TERMINALS_ONLY),
        ("GET", "/merchant_orders/search", TERMINALS_ONLY),
        ("POST", "/preapproval", TERMINALS_ONLY),
        ("GET", "/preapproval_plan/search", TERMINALS_ONLY),
        ("GET", "/authorized_payments/search", TERMINALS_ONLY),
        ("GET", "/users/1160535239", TERMINALS_ONLY),
    ):
        assert (await message(service, method, path)).startswith(sentence), path


async def test_a_similar_path_is_named(service: Service) -> None:
    """One that differs in slashes, case or version: by its template, with its methods."""
    for path, meant in (
        ("/v1/orders/", "GET or POST /v1/orders"),
        ("//v1/orders", "GET or POST /v1/orders"),
        ("/v1//orders", "GET or POST /v1/orders"),
        ("/orders", "GET or POST /v1/orders"),
        ("/v2/orders", "GET or POST /v1/orders"),
        ("/V1/Orders", "GET or POST /v1/orders"),
        ("/api/v1/orders", "GET or POST /v1/orders"),
        ("/v1/orders%20", "GET or POST /v1/orders"),
        ("/v1/orders%09", "GET or POST /v1/orders"),
        (f"{ORDER}/", "GET /v1/orders/{order_id}"),
        (f"{ORDER}/refund/", "POST /v1/orders/{order_id}/refund"),
        ("/terminals/list", "GET /terminals/v1/list"),
        ("/v1/oauth/token", "POST /oauth/token"),
        ("/oauth/token/", "POST /oauth/token"),
        ("/users/me/", "GET /users/me"),
    ):
        reply = await service.request("GET", path, token=None)
        assert (reply.status, reply.code) == (404, "not_found"), path
        assert reply.body["message"] == f"{NOT_FOUND.message} Did you mean {meant}?", path


async def test_any_other_path_names_the_reference(service: Service) -> None:
    """Which exists."""
    for path in ("/v1", "/v1/", "//", "/nowhere", f"{ORDER}/events/1", "/v1/orderss", "/" + "v1/" * 400 + "orders"):
        assert await message(service, "GET", path) == f"{NOT_FOUND.message} {DOCS}", path
    assert (await service.request("GET", "/docs", token=None)).status == 200


async def test_the_root_leads_to_the_console(database: Database) -> None:
    """On the listener that has it; the clients' listener in production has neither."""
    async with running(database, workers=False, surfaces=("operator", "console", "public")) as service:
        reply = await service.request("GET", "/", token=None)
        assert (reply.status, reply.headers["location"]) == (303, "/console")
    async with running(database, workers=False, surfaces=("application", "public")) as service:
        assert await message(service, "GET", "/") == f"{NOT_FOUND.message} {DOCS}"


async def test_operators_have_a_separate_listener(database: Database) -> None:
    """There no operation of applications is named."""
    async with running(database, workers=False, surfaces=("operator", "public")) as service:
        for path in ("/v1/orders/", f"{ORDER}/process", "/pos", "/v1/payment_methods"):
            assert await message(service, "GET", path) == f"{NOT_FOUND.message} {DOCS}", path
        assert "GET or POST /operator/v1/sellers?" in await message(service, "GET", "/operator/sellers")


async def test_development_operations_are_not_named_in_production(database: Database) -> None:
    """They do not exist there, not for an owner either."""
    async with running(database, workers=False) as service:
        assert await message(service, "GET", "/demo/inbox/") == f"{NOT_FOUND.message} {DOCS}"
        owner = await operator(service)
        for one in DEVELOPMENT:
            path, body = re.sub("{.*?}", "1", one.path), None if one.method == "GET" else {"x": 1}
            refused = await service.request(one.method, path, body, token=owner.token)
            assert (refused.status, refused.code) in NOT_SERVED, one.name
    async with running(database, workers=False, development=True) as service:
        assert "/demo/inbox?" in await message(service, "GET", "/demo/inbox/")


async def test_405_names_the_methods(service: Service) -> None:
    """As the header `Allow` does."""
    for method, path, methods in (
        ("PUT", "/v1/orders", "GET or POST"),
        ("DELETE", ORDER, "GET"),
        ("POST", "/users/me", "GET"),
        ("MKCOL", "/terminals/v1/setup", "PATCH"),
    ):
        reply = await service.request(method, path, token=None)
        assert (reply.status, reply.code) == (405, "method_not_allowed")
        assert reply.body["message"] == f"{METHOD_NOT_ALLOWED.message} Use {methods}."
        assert reply.headers["allow"].split(", ") == methods.split(" or ")


async def test_nothing_of_the_request_is_repeated(service: Service) -> None:
    """Neither a secret in the path, nor markup, nor a method of the client's own."""
    secret, markup = "APP_USR-3676047501096810-091211-fbad3ab32ad4f89bf1c385141ba5626a-1160535239", "%3Cscript%3E"
    for method, path in (
        ("GET", f"/v1/orders/{secret}/"),
        ("GET", f"/{secret}"),
        ("POST", f"/v1/orders/{markup}/process"),
        ("GET", f"/v1/orders/{markup}/"),
        ("S3CRET", "/v1/orders"),
        ("GET", "/v1/payments/" + secret),
    ):
        raw = (await service.request(method, path, token=None)).raw.decode()
        assert not any(part in raw for part in (secret, "<script", markup, "S3CRET", "3676047501096810")), path


async def test_an_unknown_path_is_logged_with_its_reason(service: Service) -> None:
    """One line, masked as every line."""
    stream = io.StringIO()
    with kept_logging():
        logs.configure("json", stream)
        await service.request("POST", f"{ORDER}/process")
        await service.request("GET", "/orders")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["reason"] for line in lines] == ["an operation for other kinds of orders", "unknown path"]
