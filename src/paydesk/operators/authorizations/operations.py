"""The operations and words of authorizations, which the interface calls grants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from paydesk.core.text.sentences import When
from paydesk.operators import errors
from paydesk.operators.authorizations import handlers
from paydesk.operators.documents import Document, Reader
from paydesk.operators.noun import Noun
from paydesk.operators.words import Column, Words


async def _find(api: Reader, names: Mapping[str, str]) -> Document | None:
    """Return the authorization, if it is of the application or the seller whose page has its form."""
    authorization: Document = await api.get("grants/{}", names["grant_id"])
    own = authorization["client_id"] if "client_id" in names else str(authorization["seller_id"])
    return authorization if own == names.get("client_id", names.get("user_id")) else None


_GRANT = Noun(
    "grants/{grant_id}",
    "grant",
    handlers.ID_PATTERN,
    handlers.AuthorizationDocument,
    errors.AUTHORIZATION_NOT_FOUND,
    title="authorization",
    key="id",
    page="/applications",
    find=_find,
    example="01J67CQQH5904WDBVZEM4JMEP3-1160535239",
    argument={"grant_id": "The grant's id, see `paydesk grants list`."},
    generic={"application_name": "the application", "seller_name": "the seller"},
)
_WITHDRAW = Words(
    "Withdraw the authorization of {application_name}",
    says=(
        "The tokens and codes that {application_name} has from this authorization by {seller_name} are refused: at"
        " once, on other nodes within 5 s. Those from other authorizations stay valid. Open orders continue.",
        "The application is notified if it has a subscription for authorizations.",
    ),
    done="The authorization of {application_name} by {seller_name} is withdrawn.",
    did="Withdrew",
    audit="grants.withdraw",
    submit="Withdraw",
    impossible=When("withdrawn_date", "This authorization is withdrawn already."),
    danger=True,
    repeatable=True,
    back="/applications/{client_id}",
    form="/applications/{client_id}/authorizations/{grant_id}/withdraw",
    command="grants revoke",
    gone="withdrawn",
)

LIST = _GRANT.listing(
    handlers.PAGES,
    words=Words(
        "Authorizations",
        says="By seller and from oldest to newest, withdrawn ones included.",
        columns=(
            Column("seller_name", "Seller", "seller", style="what", at=3),
            Column("application_name", "Application", "application", style="what", at=5),
            Column("scope", "Scopes", style="mono", at=6),
            Column("created_date", "Since", "time", style="nowrap", label="since", at=7),
            Column("withdrawn_date", "Withdrawn", "time", style="nowrap", label="withdrawn", at=8),
            Column("id", "Id", style="mono wide", at=1),
            Column("seller_id", at=2),
            Column("client_id", at=4),
        ),
        examples=("--status valid", "--seller 1160535239 --json", "--application 3676047501096810"),
    ),
)
OPERATIONS = (
    LIST,
    _GRANT.reading(
        handlers.get,
        words=Words("Show the authorization"),
    ),
    _GRANT.deleting(
        handlers.withdraw,
        name="operator_withdraw_grant",
        description="Has the effect of a withdrawal by the seller: the grant's codes and tokens are refused, and the"
        " application gets `application.deauthorized`. Open orders continue. Withdrawing a withdrawn grant has no"
        " effect.",
        words=replace(
            _WITHDRAW,
            forms=(
                replace(
                    _WITHDRAW,
                    back="/sellers/{user_id}",
                    form="/sellers/{user_id}/authorizations/{grant_id}/withdraw",
                ),
            ),
        ),
    ),
)
