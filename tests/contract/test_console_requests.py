"""The screens of the recorded requests: the list, one request with its answer, and sending it again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from console_scene import ROLES, Console, console, part_of
from operator_calls import audited
from paydesk.platform.storage.database import Database
from recorded_scene import record
from reset_scene import Resettable, resettable
from service import Service, order_body, running
from tables import each
from waiting import HANGS_SECONDS

HERE = "/console/requests"
UNKNOWN = "01J67CQQH5904WDBVZEM4JMEP3"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service in development, without workers."""
    async with running(database, workers=False, development=True) as made:
        yield made


@pytest.fixture
async def one(database: Database, tmp_path: Path) -> AsyncIterator[Resettable]:
    """A service of `paydesk dev`, which has a credentials file and records requests."""
    async with resettable(database, tmp_path, records=True) as made:
        yield made


@pytest.mark.parametrize("role", ROLES)
async def test_every_role_sees_the_list(service: Service, role: str) -> None:
    """With the sender, the status, the reason, the key and the order of each."""
    order_id = f"ORD{UNKNOWN}"
    entry_id = await record(
        service, "POST", "/v1/orders", status=409, error="already_queued_order_on_terminal", replayed=1,
        reason="another order is at_terminal", order_id=order_id, idempotency_key="order-1001",
    )  # fmt: skip
    shown = await (await console(service, role)).open(HERE)
    links = [given["href"] for tag, given in shown.tags if tag == "a" and "href" in given]
    assert {f"{HERE}/{entry_id}", f"/console/orders/{order_id}"} <= set(links)
    assert f"{HERE}?application={service.scene.application.application_id}" in links
    for text in ("409", "already_queued_order_on_terminal", "another order is at_terminal", "order-1001", "replayed"):
        assert text in shown.text, text


async def test_an_empty_list_says_how_to_begin(service: Service) -> None:
    """And filters that match nothing can be cleared."""
    desk = await console(service)
    assert "No request yet." in (await desk.open(HERE)).text
    shown = await desk.open(f"{HERE}?status=5xx")
    assert "No request matches these filters." in shown.text
    assert any(given.get("href") == HERE for tag, given in shown.tags if tag == "a")


async def test_the_list_begins_with_applications(service: Service) -> None:
    """Terminals poll all the time: they have a tab, and so have both; a link to something else shows both."""
    desk, terminal = await console(service), await service.terminal()
    await record(service, "GET", "/v1/orders/a")
    await record(service, "GET", "/device/v1/next", terminal_id=terminal.id, application_id=None)

    async def shown(query: str) -> tuple[bool, bool, str]:
        page = await desk.open(HERE + query)
        sender = part_of(page, "aria-current", "true").split()[0]
        return "/v1/orders/a" in page.text, "/device/v1/next" in page.text, sender

    assert await shown("") == (True, False, "Applications")
    assert await shown("?sender=terminals") == (False, True, "Terminals")
    assert await shown("?sender=all") == (True, True, "Both")
    assert await shown(f"?seller={service.seller_id}") == (True, True, "Both")


async def test_filters_are_in_the_address(service: Service) -> None:
    """Empty fields of the form are left out of it."""
    desk = await console(service)
    await record(service, "GET", "/v1/orders/a")
    await record(service, "GET", "/v1/orders/b", status=404, error="order_not_found")
    redirect = await desk.get(f"{HERE}?sender=applications&status=failed&order=&method=")
    assert redirect.location == f"{HERE}?sender=applications&status=failed"
    shown = await desk.open(redirect.location)
    assert ("/v1/orders/b" in shown.text, "/v1/orders/a" in shown.text) == (True, False)
    assert f"{HERE}?sender=applications&amp;status=2xx" in shown.html


async def test_a_malformed_filter_is_named(service: Service) -> None:
    """The form keeps what was typed."""
    shown = await (await console(service)).open(f"{HERE}?order=abc", 400)
    assert part_of(shown, "role", "alert") == "Order: must be an order's id, such as ORD01J67CQQH5904WDBVZEM4JMEP3."
    assert 'value="abc"' in shown.html


async def test_older_requests_are_on_further_pages(service: Service) -> None:
    """From there a link leads back to the newest."""
    desk = await console(service)
    for number in range(51):
        await record(service, "GET", f"/v1/orders/{number}")
    first = await desk.open(HERE)
    (older,) = [given["href"] for tag, given in first.tags if tag == "a" and "after=" in given.get("href", "")]
    assert ("/v1/orders/50" in first.text, "/v1/orders/0 " in first.text) == (True, False)
    second = await desk.open(older)
    assert "/v1/orders/0" in second.text
    assert "Newest" in second.text
    assert 'data-live="requests' in first.html
    assert 'data-live="requests' not in second.html


