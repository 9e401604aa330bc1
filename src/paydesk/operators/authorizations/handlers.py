"""Authorizations of applications by sellers, which the operator interface calls grants.

A grant's id ends with its seller's id, as tokens do, so that the row is found by its primary key.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from paydesk.core.clock import rfc3339
from paydesk.core.ids import ULID_PATTERN
from paydesk.core.response import Closed, Time, named
from paydesk.engine.oauth import authorizations
from paydesk.operators import audit, lists
from paydesk.operators.errors import AUTHORIZATION_NOT_FOUND
from paydesk.operators.words import Shown
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.storage.database import Row

ID_PATTERN = f"^{ULID_PATTERN}-[0-9]{{1,15}}$"

_COLUMNS = "seller_id authorization_id seller_name application_id application_name scope created_ms withdrawn_ms"
_SELECT = """
SELECT a.seller_id, a.authorization_id, s.name, a.application_id, COALESCE(p.name, 'deleted application'), a.scope,
       a.created_ms, a.withdrawn_ms
  FROM authorizations a
  JOIN sellers s ON s.seller_id = a.seller_id
  LEFT JOIN applications p ON p.application_id = a.application_id"""
GET = f"{_SELECT} WHERE a.seller_id = $1 AND a.authorization_id = $2"

_LIST = f"""{_SELECT}
 WHERE (a.seller_id, a.authorization_id) > ($1, $2) AND a.seller_id <= $4{{}}
 ORDER BY a.seller_id, a.authorization_id LIMIT $3"""
_OF_APPLICATION = " AND a.application_id = $5"
_WITH_STATUS = {"": "", "valid": " AND a.withdrawn_ms IS NULL", "withdrawn": " AND a.withdrawn_ms IS NOT NULL"}

LISTS = {status: _LIST.format(condition) for status, condition in _WITH_STATUS.items()}
LISTS_OF_APPLICATION = {status: _LIST.format(_OF_APPLICATION + condition) for status, condition in _WITH_STATUS.items()}
"""The lists by `status`. Those of an application have an index each; the one without a status walks along the key."""

STATUS = Query(
    "status",
    {"enum": [status for status in _WITH_STATUS if status]},
    "Only valid ones, or only withdrawn ones.",
    shown=Shown("Status", help="valid or withdrawn."),
)


class AuthorizationDocument(Closed, frozen=True):
    """An authorization of an application by a seller."""

    id: Annotated[str, Meta(description="Ends with the seller's id.")]
    seller_id: int
    seller_name: str
    client_id: str
    application_name: str
    scope: str
    created_date: Time
    withdrawn_date: Time | None = None


async def get(call: Call) -> Answer:
    """Get a grant."""
    authorization_id, _, seller = call.path.partition("-")
    row = await call.tx.one(GET, int(seller), authorization_id)
    if row is None:
        raise AUTHORIZATION_NOT_FOUND.with_reason("unknown authorization")
    return Answer(200, _present(row))


async def withdraw(call: Call) -> Answer:
    """Withdraw a grant; a withdrawn one stays as it is."""
    authorization_id, _, seller = call.path.partition("-")
    seller_id = int(seller)
    authorization = await authorizations.get(call.tx, seller_id, authorization_id)
    if authorization is None:
        raise AUTHORIZATION_NOT_FOUND.with_reason("unknown authorization")
    if await authorizations.withdraw(
        call.tx, seller_id=seller_id, authorization_id=authorization_id, now_ms=call.now_ms
    ):
        before = {
            "client_id": str(authorization.application_id),
            "scope": authorization.scope,
            "created_date": rfc3339(authorization.created_ms),
        }
        after = {**before, "withdrawn_date": rfc3339(call.now_ms)}
        grant_id = f"{authorization_id}-{seller_id}"
        await audit.record(call, call.tx, "grants.withdraw", grant_id, before=before, after=after)
    return Answer(204)


async def find_all(call: Call, filters: Filters) -> Answer:
    """Return a page of the authorizations of a seller, of an application, or of all."""
    first, last = lists.sellers(filters)
    status, application = filters.get("status", ""), filters.get("application")
    start = (first, *lists.BY_SELLER[1:])
    if application is None:
        return await lists.page(call, filters, LISTS[status], start, _present, last)
    return await lists.page(call, filters, LISTS_OF_APPLICATION[status], start, _present, last, int(application))


def _present(row: Row) -> AuthorizationDocument:
    one = named(_COLUMNS, row)
    grant_id = f"{one.authorization_id}-{one.seller_id}"
    return AuthorizationDocument.of(one, id=grant_id, client_id=str(one.application_id))


PAGES = lists.Pages(
    lists.Page[AuthorizationDocument],
    find_all,
    (lists.OF_SELLER, lists.OF_APPLICATION, STATUS, *lists.paging(lists.BY_SELLER)),
    "By seller and id.",
)
