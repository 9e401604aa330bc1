"""The rows of the interface table that a seller's browser sees."""

from __future__ import annotations

from paydesk.core.errors import FORBIDDEN
from paydesk.oauth.consent.authorization import PATH
from paydesk.oauth.consent.errors import (
    APPLICATION_CHANGED,
    APPLICATION_SUSPENDED,
    DOUBLED_PARAMETER,
    FORM_OUTDATED,
    REQUEST_DECIDED,
    SELLER_SUSPENDED,
    SESSION_ENDED,
    SIGN_IN_FAILED,
    SIGN_IN_THROTTLED,
    UNKNOWN_APPLICATION,
    UNREGISTERED_ADDRESS,
)
from paydesk.oauth.pages import applications, authorize, sign_in
from paydesk.oauth.pages.forms import Consent, SignIn, SignOut, Withdrawal
from paydesk.operation import Answer, Call, Operation, Query
from paydesk.web import html
from paydesk.web.browser import APPLICATIONS_PATH

ASSET_SECONDS = 365 * 24 * 3600

AUTHORIZATION = (
    Query("client_id", {"type": "string"}, "The application.", required=True),
    Query("response_type", {"type": "string", "const": "code"}, "`code`.", required=True),
    Query(
        "redirect_uri", {"type": "string"}, "One of its registered addresses, character for character.", required=True
    ),
    Query("state", {"type": "string", "maxLength": 2048}, "Comes back unchanged: bind it to the browser."),
    Query("scope", {"type": "string"}, "Out of `offline_access read write`; absent: what the application may have."),
    Query(
        "code_challenge",
        {"type": "string", "pattern": "^([A-Za-z0-9_-]{43})?$"},
        "PKCE, where it is required or wanted.",
    ),
    Query("code_challenge_method", {"type": "string"}, "`S256`, with a challenge and only with one."),
    Query("platform_id", {"type": "string"}, "Taken and left aside."),
)


def _asset(name: str, media_type: str) -> Operation:
    headers = (
        ("cache-control", f"public, max-age={ASSET_SECONDS}, immutable"),
        ("x-content-type-options", "nosniff"),
    )
    answer = Answer(200, html.asset(name), headers, media_type)

    async def show(_: Call) -> Answer:
        return answer

    return Operation(
        "GET",
        f"{html.ASSETS_PATH}{name}",
        f"pages_{name.replace('.', '_')}",
        f"Part of the pages: {name}",
        "page",
        show,
        transaction="none",
        is_constant=True,
        media_type=media_type,
    )


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        PATH,
        "authorization",
        "Ask a seller to let an application act for them",
        "page",
        authorize.show,
        transaction="none",
        further_statuses=(303,),
        query=AUTHORIZATION,
        media_type=html.HTML,
        errors=(DOUBLED_PARAMETER, UNKNOWN_APPLICATION, UNREGISTERED_ADDRESS, APPLICATION_SUSPENDED),
        description=(
            "Send the seller's browser here. They sign in, see what is asked, and decide; then the browser goes to"
            " `redirect_uri` with `code`, `state` and `iss`, or with `error`, `error_description`, `state` and `iss`."
        ),
    ),
    Operation(
        "POST",
        PATH,
        "decide_authorization",
        "What the seller decided",
        "page",
        authorize.decide,
        status=303,
        transaction="none",
        body=Consent,
        media_type=html.HTML,
        errors=(FORBIDDEN, SESSION_ENDED, FORM_OUTDATED, REQUEST_DECIDED, APPLICATION_CHANGED),
    ),
    Operation(
        "GET",
        "/sign-in",
        "sign_in_page",
        "The form to sign in with",
        "page",
        sign_in.show,
        transaction="none",
        further_statuses=(303,),
        media_type=html.HTML,
    ),
    Operation(
        "POST",
        "/sign-in",
        "sign_in",
        "Sign a seller in",
        "page",
        sign_in.sign_in,
        status=303,
        transaction="none",
        body=SignIn,
        media_type=html.HTML,
        errors=(FORBIDDEN, FORM_OUTDATED, SIGN_IN_THROTTLED, SIGN_IN_FAILED, SELLER_SUSPENDED),
    ),
    Operation(
        "POST",
        "/sign-out",
        "sign_out",
        "Sign the seller out",
        "page",
        sign_in.sign_out,
        status=303,
        transaction="none",
        body=SignOut,
        media_type=html.HTML,
        errors=(FORBIDDEN, FORM_OUTDATED, SESSION_ENDED),
    ),
    Operation(
        "GET",
        APPLICATIONS_PATH,
        "acting_applications",
        "Which applications act for the seller",
        "page",
        applications.show,
        transaction="none",
        media_type=html.HTML,
    ),
    Operation(
        "POST",
        f"{APPLICATIONS_PATH}/withdraw",
        "withdraw_authorization",
        "Take back what an application was allowed",
        "page",
        applications.withdraw,
        status=303,
        transaction="none",
        body=Withdrawal,
        media_type=html.HTML,
        errors=(FORBIDDEN, SESSION_ENDED, FORM_OUTDATED),
    ),
    *(_asset(name, media_type) for name, media_type in html.ASSETS.items()),
)
