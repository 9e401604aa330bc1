"""The operations of the sellers' pages."""

from __future__ import annotations

from paydesk.core.errors import FORBIDDEN, FORM_OUTDATED
from paydesk.engine.oauth.consent.authorization import PATH
from paydesk.engine.oauth.errors import (
    APPLICATION_CHANGED,
    APPLICATION_SUSPENDED,
    DOUBLED_PARAMETER,
    REQUEST_DECIDED,
    UNKNOWN_APPLICATION,
    UNREGISTERED_ADDRESS,
)
from paydesk.engine.oauth.pages import applications, authorize, sign_in
from paydesk.engine.oauth.pages.forms import Consent, SignIn, SignOut, Withdrawal
from paydesk.engine.oauth.pages.seller_request import APPLICATIONS_PATH
from paydesk.engine.sellers.errors import SELLER_SUSPENDED, SESSION_ENDED, SIGN_IN_FAILED, SIGN_IN_THROTTLED
from paydesk.platform.operation import Operation, Query
from paydesk.platform.rows import Rows
from paydesk.platform.web import html

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

_PAGES = Rows("page", transaction="none", media_type=html.HTML)
_FORMS = _PAGES.below(status=303, errors=(FORBIDDEN,))

OPERATIONS: tuple[Operation, ...] = (
    _PAGES.get(
        PATH,
        "authorization",
        authorize.show,
        further_statuses=(303,),
        query=AUTHORIZATION,
        errors=(DOUBLED_PARAMETER, UNKNOWN_APPLICATION, UNREGISTERED_ADDRESS, APPLICATION_SUSPENDED),
        description=(
            "Send the seller's browser here. The seller signs in, reviews the requested scopes and decides. The browser"
            " is then redirected to `redirect_uri` with `code`, `state` and `iss`, or with `error`,"
            " `error_description`, `state` and `iss`."
        ),
    ),
    _FORMS.post(
        PATH,
        "decide_authorization",
        authorize.decide,
        body=Consent,
        errors=(SESSION_ENDED, FORM_OUTDATED, REQUEST_DECIDED, APPLICATION_CHANGED),
    ),
    _PAGES.get("/sign-in", "sign_in_page", sign_in.show, further_statuses=(303,)),
    _FORMS.post(
        "/sign-in",
        "sign_in",
        sign_in.sign_in,
        body=SignIn,
        errors=(FORM_OUTDATED, SIGN_IN_THROTTLED, SIGN_IN_FAILED, SELLER_SUSPENDED),
    ),
    _FORMS.post("/sign-out", "sign_out", sign_in.sign_out, body=SignOut, errors=(FORM_OUTDATED, SESSION_ENDED)),
    _PAGES.get(APPLICATIONS_PATH, "acting_applications", applications.show),
    _FORMS.post(
        f"{APPLICATIONS_PATH}/withdraw",
        "withdraw_authorization",
        applications.withdraw,
        body=Withdrawal,
        errors=(SESSION_ENDED, FORM_OUTDATED),
    ),
)
