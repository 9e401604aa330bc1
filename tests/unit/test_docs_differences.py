"""Where Paydesk differs from the vendor's description: a frozen list, with a reason for each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tools.docs.differences import REASONS

import described
from every_operation import API
from tables import each

ORDER = "/v1/orders/{order_id}"


@pytest.fixture(scope="module")
def text() -> str:
    """Our OpenAPI document."""
    return API.openapi_json()


def _declared() -> list[described.Difference]:
    return [
        difference
        for reason in REASONS
        for where, theirs, ours in reason.rows
        for difference in (
            *((where, word, "") for word in theirs.split()),
            *((where, "", word) for word in ours.split()),
        )
    ]


def test_each_difference_is_declared_once_with_its_reason(text: str) -> None:
    """The table has what differs, and nothing else: a new difference gets a reason, a former one leaves the table."""
    declared, found = _declared(), described.differences(described.FACTS, json.loads(text))
    assert sorted(found - set(declared)) == [], "new: give it a reason in tools/docs/differences.py, or mend it"
    assert sorted(set(declared) - found) == [], "no longer different: remove it from tools/docs/differences.py"
    assert len(declared) == len(set(declared))
    assert all(reason.text.endswith(".") for reason in REASONS)


def _order(document: Any) -> Any:
    return document["components"]["schemas"]["Order"]["properties"]


def _schemas(document: Any) -> Any:
    return document["components"]["schemas"]


CHANGES: tuple[tuple[Callable[[Any], Any], described.Difference], ...] = (
    (lambda it: it["paths"].pop(ORDER), ("GET /v1/orders/{id}", "operation", "")),
    (lambda it: it["paths"][ORDER]["get"]["responses"].pop("404"), ("GET /v1/orders/{id} statuses", "404", "")),
    (lambda it: _order(it).pop("created_date"), ("Order", "created_date", "")),
    (lambda it: _order(it).update(total_amount={"type": "number"}), ("Order.total_amount", "", "number")),
    (lambda it: _order(it)["status"]["enum"].append("paused"), ("Order.status", "", "paused")),
    (lambda it: _order(it)["status"]["enum"].remove("created"), ("Order.status", "created", "")),
    (
        lambda it: _schemas(it)["OrderRequest"]["required"].append("description"),
        ("POST /v1/orders request.required", "", "description"),
    ),
    (
        lambda it: _schemas(it)["RefundPartRequest"]["properties"].update(reason={"type": "string"}),
        ("POST /v1/orders/{order_id}/refund request.transactions[]", "", "reason"),
    ),
    (
        lambda it: it["paths"]["/v1/orders"]["get"]["parameters"][0].update(schema={"type": "integer"}),
        ("GET /v1/orders parameters.begin_date", "", "integer"),
    ),
)


@each("change, expected", CHANGES, ids=lambda value: value[0] if isinstance(value, tuple) else "")
def test_a_change_of_the_document_is_a_new_difference(
    text: str, change: Callable[[Any], Any], expected: described.Difference
) -> None:
    """Operations, statuses, fields, types, values and what requests require are compared, down to the last field."""
    document = json.loads(text)
    change(document)
    found = described.differences(described.FACTS, document)
    assert expected in found
    assert expected not in _declared()
