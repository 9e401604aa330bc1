"""Authorizations of applications by sellers, which the operator interface calls grants.

A grant's id ends with its seller's id, as tokens do, so that the row is found by its primary key.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from paydesk import audit
from paydesk.core.clock import rfc3339
from paydesk.core.ids import ULID_PATTERN
from paydesk.core.response import Closed, Time, time_or_none
from paydesk.oauth import authorizations
from paydesk.operation import Answer, Call
from paydesk.operators.errors import AUTHORIZATION_NOT_FOUND
from paydesk.operators.lists import pages
from paydesk.storage.database import Row

ID_PATTERN = f"^{ULID_PATTERN}-[0-9]{{1,15}}$"

LIST = """
SELECT a.seller_id, a.authorization_id, a.application_id, COALESCE(p.name, 'deleted application'), a.scope,
       a.created_ms, a.withdrawn_ms
  FROM authorizations a LEFT JOIN applications p ON p.application_id = a.application_id
 WHERE (a.seller_id, a.authorization_id) > ($1, $2) AND a.seller_id <= $4
 ORDER BY a.seller_id, a.authorization_id LIMIT $3"""


class AuthorizationDocument(Closed, frozen=True):
    """An authorization of an application by a seller."""

    id: Annotated[str, Meta(description="Ends with the seller's id.")]
    seller_id: int
    client_id: str
    application_name: str
    scope: str
    created_date: Time
    withdrawn_date: Time | None = None


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


def _present(row: Row) -> AuthorizationDocument:
    seller_id, authorization_id, application_id, name, scope, created_ms, withdrawn_ms = row
    grant_id, client_id = f"{authorization_id}-{seller_id}", str(application_id)
    dates = rfc3339(created_ms), time_or_none(withdrawn_ms)
    return AuthorizationDocument(grant_id, seller_id, client_id, name, scope, *dates)


PAGES = pages(AuthorizationDocument, LIST, _present)
