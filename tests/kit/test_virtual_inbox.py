"""The page of the demo inbox: the checks of the signatures, the filter, its pages, and the button that empties it."""

from __future__ import annotations

import html
import json
import re
import time
import urllib.parse
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

import counted
import plain_rows
from cost import turns_within
from page_scene import Browser, Page
from paydesk.console import statuses
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.signatures.mistakes import NamedSecret
from paydesk.engine.webhooks.signatures.signature import manifest, standard_headers, x_signature
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.platform.http.endpoint import Endpoint
from paydesk.platform.storage.database import Database
from paydesk_dev.inbox import page as inbox_page
from paydesk_dev.inbox import receiver as inbox
from paydesk_dev.inbox import store
from paydesk_dev.inbox import view as inbox_view
from paydesk_dev.inbox.checks import NO_SECRET, check
from paydesk_dev.operations import OPERATIONS
from service import KEYS, Service, running
from shared_objects import make_shared

ONE, OTHER = Secret("whsec_" + "T25l" * 8), Secret("whsec_" + "VHdv" * 8)
SECRETS = (NamedSecret("primary secret 2", OTHER.reveal()), NamedSecret("secret 1", ONE.reveal()))
NOW = 1_769_869_602
BODY = (
    b'{"action":"order.processed","data":{"id":"ORD1","status":"processed","status_detail":"accredited","version":3}}'
)
X_UNEXPLAINED = "data.id, X-Request-Id or ts is not the one that was signed: webhook-signature is valid"
STANDARD_UNEXPLAINED = "The body, webhook-id or webhook-timestamp is not the one that was signed: X-Signature is valid"


def signed(
    secret: Secret = ONE, body: bytes = BODY, *, seconds: int = NOW, data_id: str = "ord1", **changes: str
) -> dict[str, str]:
    """Return the headers of a notification, with `changes` (`_` for `-`); an empty value leaves a header out."""
    headers = {
        "x-request-id": "r1",
        "x-retry": "0",
        "x-signature": x_signature(secret, data_id=data_id, request_id="r1", seconds=seconds),
        **standard_headers([secret], message_id="n1", seconds=seconds, body=body.decode()),
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }
    return {name: value for name, value in headers.items() if value}


# The checks. -------------------------------------------------------------------------------------------------------


def test_each_signature_names_the_secret_that_made_it() -> None:
    """Of several valid ones."""
    for secret, name in ((ONE, "secret 1"), (OTHER, "primary secret 2")):
        found = check(SECRETS, signed(secret), "ord1", BODY, NOW)
        assert (found.fault, found.x_signature.secret, found.standard.secret) == ("", name, name)


def test_second_signature_of_an_overlap_is_valid() -> None:
    """`webhook-signature` has one of each secret, X-Signature that of the primary one."""
    both = standard_headers([OTHER, ONE], message_id="n1", seconds=NOW, body=BODY.decode())
    assert not check(SECRETS[1:], {**signed(ONE), **both}, "ord1", BODY, NOW).fault
    assert not check(SECRETS[:1], {**signed(OTHER), **both}, "ord1", BODY, NOW).fault


@pytest.mark.parametrize(
    ("changes", "x_fault", "standard_fault"),
    [
        ({"x_signature": ""}, "The header X-Signature is missing.", ""),
        ({"x_signature": "v1=00"}, "The header has no ts=", ""),
        ({"x_signature": "ts=9999999999999,v1=00"}, X_UNEXPLAINED, ""),
        ({"x_request_id": "r2"}, X_UNEXPLAINED, ""),
        ({"webhook_id": "n2"}, "", STANDARD_UNEXPLAINED),
        ({"webhook_id": ""}, "", "The header webhook-id is missing."),
        ({"webhook_timestamp": "soon"}, "", STANDARD_UNEXPLAINED),
        ({"webhook_signature": "v1,AAAA"}, "", STANDARD_UNEXPLAINED),
        ({"webhook_signature": "v1,\xe9"}, "", STANDARD_UNEXPLAINED),
    ],
)
def test_each_check_has_its_own_reason(changes: dict[str, Any], x_fault: str, standard_fault: str) -> None:
    """A fault of one signature does not hide that the other is valid."""
    found = check(SECRETS, signed(**changes), "ord1", BODY, NOW)
    for one, fault in ((found.x_signature, x_fault), (found.standard, standard_fault)):
        assert bool(one.fault) == bool(fault), one
        assert one.fault.startswith(fault)
        assert bool(one.secret) == (not fault)


