"""The notifications that the service sends, as the `webhooks` of the OpenAPI document: one for each action."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from paydesk.core.response import Response
from paydesk.platform.http.openapi.components import Json
from paydesk.platform.http.openapi.named_schemas import Schemas
from paydesk.platform.http.openapi.parameters import parameter
from paydesk.platform.operation import Query

TAG = "webhook"
TAGS = {TAG: "Notifications: requests that Paydesk sends to the URLs of the application's subscriptions."}
RESPONSES: Json = {
    "Delivered": {"description": "Delivered. The body of the response is not used."},
    "NotDelivered": {"description": "A failed attempt, also if the response is a redirect. It is repeated later."},
}


class Webhook(Protocol):
    """The notifications of one action."""

    @property
    def topic(self) -> str:
        """The topic of the subscriptions that get them."""

    @property
    def action(self) -> str:
        """The `action` in the body."""

    @property
    def name(self) -> str:
        """Its name in the document, where operations have names too."""

    @property
    def summary(self) -> str:
        """The event, in a few words."""

    @property
    def description(self) -> str:
        """Further facts for receivers; empty for most actions."""

    @property
    def query(self) -> tuple[Query, ...]:
        """The parameters that are added to the subscription's URL."""

    @property
    def headers(self) -> tuple[Query, ...]:
        """The headers of the request."""

    @property
    def body(self) -> type[Response]:
        """The type of the body."""

    @property
    def example(self) -> Any:
        """A complete body."""


def documents(webhooks: Iterable[Webhook], schemas: Schemas) -> Json:
    """Return the OpenAPI object `webhooks`."""
    return {webhook.action: {"post": _document(webhook, schemas)} for webhook in webhooks}


def headers(webhooks: Iterable[Webhook]) -> Json:
    """Return the headers of all notifications, to which `documents` refers."""
    return {one.name: parameter(one, "header") for webhook in webhooks for one in webhook.headers}


def _document(webhook: Webhook, schemas: Schemas) -> Json:
    schema = {
        "allOf": [
            schemas.of_answer(webhook.body),
            {"type": "object", "properties": {"action": {"type": "string", "const": webhook.action}}},
        ]
    }
    described: Json = {"operationId": webhook.name, "summary": webhook.summary, "tags": [TAG], "security": []}
    described["description"] = webhook.description or f"{webhook.summary}."
    return described | {
        "parameters": [
            *(parameter(query, "query") for query in webhook.query),
            *({"$ref": f"#/components/parameters/{header.name}"} for header in webhook.headers),
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema, "example": webhook.example}},
        },
        "responses": {
            "2XX": {"$ref": "#/components/responses/Delivered"},
            "default": {"$ref": "#/components/responses/NotDelivered"},
        },
    }
