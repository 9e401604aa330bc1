"""Requests that are sent from a page of the documentation, with the credentials of the demo data."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from console_scene import console
from paydesk.platform.storage.connect import open_database
from paydesk_dev.credentials_file import KeptCredentials
from service import Reply, Service, running
from tables import each

SECRET = "secret-of-the-demo-application"


@pytest_asyncio.fixture
async def service(sqlite_url: str) -> AsyncIterator[Service]:
    """A service in development whose credentials are at hand."""
    database = await open_database(sqlite_url)
    document: dict[str, Any] = {"client_id": "1234", "client_secret": SECRET}

    async def renew() -> None:
        """Do nothing: the tokens stay valid."""

    kept = KeptCredentials(set, renew, lambda: document)
    async with running(database, workers=False, development=True, credentials=kept) as service:
        document |= {
            "terminals": [{"id": (await service.terminal()).id}],
            "test": {"access_token": service.access_token},
        }
        yield service
    await database.close()


async def send(
    service: Service,
    operation: str,
    body: Any = None,
    headers: Any = None,
    role: str = "owner",
    **parameters: str,
) -> Reply:
    """Send the request of a page, as its script does; in the browser of an operator with this role, if any."""
    sent = {"operation": operation, "parameters": parameters, "body": json.dumps(body) if body else ""}
    cookies = (await console(service, role)).cookies if role else {}
    cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())} if cookies else {}
    return await service.request("POST", "/dev/docs", sent, token=None, key=None, headers={**cookie, **(headers or {})})


async def test_a_page_creates_reads_and_cancels_an_order(service: Service) -> None:
    """The answer is that of the service: status, headers and body."""
    page = (await service.request("GET", "/docs/create-order", token=None)).raw.decode()
    assert 'data-operation="create_order"' in page
    terminal = (await service.request("GET", "/terminals/v1/list")).body["data"]["terminals"][0]["id"]
    assert terminal in page
    order = {
        "type": "point",
        "transactions": {"payments": [{"amount": "24.90"}]},
        "config": {"point": {"terminal_id": terminal}},
    }
    created = await send(service, "create_order", order, **{"X-Idempotency-Key": "key-1"})
    assert (created.status, created.body["status"]) == (200, 201)
    identity = json.loads(created.body["body"])["id"]
    assert "x-request-id" in created.body["headers"]
    read = await send(service, "get_order", order_id=identity)
    assert json.loads(read.body["body"])["status"] == "created"
    canceled = await send(service, "cancel_order", order_id=identity, **{"X-Idempotency-Key": "key-2"})
    assert json.loads(canceled.body["body"])["status"] == "canceled"


async def test_refusals_are_shown_as_they_are(service: Service) -> None:
    """A path parameter cannot lead to another path."""
    terminal = json.loads((await send(service, "operator_list_terminals")).body["body"])["data"][0]["id"]
    for operation, identity in (
        ("get_order", {"order_id": "../../terminals/v1/list"}),
        ("operator_get_terminal", {"terminal_id": f"{terminal}/queue"}),
    ):
        answer = await send(service, operation, **identity)
        assert (answer.status, answer.code) == (400, "property_value"), operation
    assert (await send(service, "create_order", {"type": "x"}, **{"X-Idempotency-Key": "k"})).body["status"] == 400
    assert (await send(service, "create_order", {"type": "x"}, **{"X-Idempotency-Key": "a\nb: c"})).body[
        "status"
    ] == 400
    assert (await send(service, "search_orders", limit="0")).body["status"] == 400


async def test_only_a_browser_with_a_session_of_the_console_sends(service: Service) -> None:
    """Another user of the machine, or a tunnel to it, has none."""
    for headers in ({}, {"Cookie": "paydesk_operator_80=PDS-unknown"}):
        answer = await send(service, "list_terminals", headers=headers, role="")
        assert (answer.status, answer.code) == (403, "forbidden")
        assert "paydesk console" in answer.body["message"]


async def test_operators_requests_are_sent_as_the_operator_who_is_signed_in(service: Service) -> None:
    """With the rights of that operator."""
    terminal = json.loads((await send(service, "operator_list_terminals")).body["body"])["data"][0]
    sent = {"name": "Another shop", "email": "shop@another.example", "country": "BRA", "currency": "BRL"}
    assert (await send(service, "operator_create_sellers", sent, role="viewer")).body["status"] == 403
    revoked = await send(service, "operator_revoke_terminal", terminal_id=terminal["id"])
    assert revoked.body["status"] < 300, revoked.body


async def test_what_changes_something_needs_the_role_for_changes(service: Service) -> None:
    """A viewer reads, whatever credential the request is sent with."""
    assert (await send(service, "list_terminals", role="viewer")).body["status"] == 200
    for operation in ("create_order", "create_virtual_terminal", "demo_inbox_empty", "operator_create_sellers"):
        answer = await send(service, operation, {}, role="viewer")
        assert (answer.status, answer.code) == (403, "forbidden"), operation


async def test_no_page_has_a_secret(service: Service) -> None:
    """Neither tokens nor the secret; identifiers are none."""
    for path in ("/docs", "/docs/create-order", "/docs/create-token", "/docs/create-order.md", "/llms.txt"):
        text = (await service.request("GET", path, token=None)).raw.decode()
        assert service.access_token not in text
        assert SECRET not in text


@each("headers", [{"Origin": "https://shop.example"}, {"Origin": "http://localhost:3000"}, {"Origin": "null"}])
async def test_pages_of_other_origins_send_nothing(service: Service, headers: dict[str, str]) -> None:
    """And a form cannot: only JSON is taken."""
    assert (await send(service, "list_terminals", headers=headers)).status == 403
    form = {"Content-Type": "text/plain"}
    answer = await service.request("POST", "/dev/docs", token=None, headers=form, data=b'{"operation":"get_user"}')
    assert answer.status == 415


@each("operation", ["unknown", "device_next", "create_token", "webhook_order_created", "docs_send", "livez/../readyz"])
async def test_what_has_no_credential_or_no_page_is_not_sent(service: Service, operation: str) -> None:
    """The terminals' own operations need a terminal's token."""
    answer = await send(service, operation)
    assert (answer.status, answer.code) == (404, "not_found")