def test_changed_body_is_seen_by_standard_webhooks_alone() -> None:
    """X-Signature does not cover the body."""
    found = check(SECRETS, signed(), "ord1", BODY + b" ", NOW)
    assert (found.x_signature.fault, bool(found.standard.fault)) == ("", True)


@pytest.mark.parametrize(("minutes", "when"), [(-6, "6 minutes old"), (7, "in the future"), (-525_600, "365 days old")])
def test_old_time_is_distinguished_from_a_wrong_signature(minutes: int, when: str) -> None:
    """A matching signature keeps the name of its secret."""
    seconds = NOW + minutes * 60
    matching = check(SECRETS, signed(seconds=seconds), "ord1", BODY, NOW)
    wrong = check(SECRETS, signed(Secret("whsec_" + "bm8h" * 8), seconds=seconds), "ord1", BODY, NOW)
    for one in (matching.x_signature, matching.standard):
        assert one.fault.startswith("The signature matches, but its time is ")
        assert when in one.fault
        assert one.secret == "secret 1"
    for one in (wrong.x_signature, wrong.standard):
        assert "is not the one that was signed" in one.fault
        assert one.secret == ""


def test_usual_mistake_is_named() -> None:
    """As `paydesk webhooks verify` does."""
    found = check(SECRETS, signed(data_id="ORD1"), "ord1", BODY, NOW)
    assert found.x_signature.fault == "data.id was signed in upper case: it must be signed as in the query."


def test_without_a_subscription_there_is_no_secret() -> None:
    """Which is the reason of both checks."""
    found = check((), signed(), "ord1", BODY, NOW)
    assert (found.x_signature.fault, found.standard.fault) == (NO_SECRET, NO_SECRET)


def test_another_data_id_is_not_valid() -> None:
    """In another case too; of any size it is stored."""
    for data_id in ("ORD1", "ord2", "", "\0", "\ud800", "x" * 100_000):
        found = check(SECRETS, signed(), data_id.encode(errors="replace").decode(), BODY, NOW)
        assert (bool(found.x_signature.fault), found.standard.fault) == (True, ""), data_id[:60]
        stored = inbox.entry_of({}, BODY, received_ms=1, checks=msgspec.structs.replace(found, data_id=data_id))
        assert len(stored.checks) < 2_000, data_id[:60]


# The view of a notification. ---------------------------------------------------------------------------------------


def shown(headers: Mapping[str, str], body: bytes = BODY) -> dict[str, Any]:
    """Return the notification as the page shows it."""
    checks = check(SECRETS, headers, "ord1", body, NOW)
    return inbox_view.shown(inbox.entry_of(headers, body, received_ms=NOW * 1000, checks=checks))


def test_signed_texts_are_those_of_the_signatures() -> None:
    """With the values that were sent filled in."""
    headers = signed()
    one = shown(headers)
    seconds = headers["webhook-timestamp"]
    assert one["x_signature"]["text"] == manifest("ord1", "r1", seconds) == f"id:ord1;request-id:r1;ts:{seconds};"
    assert one["standard"]["text"] == f"n1.{seconds}.{BODY.decode()[:60]}…"
    assert dict(one["x_signature"]["headers"]) == {"X-Signature": headers["x-signature"], "X-Request-Id": "r1"}
    assert [name for name, _ in one["standard"]["headers"]] == ["webhook-id", "webhook-timestamp", "webhook-signature"]


def test_status_and_its_detail_are_shown_apart_from_the_body() -> None:
    """With the version and the attempt."""
    one = shown(signed(x_retry="3"))
    texts = [one[name] for name in ("status", "status_detail", "version", "attempt")]
    assert texts == ["processed", "accredited", "3", "4"]
    assert one["look"] == ("ok", "check", "Processed")


