"""The notifications that the service sends, as the `webhooks` of the OpenAPI document: one for each action."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from paydesk.core.response import Response, schema_of
from paydesk.platform.http.openapi.components import Json
from paydesk.platform.operation import Query

TAG = "webhook"
TAGS = {TAG: "Notifications: requests that Paydesk sends to the URLs of the application's subscriptions."}
RESPONSES: Json = {
    "2XX": {"description": "Delivered. The body of the response is not used."},
    "default": {"description": "A failed attempt, also if the response is a redirect. It is repeated later."},
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
    def body(self) -> tuple[str, type[Response]]:
        """The name of the body's schema in the document, and its type."""

    @property
    def example(self) -> Any:
        """A complete body."""


def documents(webhooks: Iterable[Webhook]) -> Json:
    """Return the OpenAPI object `webhooks`."""
    return {webhook.action: {"post": _document(webhook)} for webhook in webhooks}


def schemas(webhooks: Iterable[Webhook]) -> Json:
    """Return the schemas to which `documents` refers."""
    return {name: schema_of(body) for name, body in (webhook.body for webhook in webhooks)}


def _document(webhook: Webhook) -> Json:
    parameters = [("query", query) for query in webhook.query] + [("header", header) for header in webhook.headers]
    schema = {
        "allOf": [
            {"$ref": f"#/components/schemas/{webhook.body[0]}"},
            {"properties": {"action": {"const": webhook.action}}},
        ]
    }
    described: Json = {"operationId": webhook.name, "summary": webhook.summary, "tags": [TAG], "security": []}
    if webhook.description:
        described["description"] = webhook.description
    return described | {
        "parameters": [
            {"name": one.name, "in": place, "description": one.description, "schema": one.schema, "required": True}
            for place, one in parameters
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema, "example": webhook.example}},
        },
        "responses": RESPONSES,
    }
