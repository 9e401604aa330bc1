"""Authorizations on the pages of applications and of sellers: a row of each, and the form that withdraws one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from paydesk.console.actions import ActionForm, Done, act
from paydesk.console.api import ApiRefused, Document
from paydesk.console.application_paths import HERE as APPLICATIONS
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import form, problem, screen
from paydesk.operation import Answer, Query
from paydesk.operators.authorizations import ID_PATTERN

SELLERS = f"{PATH}/sellers"

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


@screen
async def withdraw_of_application(request: ConsoleRequest) -> Answer:
    """Withdraw an authorization, from the page of its application."""
    return await _withdraw(request, APPLICATIONS, "applications", "client_id")


@screen
async def withdraw_of_seller(request: ConsoleRequest) -> Answer:
    """Withdraw an authorization, from the page of its seller."""
    return await _withdraw(request, SELLERS, "sellers", "seller_id")


async def _withdraw(request: ConsoleRequest, list_path: str, section: str, subject: str) -> Answer:
    subject_id, grant_id = request.call.paths
    found = await request.api.get("grants/{}", grant_id)
    if str(found[subject]) != subject_id:
        missing = ApiRefused(404, "grant_not_found", "There is no such authorization.", (), request.call.request_id)
        return problem(request, missing, section)
    application, seller = found["application_name"], found["seller_name"]
    action = ActionForm(
        title=f"Withdraw the authorization of {application}",
        says=(
            f"The tokens and codes that {application} has from this authorization by {seller} are refused: at once, on"
            " other nodes within 5 s. Those from other authorizations stay valid. Open orders continue.",
            "The application is notified if it has a subscription for authorizations.",
        ),
        impossible="This authorization is withdrawn already." if "withdrawn_date" in found else "",
        back=f"{list_path}/{subject_id}",
        section=section,
        submit="Withdraw",
        danger=True,
        repeatable=True,
    )

    async def work(_: object) -> Done:
        await request.api.delete("grants/{}", grant_id)
        return Done(f"The authorization of {application} by {seller} is withdrawn.")

    return await act(request, action, work)


OPERATIONS = (
    *form(
        "/applications/{client_id}/authorizations/{grant_id}/withdraw",
        "application_withdraw",
        "Withdraw an authorization of an application",
        withdraw_of_application,
        path_pattern=ID_PATTERN,
    ),
    *form(
        "/sellers/{user_id}/authorizations/{grant_id}/withdraw",
        "seller_withdraw",
        "Withdraw an authorization of a seller",
        withdraw_of_seller,
        path_pattern=ID_PATTERN,
    ),
)