def test_attempt_of_an_invalid_header_is_not_shown() -> None:
    """Nor does it break the page."""
    retries = ("", "-1", "x", "1" * 30, "\xb2")
    assert {one: shown(signed(x_retry=one))["attempt"] for one in retries} == dict.fromkeys(retries, "")


def test_any_status_can_be_shown() -> None:
    """A sender may send anything."""
    of_any_kind: tuple[Any, ...] = (["x"], True, "x" * 500, None)
    documents: tuple[Any, ...] = (*({"status": one} for one in of_any_kind), [], None, "processed")
    for data in documents:
        one = shown({}, json.dumps({"action": "a", "data": data}).encode())
        assert len(one["status"]) <= inbox_view.TEXT_CHARACTERS_MAX + 1, data
        assert one["look"] == statuses.OTHER, data


def test_long_body_keeps_its_action_and_order() -> None:
    """Though only its start is stored, which is not JSON."""
    body = json.dumps({"action": "order.refunded", "data": {"id": "ORD9"}, "more": "x" * 20_000}).encode()
    one = shown(signed(body=body, data_id="ord1"), body)
    values = [one[name] for name in ("action", "order_id", "is_truncated", "body_bytes")]
    assert values == ["order.refunded", "ORD9", True, len(body)]
    assert not shown(signed())["is_truncated"]


def test_deeply_nested_body_is_not_indented() -> None:
    """Its indentation would be millions of spaces."""
    body = b"[" * 500 + b"1" + b"]" * 500
    assert shown({}, body)["body"] == body.decode()
    assert shown({}, b'{"a":1}')["body"] == '{\n  "a": 1\n}'


def test_entry_of_an_earlier_version_is_shown_without_checks() -> None:
    """It has none stored."""
    one = inbox_view.shown(store.InboxEntry(NOW, 0, '{"x-retry":"0"}', BODY.decode(), ""))
    assert (one["x_signature"], one["standard"], one["fault"]) == (None, None, "The reason was not stored.")
    assert one["action"] == "order.processed"


def test_secrets_of_unsigned_notifications_are_masked_in_filters_too() -> None:
    """Action, order and data.id are values of an unknown sender."""
    secret = "whsec_" + "a" * 40
    body = json.dumps({"action": secret, "data": {"id": f"{'4111111111111111 ' * 50}"}}).encode()
    checks = check(SECRETS, {}, secret, body, NOW)
    entry = inbox.entry_of({}, body, received_ms=1, checks=checks)
    stored = f"{entry.action} {entry.order_id} {entry.checks} {entry.body}"
    assert "a" * 10 not in stored
    assert "4111" not in stored


# The page. ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Inbox:
    """A service whose demo inbox has a subscription, and a browser."""

    service: Service
    secret: Secret
    browser: Browser

    async def send(self, action: str = "order.processed", order_id: str = "", *, valid: bool = True) -> str:
        """Send a notification; return the order's id."""
        order_id = order_id or f"ORD{counted.number():026}"
        body = json.dumps({"action": action, "data": {"id": order_id, "status": "processed"}}).encode()
        headers = signed(self.secret, body, data_id=order_id.lower(), seconds=int(time.time()))
        if not valid:
            headers["x-request-id"] = "another"
        headers["content-type"] = "application/json"
        address, query = f"{self.service.base_url}/demo/inbox", {"data.id": order_id.lower(), "type": "order"}
        async with self.service.session.post(address, params=query, data=body, headers=headers) as reply:
            assert reply.status == 200, await reply.text()
        return order_id

    async def page(self, **query: str) -> Page:
        """Return the page."""
        asked = f"?{urllib.parse.urlencode(query)}" if query else ""
        page = await self.browser.get(f"/demo/inbox{asked}", Accept="text/html")
        assert page.status == 200, page.text
        return page

    async def actions(self, **query: str) -> list[str]:
        """Return the titles of the notifications on the page, in their order."""
        return titles(await self.page(**query))


def titles(page: Page) -> list[str]:
    """Return the titles of the notifications on a page."""
    return [html.unescape(title) for title in re.findall("<h2>(.*?)</h2>", page.html)]


