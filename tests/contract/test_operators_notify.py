"""Subscriptions of operators: who makes and changes them, by HTTP, in the console and in the audit trail."""

from __future__ import annotations

from typing import Any

import pytest

from console_scene import console, links, main_of
from notified_scene import notified
from operator_calls import Operator, audited, operator
from paydesk.engine.webhooks.subscriptions.store import EVERY_TOPIC
from paydesk.platform import operator_events
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.storage.database import Database
from service import Service, running
from tables import each

URL = "https://93.184.216.34/hooks"
ALL = list(EVERY_TOPIC["operators"])


async def subscribed(owner: Operator, **fields: Any) -> dict[str, Any]:
    """Subscribe operators; return the document without the secret."""
    made = await owner.did("POST", "subscriptions/operators", {"url": URL, **fields})
    assert made.pop("secret").startswith("whsec_")
    return made


@pytest.mark.on_postgres
async def test_an_owner_subscribes_operators(service: Service, owner: Operator) -> None:
    """The document has no application; the list, a change and the audit trail are as those of applications."""
    made = await subscribed(owner, actions=["event.owner_added", "attention"])
    assert made == {
        "id": made["id"],
        "topic": "operators",
        "live_mode": True,
        "url": URL,
        "actions": ["attention", "event.owner_added"],
        "status": "active",
        "created_date": made["created_date"],
        "secrets": [{"id": "1", "is_primary": True, "created_date": made["created_date"]}],
    }
    assert await owner.did("GET", f"subscriptions/{made['id']}") == made
    for sort in ("id", "urgency"):
        assert (await owner.did("GET", f"subscriptions?sort={sort}"))["data"] == [made]
    changed = await owner.did("PATCH", f"subscriptions/{made['id']}", {"actions": ALL})
    assert changed["actions"] == ALL
    rotated = await owner.ask("POST", f"subscriptions/{made['id']}/secrets")
    assert rotated.status == 201
    assert (await owner.ask("DELETE", f"subscriptions/{made['id']}")).status == 204
    lines = await audited(service)
    assert [line.action for line in lines] == [
        "subscriptions.create",
        "subscriptions.change",
        "subscriptions.secrets.add",
        "subscriptions.delete",
    ]
    assert lines[0].after == made


@each("role", ["viewer", "support", "operator"])
async def test_only_owners_make_and_change_them(service: Service, owner: Operator, role: str) -> None:
    """Every other role is refused, and nothing changes; it may read them."""
    made, other = await subscribed(owner), await operator(service, role)
    path = f"subscriptions/{made['id']}"
    refused: list[tuple[str, str, Any]] = [
        ("POST", "subscriptions/operators", {"url": URL}),
        ("PATCH", path, {"url": f"{URL}/2"}),
        ("DELETE", path, None),
        ("POST", f"{path}/pause", None),
        ("POST", f"{path}/resume", None),
        ("POST", f"{path}/secrets", None),
        ("POST", f"{path}/secrets/1/promote", None),
        ("DELETE", f"{path}/secrets/1", None),
    ]
    for method, at, body in refused:
        assert await other.refused(method, at, body) == (403, "forbidden"), (method, at)
    assert await other.did("GET", path) == made
    assert {line.action for line in await audited(service)} == {"subscriptions.create"}


@each(
    "body, code",
    [
        ({"actions": []}, "required_properties"),
        ({"url": "https://10.0.0.1/hooks"}, "property_value"),
        ({"url": "http://93.184.216.34/hooks"}, "property_value"),
        ({"url": URL, "actions": ["order.created"]}, "property_value"),
        ({"url": URL, "actions": ["event.nothing"]}, "property_value"),
        ({"url": URL, "topic": "operators"}, "unsupported_properties"),
        ({"url": URL, "client_id": 1}, "unsupported_properties"),
    ],
)
async def test_an_invalid_request_is_refused(owner: Operator, body: dict[str, Any], code: str) -> None:
    """By the rules of applications' subscriptions, with the actions of operators."""
    assert await owner.refused("POST", "subscriptions/operators", body) == (400, code)


async def test_an_application_cannot_have_the_topic(service: Service, owner: Operator) -> None:
    """Nor their actions."""
    body = {"client_id": service.scene.application.application_id, "url": URL}
    assert await owner.refused("POST", "subscriptions", {**body, "topic": "operators"}) == (400, "property_value")
    assert await owner.refused("POST", "subscriptions", {**body, "actions": ["event"]}) == (400, "property_value")
    assert await owner.refused("POST", "subscriptions", {**body, "client_id": 1}) == (404, "application_not_found")


@pytest.mark.parametrize("role", ["owner", "operator", "viewer"])
async def test_the_console_has_them(database: Database, role: str) -> None:
    """Each role reads them; owners alone have the forms."""
    async with notified(database) as one:
        made = await one.subscribe()
        event = OperatorEvent("late_approval", "ORD01J67CQQH5904WDBVZEM4JMEP3", "Late.")
        await one.service.database.write(lambda tx: operator_events.record(tx, event, one.now_ms))
        await one.step()
        browser, page = await console(one.service, role), f"/console/webhooks/subscriptions/{made['id']}"
        listed, shown = await browser.open("/console/webhooks"), await browser.open(page)
        (delivery,) = (await one.desk.did("GET", "deliveries"))["data"]
        inspected = await browser.open(f"/console/webhooks/deliveries/{delivery['id']}")
        found = set(links(listed)) | set(links(shown))
        for tail in ("pause", "change", "rotate", "delete"):
            assert (f"{page}/{tail}" in found) == (role == "owner"), tail
        assert ("/console/webhooks/notify-operators" in found) == (role == "owner")
        assert "Operators" in main_of(listed)
        assert "operator events" in main_of(shown)
        assert "event.late_approval" in main_of(shown)
        assert "Operators" in main_of(inspected)
        if role != "owner":
            assert (await browser.get("/console/webhooks/notify-operators")).status == 403


async def test_an_owner_subscribes_operators_in_the_console(database: Database) -> None:
    """The form has both groups; that of a change has the single kinds that are chosen, too."""
    async with running(database, workers=False) as service:
        browser = await console(service, "owner")
        page = await browser.open("/console/webhooks/notify-operators")
        assert page.html.count('type="checkbox"') == 2
        done = await browser.send("/console/webhooks/notify-operators", url=URL, **{"actions.attention": "yes"})
        assert "whsec_" in done.html
        (made,) = (await (await operator(service, "viewer")).did("GET", "subscriptions"))["data"]
        assert made["actions"] == ["attention"]
        owner, path = await operator(service), f"/console/webhooks/subscriptions/{made['id']}"
        await owner.did("PATCH", f"subscriptions/{made['id']}", {"actions": ["attention", "event.owner_added"]})
        assert (await browser.open(f"{path}/change")).html.count('type="checkbox"') == 3
        await browser.done(f"{path}/change", **{"actions.attention": ""})
        assert (await owner.did("GET", f"subscriptions/{made['id']}"))["actions"] == ["event.owner_added"]
