"""Authorizations of applications by sellers, which the operator interface calls grants.

A grant's id ends with its seller's id, as tokens do, so that the row is found by its primary key.
"""

from __future__ import annotations

from typing import Any

from paydesk.core.clock import rfc3339
from paydesk.core.ids import ULID_PATTERN
from paydesk.oauth import authorizations
from paydesk.operation import Answer, Call
from paydesk.operators import audit, lists
from paydesk.operators.errors import AUTHORIZATION_NOT_FOUND
from paydesk.storage.database import Row

ID_PATTERN = f"^{ULID_PATTERN}-[0-9]{{1,15}}$"

LIST = """
SELECT a.seller_id, a.authorization_id, a.application_id, p.name, a.scope, a.created_ms, a.withdrawn_ms
  FROM authorizations a JOIN applications p ON p.application_id = a.application_id
 WHERE (a.seller_id, a.authorization_id) > ($1, $2) AND a.seller_id <= $4
 ORDER BY a.seller_id, a.authorization_id LIMIT $3"""


async def find_all(call: Call) -> Answer:
    """List the authorizations, withdrawn ones included, by seller and from oldest to newest."""
    first, last = lists.sellers(call.query)
    return await lists.page(call.tx, call, LIST, (first, ""), _present, last)


async def withdraw(call: Call) -> Answer:
    """Withdraw an authorization for its seller; a withdrawn one stays as it is."""
    audit.require_change(call)
    authorization_id, _, seller = call.path.partition("-")
    seller_id = int(seller)
    found = await authorizations.get(call.tx, seller_id, authorization_id)
    if found is None:
        raise AUTHORIZATION_NOT_FOUND.with_reason("unknown authorization")
    if await authorizations.withdraw(
        call.tx, seller_id=seller_id, authorization_id=authorization_id, now_ms=call.now_ms
    ):
        before = {
            "client_id": str(found.application_id),
            "scope": found.scope,
            "created_date": rfc3339(found.created_ms),
        }
        after = {**before, "withdrawn_date": rfc3339(call.now_ms)}
        grant_id = f"{authorization_id}-{seller_id}"
        await audit.record(call, call.tx, "grants.withdraw", grant_id, before=before, after=after)
    return Answer(204)


def _present(row: Row) -> dict[str, Any]:
    seller_id, authorization_id, application_id, name, scope, created_ms, withdrawn_ms = row
    document = {
        "id": f"{authorization_id}-{seller_id}",
        "seller_id": seller_id,
        "client_id": str(application_id),
        "application_name": name,
        "scope": scope,
        "created_date": rfc3339(created_ms),
    }
    return document if withdrawn_ms is None else {**document, "withdrawn_date": rfc3339(withdrawn_ms)}