@pytest.fixture
async def scene(database: Database) -> AsyncIterator[Inbox]:
    """A service in development, without workers."""
    async with running(database, workers=False, development=True) as service:
        _, secret = await database.write(
            lambda tx: subscriptions.create(
                tx,
                KEYS,
                application_id=service.scene.application.application_id,
                live=False,
                url=f"{service.base_url}/demo/inbox",
                actions=[],
                now_ms=0,
            )
        )
        yield Inbox(service, secret, Browser(service))


async def test_page_is_escaped_and_has_no_script(scene: Inbox) -> None:
    """Whatever the sender sent."""
    await scene.send("<script>alert(1)</script>", '"><IMG SRC=x>')
    page = await scene.page()
    assert titles(page) == ["<script>alert(1)</script>"]
    assert "<script" not in page.html
    assert "<IMG" not in page.html
    assert "Signature valid" in page.text


@pytest.mark.on_postgres
async def test_newest_come_first_in_pages(scene: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page has a link to older ones, the last has none."""
    monkeypatch.setattr(inbox_page, "SHOWN_MAX", 2)
    for number in range(5):
        await scene.send(f"number {number}")
    seen, page = [], await scene.page()
    assert "5 notifications." in page.text
    assert "Newest" not in page.text
    for _ in range(5):
        seen.append(titles(page))
        older = re.search(r'class="button older" href="([^"]+)"', page.html)
        if older is None:
            break
        page = await scene.browser.get(html.unescape(older[1]), Accept="text/html")
        assert "Newest" in page.text
    assert seen == [["number 4", "number 3"], ["number 2", "number 1"], ["number 0"]]


async def test_new_arrivals_do_not_shift_older_pages(scene: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link names a notification, not a page number."""
    monkeypatch.setattr(inbox_page, "SHOWN_MAX", 1)
    for number in range(3):
        await scene.send(f"number {number}")
    older = re.search(r'class="button older" href="([^"]+)"', (await scene.page()).html)
    assert older is not None
    await scene.send("number 3")
    assert titles(await scene.browser.get(html.unescape(older[1]), Accept="text/html")) == ["number 1"]


@pytest.mark.on_postgres
async def test_filter_by_action_validity_and_order(scene: Inbox) -> None:
    """Alone and together; JSON is always complete."""
    order = await scene.send("order.created")
    await scene.send("order.processed", order)
    await scene.send("order.processed", valid=False)
    assert await scene.actions(action="order.processed") == ["order.processed"] * 2
    assert await scene.actions(signature="invalid") == ["order.processed"]
    assert await scene.actions(signature="valid") == ["order.processed", "order.created"]
    assert await scene.actions(order=order) == await scene.actions(order=f" {order.lower()} ")
    assert await scene.actions(order=order, action="order.created", signature="valid") == ["order.created"]
    assert await scene.actions(action="", signature="", order="") == await scene.actions()
    page = await scene.page(signature="invalid")
    assert "1 of 3 notifications match." in page.text
    assert re.search(r'<option value="invalid" selected>', page.html)
    reply = await scene.service.request("GET", "/demo/inbox?signature=invalid", token=None)
    assert len(reply.body["data"]) == 3


async def test_filter_without_a_match_says_so(scene: Inbox) -> None:
    """And keeps what was typed."""
    await scene.send()
    orders, actions = ("ORD\0", "x" * 2_000, "%' OR 1=1 --"), ("ação \U0001f600", "\ufffd")
    for query in (*({"order": one} for one in orders), *({"action": one} for one in actions)):
        page = await scene.page(**query)
        assert titles(page) == [], query
        assert "No notification matches the filter." in page.text, query
        assert "0 of 1 notifications match." in page.text, query


async def test_invalid_parameters_are_ignored(scene: Inbox) -> None:
    """The page shows the newest notifications."""
    await scene.send()
    for query in ("signature=maybe", "before=", "before=-1", "before=" + "9" * 40, "before=%C2%B2", "x=1"):
        page = await scene.browser.get(f"/demo/inbox?{query}", Accept="text/html")
        assert titles(page) == ["order.processed"], query


async def test_repeated_parameters_are_refused(scene: Inbox) -> None:
    """Of the page, of the list, and of the receiver, which would verify the last `data.id` only."""
    for method, query, accept in (
        ("GET", "action=a&action=b", "text/html"),
        ("GET", "order=&order=", "text/html"),
        ("GET", "limit=1&limit=1", "application/json"),
        ("POST", "data.id=ord1&type=order&data.id=ord2", "application/json"),
    ):
        reply = await scene.service.request(method, f"/demo/inbox?{query}", token=None, headers={"Accept": accept})
        name = query.partition("=")[0]
        assert (reply.status, reply.code) == (400, "property_value"), query
        assert reply.details == [f"'{name}' - must be sent only once"]
    assert await scene.actions() == []


async def test_page_before_the_first_notification_says_so(scene: Inbox) -> None:
    """With a way back."""
    await scene.send()
    page = await scene.page(before="1")
    assert "There are no older notifications." in page.text
    assert "Newest" in page.text


async def test_empty_inbox_names_the_command_for_a_first_notification(scene: Inbox) -> None:
    """And has nothing to filter or to empty."""
    page = await scene.page()
    assert "No notification has arrived yet" in page.text
    assert "paydesk pay 24.90" in page.text
    assert page.forms == []


async def test_button_empties_the_inbox(scene: Inbox) -> None:
    """And returns to the page."""
    await scene.send()
    form = (await scene.page()).form("/demo/inbox/empty")
    reply = await scene.browser.submit(form)
    assert (reply.status, reply.location) == (303, "/demo/inbox")
    assert await scene.actions() == []
    assert (await scene.browser.submit(form)).status == 303, "twice changes nothing"


@pytest.mark.parametrize("change", ["token", "cookie", "site", "origin", "field"])
async def test_form_of_another_site_does_not_empty_the_inbox(scene: Inbox, change: str) -> None:
    """Without the token of the page, its cookie, or from another origin."""
    await scene.send()
    form = (await scene.page()).form("/demo/inbox/empty")
    fields, headers = dict(form.fields), dict[str, str]()
    match change:
        case "token":
            fields["form_token"] = "1-" + "0" * 64
        case "cookie":
            scene.browser.cookies.clear()
        case "site":
            headers["Sec_Fetch_Site"] = "cross-site"
        case "origin":
            headers["Origin"] = "https://elsewhere.example"
        case "field":
            fields["more"] = "1"
    reply = await scene.browser.post("/demo/inbox/empty", fields, **headers)
    assert reply.status == (400 if change == "field" else 403)
    assert "text/html" in reply.headers["content-type"]
    assert await scene.actions() == ["order.processed"]


async def test_json_delete_stays(scene: Inbox) -> None:
    """For scripts."""
    await scene.send()
    assert (await scene.service.request("DELETE", "/demo/inbox", token=None)).status == 204
    assert await scene.actions() == []


@pytest.mark.parametrize(("address", "status"), [("192.0.2.1", 403), ("127.0.0.1", 400)])
async def test_button_works_on_this_machine_only(database: Database, address: str, status: int) -> None:
    """As all of the demo application; a request of this machine gets as far as its missing form token."""
    (button,) = [operation for operation in OPERATIONS if operation.name == "demo_inbox_button"]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": button.path,
        "path_params": {},
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": (address, 50_000),
    }
    await Endpoint(button, make_shared(database))(scope, receive, send)
    assert sent[0]["status"] == status


async def test_other_requests_are_served_while_a_full_inbox_is_read(database: Database) -> None:
    """As JSON, a thousand notifications whose bodies take long to parse."""
    body = b'{"a":[' + b",".join([b"[[],{}]"] * 1_000) + b"]}"
    async with running(database, workers=False, development=True) as service:
        address = f"{service.base_url}/demo/inbox"
        async with service.session.post(address, data=body, headers={"Content-Type": "application/json"}) as answer:
            assert answer.status == 200
        columns = "received_ms, signature_valid, headers, body, action, order_id, checks"
        await plain_rows.run(
            database,
            f"""INSERT INTO demo_inbox (entry_number, {columns})
            WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {store.ENTRIES_MAX})
            SELECT i, {columns} FROM n CROSS JOIN demo_inbox""",
        )

        async def read() -> None:
            async with service.session.get(address) as answer:
                assert (await answer.read()).count(b"received_date") == store.ENTRIES_MAX

        await turns_within(50.0, read)
