"""The documents only gain something beside those of the last release (docs: within a version nothing is taken away)."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import openapi_additions
from tables import each

SINCE = re.compile(
    # The service refused these before; now the schema says so.
    r"POST /(operator/)?v1/orders(/\{order_id\}/refund)? request\.(transactions.*|total_)amount: pattern"
    r"|PATCH /terminals/v1/setup request\.terminals: uniqueItems"
    r"|POST /operator/v1/deliveries/replay request: newly required"
    # The schema of a body that had none; the service accepts any.
    r"|PUT /device/v1/leases/\S+ request\.outcome: newly required"
    # Subscriptions to what operators are notified of have no application.
    r"|\w+ /operator/v1/subscriptions\S* 20[01](\.data\[\])?\.client_id: may be missing"
)
ORDER = "POST /v1/orders"
CANCEL, TOKEN = "POST /v1/orders/{order_id}/cancel", "POST /oauth/token"


@pytest.fixture(scope="module")
def current() -> dict[str, Any]:
    """What the comparison reads of the documents of today."""
    return openapi_additions.current()


def test_documents_lost_nothing_since_the_last_release(current: dict[str, Any]) -> None:
    """No operation, parameter or member of an answer; and no request that was valid is refused."""
    (file,) = openapi_additions.FOLDER.glob("released-*.json")
    losses = openapi_additions.losses(json.loads(file.read_text()), current)
    assert [one for one in losses if not SINCE.fullmatch(one)] == []


def _without(place: str, *steps: str) -> Callable[[Any], Any]:
    def change(document: Any) -> None:
        target = document[place]
        for step in steps[:-1]:
            target = target[step]
        del target[steps[-1]]

    return change


def _with(value: Any, place: str, *steps: str) -> Callable[[Any], Any]:
    def change(document: Any) -> None:
        target = document[place]
        for step in steps[:-1]:
            target = target[step]
        target[steps[-1]] = value

    return change


ANSWER = ("answers", "201")
REQUEST = ("request", "properties")
BREAKS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda document: document.pop(ORDER), f"{ORDER}: removed"),
    (_with("make_order", ORDER, "operationId"), f"{ORDER}: operationId make_order"),
    (_without(ORDER, *ANSWER), f"{ORDER} 201: removed"),
    (_without(ORDER, *ANSWER, "properties", "status"), f"{ORDER} 201.status: removed"),
    (_with(True, CANCEL, "needs_body"), f"{CANCEL} request: newly required"),
    (_without(TOKEN, *REQUEST, "test_token"), f"{TOKEN} request.test_token: removed"),
    (_with([], ORDER, *ANSWER, "required"), f"{ORDER} 201.id: may be missing"),
    (_with(["integer"], ORDER, *ANSWER, "properties", "id", "type"), f"{ORDER} 201.id: type"),
    (_without("GET /v1/orders", "parameters", "query offset"), "GET /v1/orders query offset: removed"),
    (
        _with({"required": True, "schema": {}}, "GET /v1/orders", "parameters", "query day"),
        "GET /v1/orders query day: newly required",
    ),
    (_without(ORDER, *REQUEST, "description"), f"{ORDER} request.description: removed"),
    (_with(["type", "description"], ORDER, "request", "required"), f"{ORDER} request.description: newly required"),
    (_with(100, ORDER, *REQUEST, "description", "maxLength"), f"{ORDER} request.description: maxLength"),
    (_with(["integer"], ORDER, *REQUEST, "description", "type"), f"{ORDER} request.description: type"),
    (_with("^a$", ORDER, *REQUEST, "external_reference", "pattern"), f"{ORDER} request.external_reference: pattern"),
    (_with(["BRL"], ORDER, *REQUEST, "currency", "enum"), f"{ORDER} request.currency: fewer values"),
]


@each("change, loss", BREAKS)
def test_each_loss_is_found(current: dict[str, Any], change: Callable[[Any], Any], loss: str) -> None:
    """One that is planted in the documents of today."""
    broken = copy.deepcopy(current)
    change(broken)
    assert loss in openapi_additions.losses(current, broken)


def test_what_is_added_is_no_loss(current: dict[str, Any]) -> None:
    """A member, a value, an optional parameter, an operation."""
    later = copy.deepcopy(current)
    later["GET /v1/news"] = later[ORDER]
    later[ORDER]["answers"]["201"]["properties"]["news"] = {"type": ["string"]}
    later[ORDER]["answers"]["201"]["properties"]["status"]["enum"].append("news")
    later[ORDER]["request"]["properties"]["news"] = {"type": ["string"]}
    later[ORDER]["parameters"]["query news"] = {"required": False, "schema": {"type": ["string"]}}
    assert openapi_additions.losses(current, later) == []
