"""Changes of objects by operators: a row is locked, changed, read again, recorded in the audit trail and shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from paydesk.core.errors import MINIMUM_PROPERTIES, Refusal
from paydesk.operators import audit
from paydesk.operators.schemas import Change
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction

Row = TypeVar("Row")


def plain(document: Callable[[Row], Any]) -> Callable[[Transaction, Row], Awaitable[Any]]:
    """Return how `Subject` shows a row whose document needs nothing else."""

    async def show(_: Transaction, row: Row) -> Any:
        return document(row)

    return show


@dataclass(frozen=True, slots=True)
class Subject(Generic[Row]):
    """The functions that lock, read and show the rows of a noun."""

    lock: Callable[[Transaction, Call], Awaitable[Row | None]]
    """Returns the row of the path, locked until the commit."""
    read: Callable[[Transaction, Row], Awaitable[Row | None]]
    """Returns a locked row as it is now."""
    show: Callable[[Transaction, Row], Awaitable[Any]]
    """Returns the document of a row, for the audit trail and the answer."""
    id_of: Callable[[Row], object]
    unknown: Callable[[], Refusal]
    answer: Callable[[Call, Row], Awaitable[Any]] | None = None
    """Returns the document of the answer, if that has more than the audit trail records."""

    async def locked(self, call: Call, tx: Transaction | None = None) -> Row:
        """Lock and return the row of the path. Raises `unknown`."""
        row = await self.lock(tx or call.tx, call)
        if row is None:
            raise self.unknown()
        return row

    async def change(
        self, call: Call, name: str, work: Callable[[Row], Awaitable[Any]], tx: Transaction | None = None
    ) -> Answer:
        """Do the work on the row of the path, and return its document.

        The change is recorded under the name unless nothing has changed. Raises `unknown`, and `MINIMUM_PROPERTIES` if
        the body is a change without any property.
        """
        tx = tx or call.tx
        before = await self.locked(call, tx)
        if isinstance(call.body, Change) and not call.body.model_fields_set:
            names = ", ".join(type(call.body).model_fields)
            raise MINIMUM_PROPERTIES.with_reason("nothing to change", f"'$' - must have one of {names}")
        earlier = await self.show(tx, before)
        await work(before)
        after = await self.read(tx, before)
        assert after is not None, "the row is locked until the commit"
        document = await self.show(tx, after)
        if after != before:
            await audit.record(call, tx, name, str(self.id_of(after)), before=earlier, after=document)
        return Answer(200, document if self.answer is None else await self.answer(call, after))

    async def delete(
        self, call: Call, name: str, work: Callable[[Row], Awaitable[Any]], tx: Transaction | None = None
    ) -> Answer:
        """Do the work that deletes the row of the path, and record it under the name. Raises `unknown`."""
        tx = tx or call.tx
        row = await self.locked(call, tx)
        document = await self.show(tx, row)
        await work(row)
        await audit.record(call, tx, name, str(self.id_of(row)), before=document)
        return Answer(204)
