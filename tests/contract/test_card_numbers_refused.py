"""Card numbers are refused in descriptions always, and in references where the setting says so."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from page_scene import authorization
from paydesk.platform.settings import Settings, SettingsError, load
from paydesk.platform.storage.database import Database
from raw_http import exchange, head
from service import Service, order_body, running
from tables import each

NUMBER = "4509953566233704"
REFERENCES: list[tuple[str, dict[str, Any]]] = [
    ("$.external_reference", {"external_reference": f"sale_{NUMBER}"}),
    ("$.integration_data.platform_id", {"integration_data": {"platform_id": NUMBER}}),
    ("$.integration_data.integrator_id", {"integration_data": {"integrator_id": NUMBER}}),
    ("$.integration_data.corporation_id", {"integration_data": {"corporation_id": "4509 9535 6623 3704"}}),
    ("$.integration_data.sponsor.id", {"integration_data": {"sponsor": {"id": NUMBER}}}),
    ("$.payer.email", {"payer": {"email": f"buyer-{NUMBER}@shop.example"}}),
    ("$.config.point.ticket_number", {"config": {"point": {"ticket_number": NUMBER}}}),
]


@pytest.fixture
async def checking(database: Database) -> AsyncIterator[Service]:
    """A service that checks references."""
    async with running(database, settings=Settings(card_numbers_refused_in_references=True), workers=False) as service:
        yield service


async def _create(service: Service, fields: dict[str, Any], **options: Any) -> Any:
    terminal = await service.terminal()
    body = order_body(terminal.id, **{name: value for name, value in fields.items() if name != "config"})
    body["config"]["point"] |= fields.get("config", {}).get("point", {})
    return await service.request("POST", "/v1/orders", body, **options)


@each("place, fields", REFERENCES)
async def test_a_card_number_in_a_reference_is_property_value(
    checking: Service, place: str, fields: dict[str, Any]
) -> None:
    """Each with its place."""
    reply = await _create(checking, fields)
    assert (reply.status, reply.code) == (400, "property_value")
    assert reply.details == [f"'{place}' - must not contain a card number"]


async def test_references_are_not_checked_by_default(service: Service) -> None:
    """About one numeric identifier of 16 digits in twenty looks like a card number."""
    for _, fields in REFERENCES:
        assert (await _create(service, fields)).status == 201
    assert (await _create(service, {}, key=NUMBER)).status == 201
    reply = await service.request("GET", "/v1/orders", headers={"X-Request-Id": NUMBER})
    assert reply.headers["x-request-id"] == NUMBER
    reply = await _create(service, {"description": f"paid with {NUMBER}"})
    assert (reply.status, reply.code) == (400, "property_value")


async def test_a_card_number_as_idempotency_key_is_refused(checking: Service) -> None:
    """The message names what to send instead, and that is never refused."""
    reply = await _create(checking, {}, key=NUMBER)
    assert (reply.status, reply.code) == (400, "invalid_idempotency_key_length")
    assert "send a UUID" in reply.body["message"]
    assert (await _create(checking, {}, key="41111111-1111-1111-8000-000000000000")).status == 201


async def test_a_card_number_as_request_id_is_replaced(checking: Service) -> None:
    """By a new UUID, also where the path, the method or the head is refused; any other one stays."""
    unrouted = [("GET", "/v2/orders"), ("PATCH", "/v1/orders"), ("GET", "/point/integration-api/devices")]
    for method, path in [("GET", "/v1/orders"), *unrouted]:
        for sent in (NUMBER, f"till-{NUMBER}"):
            reply = await checking.request(method, path, headers={"X-Request-Id": sent})
            assert uuid.UUID(reply.headers["x-request-id"])
    malformed = head("GET", "/v1/orders", f"X-Request-Id: {NUMBER}", "Content-Length: 1", "Content-Length: 2")
    assert uuid.UUID((await exchange(checking, malformed)).headers["x-request-id"])
    reply = await checking.request("GET", "/v1/orders", headers={"X-Request-Id": "till-1"})
    assert reply.headers["x-request-id"] == "till-1"


async def test_a_card_number_as_state_goes_back_as_an_error(checking: Service) -> None:
    """The error goes to the redirect URI; without the number the seller sees the page."""
    path = authorization(checking, state=NUMBER)
    reply = await checking.request("GET", path, token=None, key=None)
    assert reply.status == 303
    assert "error=invalid_request" in reply.headers["location"]
    reply = await checking.request("GET", authorization(checking, state="xyz"), token=None, key=None)
    assert reply.status == 200


def test_a_wrong_value_of_the_setting_is_refused() -> None:
    """The message names the setting and what was expected."""
    with pytest.raises(SettingsError, match=r"PAYDESK_CARD_NUMBERS_REFUSED_IN_REFERENCES.*boolean.*card"):
        load({"PAYDESK_CARD_NUMBERS_REFUSED_IN_REFERENCES": "sometimes"})
