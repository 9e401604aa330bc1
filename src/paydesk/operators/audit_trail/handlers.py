"""The audit trail as operators read it: each change with its author, time, address, and the values before and after."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from paydesk.core.ids import ULID_PATTERN
from paydesk.core.response import Closed, JsonObject, Time, named
from paydesk.operators import lists
from paydesk.operators.words import Shown
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.storage.database import Row

BY_TIME = ("8",)
"""A key after all entry ids, which are ULIDs: the newest come first."""

_COLUMNS = "entry_id operator_id name action subject address before after created_ms"
# The operator may be deleted.
_ENTRY = """
SELECT a.entry_id, a.operator_id, o.name, a.action, a.subject, a.address, a.before, a.after, a.created_ms
  FROM operator_audit a LEFT JOIN operators o ON o.operator_id = a.operator_id
 WHERE a.entry_id < $1"""
_NEWEST = "ORDER BY a.entry_id DESC LIMIT $2"

LIST = f"{_ENTRY} {_NEWEST}"
OF_OPERATOR = f"{_ENTRY} AND a.operator_id = $3 {_NEWEST}"
OF_SUBJECT = f"{_ENTRY} AND a.subject = $3 {_NEWEST}"
OF_BOTH = f"{_ENTRY} AND a.subject = $3 AND a.operator_id = $4 {_NEWEST}"


class AuditEntry(Closed, frozen=True):
    """A change by an operator."""

    entry_id: str
    operator_id: Annotated[str, Meta(description="The author.")]
    action: Annotated[str, Meta(description="What was done to what, such as `orders.cancel`.")]
    subject: Annotated[str, Meta(description="The id of what was changed.")]
    address: Annotated[str, Meta(description="The author's address; `local` for a command on the machine itself.")]
    created_date: Time
    name: Annotated[str, Meta(description="The author's name, if the operator still exists.")] | None = None
    before: Annotated[JsonObject, Meta(description="The values before; absent for something new.")] | None = None
    after: Annotated[JsonObject, Meta(description="The values after it; absent for what was deleted.")] | None = None


async def find(call: Call, filters: Filters) -> Answer:
    """List the entries, newest first."""
    operator_id, subject = filters.get("operator"), filters.get("subject")
    sql = (OF_BOTH if operator_id else OF_SUBJECT) if subject else OF_OPERATOR if operator_id else LIST
    args = (one for one in (subject, operator_id) if one)
    return await lists.page(call, filters, sql, BY_TIME, _present, *args)


def _present(row: Row) -> AuditEntry:
    one = named(_COLUMNS, row)
    return AuditEntry.of(one, before=_raw(one.before), after=_raw(one.after))


def _raw(text: str | None) -> msgspec.Raw | None:
    """Return the values as raw JSON, None if there are none."""
    return None if text is None else msgspec.Raw(text.encode())


PAGES = lists.Pages(
    lists.Page[AuditEntry],
    find,
    (
        Query(
            "operator",
            {"type": "string", "pattern": f"^{ULID_PATTERN}$"},
            "Only changes by this operator.",
            check=lists.id_of(ULID_PATTERN, "must be an operator's id"),
            shown=Shown("Operator", metavar="OPERATOR_ID"),
        ),
        Query(
            "subject",
            lists.TEXT,
            "Only changes of this: the id of an order, a terminal, an operator.",
            check=lists.text,
            shown=Shown("Changes of", metavar="ID", help="Only changes of this: an order, a terminal, an operator."),
        ),
        *lists.paging(BY_TIME),
    ),
    "By every role. Newest first.",
)
