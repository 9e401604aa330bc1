"""Authorizations on the pages of applications and of sellers: a row of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from paydesk.console.api import Document
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.operation import Query

APPLICATIONS, SELLERS = f"{PATH}/applications", f"{PATH}/sellers"

READ_MAX = 50
VALID, WITHDRAWN = "valid", "withdrawn"
QUERY = (
    Query("authorizations", {"enum": [VALID, WITHDRAWN]}, "Which authorizations are shown, by default the valid ones."),
    Query("authorizations_after", {"type": "string"}, "Where the page of authorizations begins."),
)


@dataclass(frozen=True, slots=True)
class AuthorizationRow:
    """One authorization; `withdraw` is the path of the form."""

    id: str
    other: str
    """The name of its seller on an application's page, and of its application on a seller's."""
    href: str
    scope: str
    created_date: str
    withdrawn_date: str
    withdraw: str


@dataclass(frozen=True, slots=True)
class AuthorizationPage:
    """A page of a list of authorizations. `more` is the address of the next one, empty if there is none."""

    rows: Sequence[AuthorizationRow]
    is_withdrawn: bool
    """Whether the withdrawn ones are listed, else the valid ones."""
    others: str
    """The address of the same page with the ones that are not listed."""
    more: str


async def of_application(request: ConsoleRequest, client_id: str) -> AuthorizationPage:
    """Return the authorizations that an application has."""
    return await _page(request, f"{APPLICATIONS}/{client_id}", application=client_id)


async def of_seller(request: ConsoleRequest, user_id: object) -> AuthorizationPage:
    """Return the authorizations that a seller has given."""
    return await _page(request, f"{SELLERS}/{user_id}", seller=user_id)


async def _page(request: ConsoleRequest, here: str, **of: object) -> AuthorizationPage:
    status = WITHDRAWN if request.query.get("authorizations") == WITHDRAWN else VALID
    after = request.query.get("authorizations_after")
    found = await request.api.get("grants", status=status, limit=READ_MAX, after=after, **of)
    other = VALID if status == WITHDRAWN else WITHDRAWN
    following = {"authorizations": status, "authorizations_after": found.get("next")}
    return AuthorizationPage(
        rows=[_row(one, here, is_of_seller="seller" in of) for one in found["data"]],
        is_withdrawn=status == WITHDRAWN,
        others=f"{here}?{urlencode({'authorizations': other})}#authorizations",
        more=f"{here}?{urlencode(following)}#authorizations" if "next" in found else "",
    )


def _row(one: Document, here: str, *, is_of_seller: bool) -> AuthorizationRow:
    application = one["application_name"], f"{APPLICATIONS}/{one['client_id']}"
    seller = one["seller_name"], f"{SELLERS}/{one['seller_id']}"
    other, href = application if is_of_seller else seller
    return AuthorizationRow(
        id=one["id"],
        other=other,
        href=href,
        scope=one["scope"],
        created_date=one["created_date"],
        withdrawn_date=one.get("withdrawn_date", ""),
        withdraw="" if "withdrawn_date" in one else f"{here}/authorizations/{one['id']}/withdraw",
    )