async def test_dropped_requests_are_counted(database: Database) -> None:
    """The list is not complete then, and says so."""
    async with running(database, workers=False) as service:
        for _ in range(300):
            await service.request("GET", "/v1/orders/x", token="none")
        assert (
            "requests were not recorded since this process started" in (await (await console(service)).open(HERE)).text
        )


async def test_one_request_is_shown_with_its_answer(service: Service) -> None:
    """The message for people comes first, then the facts, both bodies and the command."""
    answer = {"errors": [{"code": "order_not_found", "message": "The order does not exist.", "details": ["Look."]}]}
    entry_id = await record(
        service, "POST", "/v1/orders/x?a=b c", status=404, error="order_not_found", reason="unknown order",
        idempotency_key="k", request_body='{"a":"it\'s"}', response_body=json.dumps(answer),
    )  # fmt: skip
    shown = await (await console(service)).open(f"{HERE}/{entry_id}")
    for text in ("The order does not exist.", "Look.", "unknown order", "search_orders", '"a": "it\'s"'):
        assert text in shown.text, text
    assert "/v1/orders/x?a=b%20c" in shown.text
    assert """--data-raw '{"a":"it'"'"'s"}'""" in shown.text
    assert '"Authorization: Bearer $PAYDESK_ACCESS_TOKEN"' in shown.text
    assert "First set $PAYDESK_BASE_URL, $PAYDESK_ACCESS_TOKEN." in shown.text


async def test_in_production_there_are_no_bodies(database: Database) -> None:
    """Nor a button to send the request again. The command names what to fill in."""
    async with running(database, workers=False) as service:
        entry_id = await record(service, "POST", "/v1/orders")
        desk = await console(service)
        shown = await desk.open(f"{HERE}/{entry_id}")
        assert "Bodies are recorded in development only." in shown.text
        assert '"$PAYDESK_BASE_URL"/v1/orders' in shown.text
        assert "-d @body.json" in shown.text
        assert f"{HERE}/{entry_id}/send" not in shown.html
        assert (await desk.get(f"{HERE}/{entry_id}/send")).status == 404
        assert (await desk.operator.ask("POST", f"requests/{entry_id}/send", {})).status == 404  # type: ignore[union-attr]


async def test_what_clients_send_is_escaped(service: Service) -> None:
    """In every fact, in the lists and in the command."""
    texts = dict.fromkeys(("reason", "user_agent", "idempotency_key", "request_body", "response_body"), SCRIPT)
    entry_id = await record(service, "GET", f"/v1/{SCRIPT}", status=404, error="not_found", operation="", **texts)
    desk = await console(service)
    for path in (HERE, f"{HERE}/{entry_id}", f"{HERE}/{entry_id}/send"):
        shown = await desk.open(path)
        assert SCRIPT not in shown.html
        assert "alert(1)" in shown.html


async def test_an_unknown_request_is_a_page_that_says_so(service: Service) -> None:
    """With how long requests are kept."""
    shown = await (await console(service)).open(f"{HERE}/{UNKNOWN}", 404)
    assert "The last 10,000 are kept" in shown.text


async def sent(one: Resettable, desk: Console, path: str, body: Any, key: str) -> str:
    """Send a request as the demo application; return its entry's id."""
    document = one.document()
    reply = await one.service.request("POST", path, body, token=document["test"]["access_token"], key=key)
    query = f"requests?request_id={reply.headers['X-Request-Id']}"
    async with asyncio.timeout(HANGS_SECONDS):
        while not (found := (await desk.operator.did("GET", query))["data"]):  # type: ignore[union-attr]  # noqa: ASYNC110 - an operator would look again, too
            await asyncio.sleep(0.02)
    return str(found[0]["entry_id"])


def unusable() -> dict[str, Any]:
    """Return the body of an order without a terminal that exists."""
    return order_body("NEWLAND_N950__NONE")


