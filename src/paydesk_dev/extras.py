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
    """Returns the values for these documents, by their ids."""

    def extend(self, row: Operation) -> Operation:
        """Return the row with the field, if it answers such a document or a page of them."""
        is_page = get_origin(row.answer) is Page
        (document,) = get_args(row.answer) if is_page else (row.answer,)
        if not (isinstance(document, type) and issubclass(document, self.document)):
            return row
        handler, kind = row.handler, _with_field(document, self.name, self.type)
        assert not isinstance(handler, ThreePhase), "no operation that calls an external system answers one"

        @wraps(handler)
        async def extended(call: Call) -> Handled:
            answer = await handler(call)
            if not isinstance(answer, Answer):
                return answer
            documents = answer.body.data if is_page else [answer.body]

            async def read(tx: Transaction) -> Mapping[str, Any]:
                return await self.values(call.shared, tx, documents)

            values = await (call.database.read(read) if row.transaction == "none" else read(call.tx))
            bodies = [kind(**msgspec.structs.asdict(one), **{self.name: values.get(one.id)}) for one in documents]
            body = msgspec.structs.replace(answer.body, data=bodies) if is_page else bodies[0]
            return msgspec.structs.replace(answer, body=body)

        return replace(row, handler=extended, answer=Page[kind] if is_page else kind)  # type: ignore[valid-type]


@cache
def _with_field(document: type[Response], name: str, kind: Any) -> Any:
    return msgspec.defstruct(document.__name__, [(name, kind, None)], bases=(document,), frozen=True, kw_only=True)
