"""Fields that the development kit adds to documents of the operator interface."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, wraps
from typing import Any, get_args, get_origin

import msgspec

from paydesk.core.response import Response
from paydesk.operators.lists import Page
from paydesk.platform.operation import Answer, Call, Handled, Operation, ThreePhase
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class Extra:
    """A field of a document, and of those made of it, that has a value for some of them."""

    document: type[Response]
    name: str
    type: Any
    values: Callable[[Shared, Transaction, Sequence[Any]], Awaitable[Mapping[str, Any]]]
    """Returns the values for these documents, by their ids or entries."""

    def extend(self, row: Operation) -> Operation:
        """Return the row with the field, if it answers such a document or a page of them."""
        page = next((one for one in (row.answer, *_bases(row.answer)) if get_origin(one) is Page), None)
        (document,) = (row.answer,) if page is None else get_args(page)
        if not (isinstance(document, type) and issubclass(document, self.document)):
            return row
        handler, kind = row.handler, _with_field(document, self.name, self.type)
        assert not isinstance(handler, ThreePhase), "no operation that calls an external system answers one"

        @wraps(handler)
        async def extended(call: Call) -> Handled:
            answer = await handler(call)
            if not isinstance(answer, Answer):
                return answer
            documents = answer.body.data if page is not None else [answer.body]

            async def read(tx: Transaction) -> Mapping[str, Any]:
                return await self.values(call.shared, tx, documents)

            values = await (call.database.read(read) if row.transaction == "none" else read(call.tx))
            bodies = [kind(**msgspec.structs.asdict(one), **{self.name: values.get(_id(one))}) for one in documents]
            body = msgspec.structs.replace(answer.body, data=bodies) if page is not None else bodies[0]
            return msgspec.structs.replace(answer, body=body)

        return replace(row, handler=extended, answer=kind if page is None else _page_of(row.answer, kind))


def _bases(answer: Any) -> tuple[Any, ...]:
    return getattr(answer, "__orig_bases__", ())


def _page_of(page: Any, kind: Any) -> Any:
    """Return the type of a page of these documents, with what the page has beside them."""
    if get_origin(page) is Page:
        return Page[kind]
    return msgspec.defstruct(page.__name__, [("data", list[kind])], bases=(page,), frozen=True, kw_only=True)


def _id(document: Any) -> str:
    found: str = document.entry_id if hasattr(document, "entry_id") else document.id
    return found


@cache
def _with_field(document: type[Response], name: str, kind: Any) -> Any:
    return msgspec.defstruct(document.__name__, [(name, kind, None)], bases=(document,), frozen=True, kw_only=True)
