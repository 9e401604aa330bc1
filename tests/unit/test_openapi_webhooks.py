"""The notifications in the OpenAPI document."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema_rs
import pytest

from every_operation import API, OPERATIONS
from paydesk.engine.orders import samples, status
from paydesk.engine.orders.openapi import SENT_MS, WEBHOOKS, Webhook
from paydesk.engine.webhooks.schemas import ACTIONS_OF, CONNECT_TOPIC
from paydesk.platform.http.openapi import document as openapi
from tables import each

EVERY_SAMPLE = [
    (webhook, detail)
    for webhook in WEBHOOKS
    for detail in (samples.status_details(webhook.action) if webhook.topic != CONNECT_TOPIC else (None,))
]


@pytest.fixture(scope="module")
def document() -> Any:
    """The document as it is served and committed."""
    return json.loads(API.openapi_json())


def validator(document: Any, action: str) -> jsonschema_rs.Validator:
    """Return a validator of the body of that webhook, with its references."""
    content = document["webhooks"][action]["post"]["requestBody"]["content"]["application/json"]
    schema = {"components": document["components"], **content["schema"]}
    return jsonschema_rs.validator_for(schema, validate_formats=True)


def test_the_document_conforms_to_openapi_3_1(document: Any) -> None:
    """With its webhooks, by the schema that the OpenAPI Initiative publishes."""
    from schemathesis.specs.openapi import definitions

    definitions.OPENAPI_31_VALIDATOR.validate(document)
    broken = copy.deepcopy(document)
    broken["webhooks"]["order.created"]["post"]["parameters"][0].pop("in")
    assert not definitions.OPENAPI_31_VALIDATOR.is_valid(broken)


def test_every_action_has_a_webhook(document: Any) -> None:
    """In the order of the topics, each under a name of its own."""
    assert list(document["webhooks"]) == [action for actions in ACTIONS_OF.values() for action in actions]
    names = [entry["post"]["operationId"] for entry in document["webhooks"].values()]
    assert len({*names, *(row.name for row in OPERATIONS)}) == len(names) + len({row.name for row in OPERATIONS})


def test_every_move_is_announced_by_its_action() -> None:
    """A move whose end has another label with extended statuses is listed under both actions."""
    listed = {webhook.action: {move.name for move in webhook.moves} for webhook in WEBHOOKS}
    assert all(move.name in listed[move.action] for move in status.MOVES)
    assert listed["order.expired"] == {"expire"}
    assert listed["order.action_required"] == {"check"}


@each("webhook, detail", EVERY_SAMPLE, ids=lambda one: getattr(one, "action", one))
def test_every_sample_satisfies_its_schema(document: Any, webhook: Webhook, detail: str | None) -> None:
    """Each detail of each action; under another action's schema it is invalid."""
    body = json.loads(samples.sample(webhook.action, now_ms=SENT_MS, status_detail=detail).body)
    validator(document, webhook.action).validate(body)
    jsonschema_rs.validator_for(webhook.schema, validate_formats=True).validate(body)
    other = next(one.action for one in WEBHOOKS if one.topic == webhook.topic and one.action != webhook.action)
    assert not validator(document, other).is_valid(body)


@each("webhook", WEBHOOKS, ids=lambda webhook: webhook.action)
def test_every_field_of_a_sample_is_described(webhook: Webhook) -> None:
    """A schema that is closed accepts the sample too, so no field is missing from it."""
    for detail in samples.status_details(webhook.action) or (None,):
        body = json.loads(samples.sample(webhook.action, now_ms=SENT_MS, status_detail=detail).body)
        jsonschema_rs.validate(_closed(webhook.schema), body)


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    return {**closed, "additionalProperties": False} if isinstance(schema.get("properties"), dict) else closed


@each("webhook", WEBHOOKS, ids=lambda webhook: webhook.action)
def test_example_and_security(document: Any, webhook: Webhook) -> None:
    """The example is a sample, no credential is sent, and any 2xx is a success."""
    described = document["webhooks"][webhook.action]["post"]
    assert described["requestBody"]["content"]["application/json"]["example"]["action"] == webhook.action
    assert described["security"] == []
    assert set(described["responses"]) == {"2XX", "default"}


@each(
    "field, value",
    [("id", 7), ("user_id", 7), ("type", "mp-connect"), ("api_version", "v2"), ("date_created", "yesterday")],
)
def test_an_invalid_notification_does_not_satisfy_the_schema(document: Any, field: str, value: Any) -> None:
    """The schema is one that can be violated."""
    example = document["webhooks"]["order.processed"]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert not validator(document, "order.processed").is_valid({**example, field: value})


def test_documents_without_webhooks_have_none() -> None:
    """A document of some operations alone."""
    assert openapi.document(OPERATIONS[:1])["webhooks"] == {}