@pytest.mark.on_postgres
async def test_a_request_can_be_changed_and_sent_again(one: Resettable) -> None:
    """The next page is the one of the request that was sent: as the same application, with a new key."""
    desk = await console(one.service)
    terminal_id = one.document()["terminals"][0]["id"]
    entry_id = await sent(one, desk, "/v1/orders", unusable(), "key-1")
    assert f"{HERE}/{entry_id}/send" in (await desk.open(f"{HERE}/{entry_id}")).html
    body = json.dumps(order_body(terminal_id), indent=2)
    page = await desk.act(f"{HERE}/{entry_id}/send", body=body)
    shown = await desk.open(page.location)
    assert "Sent: it was answered with 201." in shown.text
    assert terminal_id in shown.text
    assert "key-1" not in shown.text
    assert page.location.startswith(f"{HERE}/0")
    (entry,) = [row for row in await audited(one.service) if row.action == "requests.send"]
    assert entry.subject == entry_id
    assert (entry.after["method"], entry.after["path"]) == ("POST", "/v1/orders")


async def test_the_audit_entry_has_the_path_that_was_sent_without_secrets(one: Resettable) -> None:
    """Also if a secret in it is percent-encoded."""
    entry_id = await record(one.service, "GET", "/v1/orders")
    path = "/v1/orders?external_reference=a&token=secret-1&b=whsec%5FAAAAAAAAAAAAAAAA"
    await one.owner.did("POST", f"requests/{entry_id}/send", {"path": path})
    (entry,) = [row for row in await audited(one.service) if row.action == "requests.send"]
    assert entry.after["path"].startswith("/v1/orders?external_reference=a&token=")
    assert "secret-1" not in entry.after["path"]
    assert "AAAA" not in entry.after["path"]


async def test_with_the_recorded_key_the_stored_answer_is_sent(one: Resettable) -> None:
    """Nothing is done again."""
    desk = await console(one.service)
    body = order_body(one.document()["terminals"][0]["id"])
    entry_id = await sent(one, desk, "/v1/orders", body, "key-1")
    says = await desk.done(f"{HERE}/{entry_id}/send", key="key-1")
    assert "the stored answer of an earlier request with this key, 201" in says


@pytest.mark.parametrize("role", ["support", "viewer"])
async def test_a_role_that_reads_cannot_send(service: Service, role: str) -> None:
    """There is no button, and 403 by hand."""
    desk = await console(service, role)
    entry_id = await record(service, "GET", "/v1/orders")
    assert "Edit and send" not in (await desk.open(f"{HERE}/{entry_id}")).text
    assert (await desk.get(f"{HERE}/{entry_id}/send")).status == 403
    assert (await desk.send(f"{HERE}/{entry_id}/send", key="k")).status == 403
    assert await desk.operator.refused("POST", f"requests/{entry_id}/send", {}) == (403, "forbidden")  # type: ignore[union-attr]


@each(
    "path, changed, words",
    [
        ("/device/v1/hello", {}, "only requests below /v1/ and /terminals/"),
        ("/oauth/token", {}, "only requests below /v1/ and /terminals/"),
        ("/v1/orders", {"path": "/operator/v1/operators"}, "path"),
        ("/v1/orders", {"path": "/v1/orders\r\nX-A: b"}, "path"),
        ("/v1/orders", {"idempotency_key": "x" * 65}, "idempotency_key"),
        ("/v1/orders", {"idempotency_key": "a b"}, "idempotency_key"),
        ("/v1/orders", {"token": "x"}, "token"),
    ],
)
async def test_what_cannot_be_sent_is_refused(one: Resettable, path: str, changed: dict[str, str], words: str) -> None:
    """The error says why."""
    entry_id = await record(one.service, "POST", path)
    reply = await one.owner.ask("POST", f"requests/{entry_id}/send", changed)
    assert reply.status in (400, 409), reply.body
    assert words in reply.details[0], reply.body


async def test_without_a_token_of_its_sender_a_request_cannot_be_sent(one: Resettable) -> None:
    """Only the demo application has tokens in the credentials file."""
    entry_id = await record(one.service, "GET", "/v1/orders", application_id=1)
    reply = await one.owner.ask("POST", f"requests/{entry_id}/send", {})
    assert (reply.status, reply.code) == (409, "cannot_send_again")
    assert "no access token of this application" in reply.details[0]


@pytest.mark.parametrize("path", ["/v1/../operator/v1/operators", "/v1/%2e%2e/operator/v1/operators", "/v1//x"])
async def test_a_path_leads_nowhere_else(one: Resettable, path: str) -> None:
    """It is sent with the token of an application, so other surfaces refuse it anyway."""
    entry_id = await record(one.service, "GET", "/v1/orders", application_id=None, seller_id=None)
    made = await one.owner.did("POST", f"requests/{entry_id}/send", {"path": path})
    assert made["status"] in (400, 401, 403, 404)
