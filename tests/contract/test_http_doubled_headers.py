"""Repeated headers that the interface reads are refused before the token is checked."""

from __future__ import annotations

import json
import re

from every_operation import OPERATIONS
from paydesk.platform.http.surfaces import IGNORED_BY_TOKENS, READ_ONCE
from raw_http import exchange, head
from service import Reply, Service, order_body
from tables import each

ORDER = "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3"
NAMES = sorted(READ_ONCE)


async def send(service: Service, method: str, path: str, *fields: str, body: bytes = b"") -> Reply:
    """Send one request with these header fields, as often as they are there."""
    length = [f"Content-Length: {len(body)}"] if body or method != "GET" else []
    return await exchange(service, head(method, path, *length, *fields) + body)


@each("name", NAMES)
async def test_a_repeated_header_returns_400(service: Service, name: str) -> None:
    """400 `bad_request` that names the header, whether the two are equal or not, and in whatever case."""
    for values in (("a", "a"), ("a", "b"), ("", "")):
        fields = [f"{spelled}: {value}" for spelled, value in zip((name, name.upper()), values, strict=True)]
        reply = await send(service, "GET", ORDER, *fields)
        assert (reply.status, reply.code) == (400, "bad_request"), fields
        assert reply.body["message"] == f"{name.title()} must be sent only once."


async def test_a_create_with_a_repeated_header_creates_no_order(service: Service) -> None:
    """Everything else about the request is valid."""
    body = json.dumps(order_body((await service.terminal()).id)).encode()
    good = [
        f"Authorization: Bearer {service.access_token}",
        "Content-Type: application/json",
        "X-Idempotency-Key: one",
        "X-Request-Id: one",
    ]
    for field in good:
        reply = await send(service, "POST", "/v1/orders", *good, field, body=body)
        assert (reply.status, reply.code) == (400, "bad_request"), field
    assert (await send(service, "POST", "/v1/orders", *good, body=body)).status == 201
    assert await service.scene.value("SELECT COUNT(*) FROM orders") == 1


async def test_other_headers_may_be_repeated(service: Service) -> None:
    """Headers that the interface does not read have no effect."""
    fields = [f"Authorization: Bearer {service.access_token}", *["Accept: a", "X-Whatever: b", "Cookie: c"] * 2]
    reply = await send(service, "GET", ORDER, *fields)
    assert (reply.status, reply.code) == (404, "order_not_found")


@each("name", NAMES)
async def test_the_token_endpoints_return_invalid_request(service: Service, name: str) -> None:
    """The two headers that official clients send and these endpoints ignore may be repeated."""
    presented = json.dumps(service.scene.presented(service.access_token)).encode()
    fields = [] if name == "content-type" else ["Content-Type: application/json"]
    sent = "application/json" if name == "content-type" else "a"
    reply = await send(service, "POST", "/oauth/introspect", *fields, *[f"{name}: {sent}"] * 2, body=presented)
    if name in IGNORED_BY_TOKENS:
        assert (reply.status, reply.body["active"]) == (200, True)
    else:
        # Content-Encoding is refused as such where there is a body, also when it comes once.
        assert (reply.status, reply.body["error"]) == (400, "invalid_request")
        assert name == "content-encoding" or reply.body["message"] == f"{name.title()} must be sent only once."


async def test_every_operation_refuses_a_repeated_header(service: Service) -> None:
    """On every surface, health checks and pages included."""
    for operation in OPERATIONS:
        path = re.sub(r"\{[^}]+\}", "ORD01J67CQQH5904WDBVZEM4JMEP3", operation.path)
        reply = await send(service, operation.method, path, "X-Request-Id: a", "X-Request-Id: a")
        if operation.development:
            assert reply.status in (404, 405), operation.name
        elif operation.surface in ("page", "console"):
            assert reply.status == 400, operation.name
            assert b"bad_request" in reply.raw
        else:
            code = "invalid_request" if operation.surface == "token" else "bad_request"
            assert (reply.status, reply.code) == (400, code), operation.name


async def test_it_is_checked_after_path_and_size_and_before_the_token(service: Service) -> None:
    """The order of checks."""
    twice = ["X-Request-Id: a"] * 2
    assert (await send(service, "GET", "/nowhere", *twice)).code == "not_found"
    assert (await send(service, "PUT", ORDER, *twice)).code == "method_not_allowed"
    too_large = await send(service, "POST", "/v1/orders", *twice, body=b" " * 65_537)
    assert too_large.code == "payload_too_large"
    assert (await send(service, "GET", ORDER, *twice)).code == "bad_request"
    assert (await send(service, "GET", ORDER)).code == "unauthorized"
