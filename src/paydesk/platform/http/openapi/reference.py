"""The operation that serves the OpenAPI document, generated from the tables of operations and of notifications."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from paydesk.platform.http.openapi import document as openapi
from paydesk.platform.http.openapi.notifications import Webhook
from paydesk.platform.http.refusals.retired import DESCRIBED
from paydesk.platform.operation import Answer, Call, Operation
from paydesk.platform.rows import Rows

_PUBLIC = Rows("public", transaction="none", is_constant=True)


def rows(operations: Iterable[Operation], webhooks: Sequence[Webhook]) -> tuple[Operation, ...]:
    """Return the operation that serves the document, which describes all these and itself."""
    described = tuple(operations)

    @cache
    def document() -> Answer:
        text = openapi.as_json(openapi.document((*described, *served), DESCRIBED, webhooks))
        return Answer(200, text.encode(), (("cache-control", "no-cache"),))

    async def show_document(_: Call) -> Answer:
        """Get the OpenAPI 3.1 document."""
        return document()

    served = (_PUBLIC.get("/openapi.json", "openapi", show_document),)
    return served
