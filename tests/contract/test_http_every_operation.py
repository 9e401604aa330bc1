"""What holds for every operation, read off the table: the order of its checks, and headers that are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from accounts import other_application, other_seller
from every_operation import OPERATIONS
from paydesk.core.secrets import digest
from paydesk.platform.http.refusals.error_responses import takes_body
from paydesk.platform.operation import Operation
from service import Reply, Service, access_token

APPLICATION = [operation for operation in OPERATIONS if operation.surface == "application"]
UNKNOWN_ORDER = "ORD01J67CQQH5904WDBVZEM4JMEP3"
UNKNOWN_ACTION = "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"


@dataclass(frozen=True)
class Flaws:
    """What is wrong with a request of an operation: all of it at once."""

    sandbox_header: bool = False
    media_type: bool = False
    token: bool = False
    revoked: bool = False
    suspended_seller: bool = False
    suspended_application: bool = False
    scope: bool = False
    test_header: bool = False
    key: bool = False
    path: bool = False
    syntax: bool = False
    field: bool = False


def chain(operation: Operation) -> Iterator[tuple[str, str]]:
    """Return the possible flaws of the operation, each with its code, in the order of the checks."""
    has_body = takes_body(operation)
    yield "sandbox_header", "unsupported_header"
    if has_body:
        yield "media_type", "unsupported_media_type"
    yield "token", "unauthorized"
    yield "revoked", "unauthorized"
    yield "suspended_seller", "forbidden"
    yield "suspended_application", "forbidden"
    yield "scope", "insufficient_scope"
    if operation.refuses_test_header:
        yield "test_header", "unsupported_header"
    if operation.idempotent:
        yield "key", "empty_required_header"
    if operation.path_pattern:
        yield "path", "invalid_path_param"
    if has_body:
        yield "syntax", "json_syntax_error"
        yield "field", "unsupported_properties"


async def send(service: Service, operation: Operation, flaws: Flaws) -> Reply:
    """The operation's request with these flaws and no other that is checked as early."""
    headers = {"Content-Type": "text/plain" if flaws.media_type else "application/json"}
    if flaws.sandbox_header:
        headers["x-test-scope"] = "sandbox"
    if flaws.test_header:
        headers["X-Test-Token"] = "true"
    data = (b"{" if flaws.syntax else json.dumps({"surprise": 1}).encode()) if takes_body(operation) else None
    path = re.sub(r"\{\w+\}", "ORD1", operation.path) if flaws.path else _path(operation)
    token = "APP_USR-nobodys" if flaws.token else await _token(service, operation, flaws)
    key = None if flaws.key or not operation.idempotent else ""
    return await service.request(operation.method, path, data=data, headers=headers, token=token, key=key)


def _path(operation: Operation) -> str:
    """The path of something unknown."""
    return operation.path.format_map({"order_id": UNKNOWN_ORDER, "action_id": UNKNOWN_ACTION})


async def _token(service: Service, operation: Operation, flaws: Flaws) -> str:
    party = await other_seller(service) if flaws.suspended_seller else service
    if flaws.suspended_application:
        party = await other_application(party)
    scope = {"read": "write", "write": "read"}[operation.scope or "read"] if flaws.scope else "read write"
    token = await access_token(party.scene, service.clock.now_ms(), live=flaws.test_header, scope=scope)
    if flaws.revoked:
        await party.scene.run("UPDATE access_tokens SET revoked_ms = 1 WHERE digest = $1", digest(token))
    if flaws.suspended_seller:
        await party.scene.run("UPDATE sellers SET suspended_ms = 1 WHERE seller_id = $1", party.seller_id)
    if flaws.suspended_application:
        application_id = party.scene.application.application_id
        await party.scene.run("UPDATE applications SET suspended_ms = 1 WHERE application_id = $1", application_id)
    return token


@pytest.mark.parametrize("operation", APPLICATION, ids=lambda operation: operation.name)
async def test_the_order_of_the_checks(service: Service, operation: Operation) -> None:
    """A request with all flaws from one on gets the code of the first; so does one with only it and the next."""
    flaws = list(chain(operation))
    for place, (name, code) in enumerate(flaws):
        for further in {name for name, _ in flaws[place + 1 :]}, {name for name, _ in flaws[place + 1 : place + 2]}:
            spoiled = replace(Flaws(), **dict.fromkeys((name, *further), True))
            reply = await send(service, operation, spoiled)
            assert reply.code == code, (name, further, reply)


@pytest.mark.parametrize("operation", APPLICATION, ids=lambda operation: operation.name)
async def test_suspended_callers_return_403(service: Service, operation: Operation) -> None:
    """A suspended seller or application gets 403 `forbidden` without the reason."""
    replies = [
        await send(service, operation, replace(Flaws(), **{name: True}))
        for name in ("suspended_seller", "suspended_application")
    ]
    assert {(reply.status, reply.code) for reply in replies} == {(403, "forbidden")}
    assert len({reply.raw for reply in replies}) == 1


async def test_the_sandbox_header_is_refused_everywhere(service: Service) -> None:
    """By every operation of every surface, whatever it says; where nothing is, that comes first."""
    for operation in OPERATIONS:
        path = re.sub(r"\{[^}]+\}", UNKNOWN_ORDER, operation.path)
        for value in ("sandbox", ""):
            reply = await service.request(operation.method, path, headers={"x-test-scope": value}, token=None, key=None)
            if operation.development:
                assert reply.status in (404, 405), operation.name
            elif operation.surface in ("page", "console"):
                assert reply.status == 400, operation.name
            else:
                code = "invalid_request" if operation.surface == "token" else "unsupported_header"
                assert (reply.status, reply.code) == (400, code), operation.name
    reply = await service.request("GET", "/nowhere", headers={"x-test-scope": "sandbox"})
    assert reply.code == "not_found"


async def test_which_operations_refuse_the_test_header() -> None:
    """Those of orders, all of them, and no other."""
    for operation in OPERATIONS:
        assert operation.refuses_test_header is (operation.path.startswith("/v1/orders")), operation.name


@pytest.mark.parametrize("operation", APPLICATION, ids=lambda operation: operation.name)
async def test_the_test_header_beside_each_kind_of_token(service: Service, operation: Operation) -> None:
    """A live token is refused with what to send; a test token is accepted with the header."""
    live = await send(service, operation, Flaws(test_header=True))
    assert (live.body.get("error") == "unsupported_header") is operation.refuses_test_header
    if operation.refuses_test_header:
        assert live.status == 400
        assert "TEST-" in live.body["message"]
    for value in ("true", "TRUE", "false", "1"):
        path = _path(operation)
        data = b'{"surprise": 1}' if takes_body(operation) else None
        reply = await service.request(operation.method, path, data=data, headers={"X-Test-Token": value})
        assert reply.status < 500
        assert reply.body.get("error") != "unsupported_header", operation.name
