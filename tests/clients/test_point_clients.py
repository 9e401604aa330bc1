"""The official clients' calls for payment intents, which are retired: each response names the successor.

The clients have no class for 410: what they raise is the one that all their errors have in common.
"""

from __future__ import annotations

import asyncio
from typing import Any

import mercadopago
import pytest
from mercadopago.config.config import Config
from mercadopago.errors import MercadoPagoError

import node_clients
from service import Service

DEVICE, INTENT = "PAX_A910__SMARTPOS1234345545", "7f25f9aa-eea6-4f9c-bf16-a341f71ba2f1"
GUIDE = "See docs/migrate.md, Migrate from payment intents."
ORDER = "/v1/orders/{order_id}"
ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

ON_PYTHON: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("create", (DEVICE, {"amount": 1500}), "POST /v1/orders"),
    ("get", (INTENT,), f"GET {ORDER}"),
    ("cancel", (DEVICE, INTENT), f"POST {ORDER}/cancel"),
    ("get_devices", (), "GET /terminals/v1/list"),
)
"""A method, what it is given, and what its refusal names."""

ON_NODE: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("createPaymentIntent", {"device_id": DEVICE, "request": {"amount": 1500}}, "POST /v1/orders"),
    ("searchPaymentIntent", {"payment_intent_id": INTENT}, f"GET {ORDER}"),
    ("cancelPaymentIntent", {"device_id": DEVICE, "payment_intent_id": INTENT}, f"POST {ORDER}/cancel"),
    ("getPaymentIntentList", {"options": {}}, "GET /v1/orders"),
    ("getPaymentIntentStatus", {"payment_intent_id": INTENT}, "GET /docs"),
    ("getDevices", {"request": {}}, "GET /terminals/v1/list"),
    (
        "changeDeviceOperatingMode",
        {"device_id": DEVICE, "request": {"operating_mode": "PDV"}},
        "PATCH /terminals/v1/setup",
    ),
)


@ON_SQLITE
async def test_the_client_on_python(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call raises the error with 410, its code, the successor and the guide."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(Config, "_Config__api_base_url", service.base_url)
    point = mercadopago.SDK(service.access_token).point()
    for method, given, successor in ON_PYTHON:
        answer = await asyncio.to_thread(getattr(point, method), *given)
        with pytest.raises(MercadoPagoError) as raised:
            answer.raise_for_status()
        error = raised.value
        assert (type(error), error.status_code, error.error) == (MercadoPagoError, 410, "gone"), method
        assert error.message == _message(successor), method


@ON_SQLITE
async def test_the_client_on_node(service: Service) -> None:
    """The same of the client on Node, which has a method for every retired path."""
    node_clients.require()
    calls = [
        asyncio.to_thread(
            node_clients.call,
            service.base_url,
            "Point",
            method,
            accessToken=service.access_token,
            options={},
            given=given,
        )
        for method, given, _ in ON_NODE
    ]
    for (method, _, successor), answer in zip(ON_NODE, await asyncio.gather(*calls), strict=True):
        expected = {"failure": "MercadoPagoError", "status": 410, "error": "gone", "message": _message(successor)}
        assert expected.items() <= answer.items(), method


def _message(successor: str) -> str:
    return f"This operation is retired. Use {successor} instead. {GUIDE}"
