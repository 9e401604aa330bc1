"""Validation of subscription requests."""

from __future__ import annotations

import pytest

from paydesk.core.errors import PROPERTY_VALUE, Refusal
from paydesk.engine.webhooks.subscriptions.store import refuse_invalid
from tables import each


async def _details(*, topic: str = "orders", url: str = "https://93.184.216.34/", actions: tuple[str, ...] = ()) -> str:
    try:
        await refuse_invalid(topic=topic, url=url, actions=actions, ports=(443,), loopback_allowed=False)
    except Refusal as refusal:
        return "\n".join(refusal.details) if refusal.kind is PROPERTY_VALUE else str(refusal)
    return ""


@each(
    "request_fields, detail",
    [
        ({}, ""),
        ({"actions": ("order.created", "order.refund_failed")}, ""),
        (
            {"topic": "point_integration_wh"},
            "'$.topic' - point_integration_wh is no longer supported; use orders",
        ),
        ({"topic": "payments"}, "'$.topic' - must be orders or mp-connect"),
        ({"topic": "mp-connect"}, ""),
        ({"topic": "mp-connect", "actions": ("application.authorized", "application.deauthorized")}, ""),
        (
            {"topic": "mp-connect", "actions": ("order.created",)},
            "'$.actions[0]' - must be one of application.authorized, application.deauthorized",
        ),
        ({"topic": "mp-connect", "url": "http://93.184.216.34/"}, "'$.url' - must be https"),
        ({"actions": ("application.authorized",)}, "'$.actions[0]' - must be one of order.created, "),
        ({"url": "http://93.184.216.34/"}, "'$.url' - must be https"),
        ({"url": "https://10.0.0.1/"}, "'$.url' - must resolve to public addresses only"),
        ({"actions": ("order.created", "order.sold")}, "'$.actions[1]' - must be one of order.created, "),
    ],
)
async def test_an_invalid_request_has_a_detail(request_fields: dict[str, object], detail: str) -> None:
    """The detail names the valid values, and the successor of the earlier topic."""
    found = await _details(**request_fields)  # type: ignore[arg-type] # a row of a table
    assert found == detail or (detail and found.startswith(detail))


async def test_a_private_address_is_refused_in_development_too() -> None:
    """There this machine is allowed, and the message says so."""
    with pytest.raises(Refusal) as refused:
        await refuse_invalid(topic="orders", url="http://10.0.0.1/", actions=(), ports=(), loopback_allowed=True)
    assert refused.value.details == (
        "'$.url' - must resolve to public addresses only, or to this machine, such as 127.0.0.1",
    )


async def test_all_faults_are_reported_at_once() -> None:
    """Topic, URL and actions are checked together."""
    assert (await _details(topic="x", url="ftp://x", actions=("y",))).count("\n") == 2
