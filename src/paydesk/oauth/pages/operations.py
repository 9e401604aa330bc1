"""The operations of the sellers' pages."""

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
from paydesk.oauth.pages.seller_request import APPLICATIONS_PATH
from paydesk.operation import Answer, Call, Operation, Query
from paydesk.web import html

ASSET_SECONDS = 365 * 24 * 3600

AUTHORIZATION = (
    Query("client_id", {"type": "string"}, "The application.", required=True),
    Query("response_type", {"type": "string", "const": "code"}, "`code`.", required=True),
    Query(
        "redirect_uri",
        {"type": "string"},
        "One of its registered redirect URIs, compared character by character.",
        required=True,
    ),
    Query("state", {"type": "string", "maxLength": 2048}, "Returned unchanged. Bind it to the browser."),
    Query("scope", {"type": "string"}, "Any of `offline_access read write`. Default: all scopes of the application."),
    Query(
        "code_challenge",
        {"type": "string", "pattern": "^([A-Za-z0-9_-]{43})?$"},
        "PKCE (RFC 7636). Required if the application is set to require it.",
    ),
    Query("code_challenge_method", {"type": "string"}, "`S256`. Required with a challenge, refused without."),
    Query("platform_id", {"type": "string"}, "Accepted and ignored."),
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
        f"Asset of the pages: {name}",
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
        "Ask a seller to authorize an application",
        "page",
        authorize.show,
        transaction="none",
        further_statuses=(303,),
        query=AUTHORIZATION,
        media_type=html.HTML,
        errors=(DOUBLED_PARAMETER, UNKNOWN_APPLICATION, UNREGISTERED_ADDRESS, APPLICATION_SUSPENDED),
        description=(
            "Send the seller's browser here. The seller signs in, reviews the requested scopes and decides. The browser"
            " is then redirected to `redirect_uri` with `code`, `state` and `iss`, or with `error`,"
            " `error_description`, `state` and `iss`."
        ),
    ),
    Operation(
        "POST",
        PATH,
        "decide_authorization",
        "Decide about an authorization request",
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
        "Show the sign-in form",
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
        "List the applications that the seller has authorized",
        "page",
        applications.show,
        transaction="none",
        media_type=html.HTML,
    ),
    Operation(
        "POST",
        f"{APPLICATIONS_PATH}/withdraw",
        "withdraw_authorization",
        "Withdraw an authorization",
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
