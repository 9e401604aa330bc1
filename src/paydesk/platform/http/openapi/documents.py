"""The four OpenAPI documents, by the programs that read them, and the operations that serve them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from paydesk.platform.http.openapi import document as openapi
from paydesk.platform.http.openapi.components import Json
from paydesk.platform.http.openapi.notifications import Webhook
from paydesk.platform.http.surfaces import JSON
from paydesk.platform.operation import Answer, Call, Operation, Surface
from paydesk.platform.rows import Rows
from paydesk.platform.web import assets

TERMINALS_PATH = "/device/"


@dataclass(frozen=True, slots=True)
class Document:
    """A document: where it is served, and for which programs."""

    path: str
    summary: str
    has: Callable[[Operation], bool]
    """Returns whether an operation is in it."""
    surface: Surface = "public"
    development: bool = False
    is_for_applications: bool = False
    """Whether it has the notifications."""


DOCUMENTS: Mapping[str, Document] = {
    "applications": Document(
        "/openapi.json",
        "Tokens, in-person orders for card terminals, webhooks.",
        lambda row: row.surface in ("application", "token"),
        is_for_applications=True,
    ),
    "operators": Document(
        "/openapi/operators.json",
        "The interface of operators, health and metrics.",
        lambda row: row.surface in ("operator", "metrics") or not row.path.startswith(TERMINALS_PATH),
        "operators_public",
    ),
    "terminals": Document(
        "/openapi/terminals.json",
        "The interface of card terminals.",
        lambda row: row.path.startswith(TERMINALS_PATH),
    ),
    "development": Document(
        "/openapi/development.json",
        "What only `paydesk dev` has: the clock, virtual terminals, the demo inbox.",
        lambda row: row.development,
        development=True,
    ),
}
"""By name. An operation is in one of them, unless it is a page or an asset of pages."""


def name_of(row: Operation) -> str | None:
    """Return the name of the document that describes the operation; None if none does."""
    is_page = row.surface in ("page", "console", "operators_public") or row.path.startswith(assets.PATH)
    if (
        is_page
        or row.path.startswith(("/docs", "/dev/docs", "/llms.txt", "/openapi"))
        or row.media_type.startswith("text/html")
    ):
        return None
    if row.development:
        return "development"
    return next(name for name, one in DOCUMENTS.items() if one.has(row))


def described(
    name: str, operations: Iterable[Operation], webhooks: Sequence[Webhook] = (), server: str | None = None
) -> Json:
    """Return the document of that name."""
    one = DOCUMENTS[name]
    rows = [row for row in operations if name_of(row) == name]
    sent = webhooks if one.is_for_applications else ()
    return openapi.document(rows, sent, summary=one.summary, server=server)


def rows(operations: Iterable[Operation], webhooks: Sequence[Webhook]) -> tuple[Operation, ...]:
    """Return the operations that serve the documents of these operations."""
    all_rows = tuple(operations)
    return tuple(
        _serving(name, all_rows, webhooks) for name in DOCUMENTS if any(name_of(row) == name for row in all_rows)
    )


def _serving(name: str, operations: tuple[Operation, ...], webhooks: Sequence[Webhook]) -> Operation:
    one = DOCUMENTS[name]

    @cache
    def document(server: str | None) -> Answer:
        text = openapi.as_json(described(name, operations, webhooks, server))
        return Answer(200, text.encode(), (("cache-control", "no-cache"),))

    async def show(call: Call) -> Answer:
        """Get the OpenAPI 3.1 document."""
        server = None if one.surface == "operators_public" else call.settings.public_url
        return await asyncio.to_thread(document, server)

    own = Rows(one.surface, transaction="none", is_constant=True, development=one.development)
    return own.get(one.path, "openapi" if one.is_for_applications else f"openapi_{name}", show, media_type=JSON)
