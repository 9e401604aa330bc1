"""The operations of the sellers' pages."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from paydesk.core.errors import FORBIDDEN, ErrorKind
from paydesk.oauth.consent.authorization import PATH
from paydesk.oauth.errors import (
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
from paydesk.operation import Handler, Operation, Query
from paydesk.web import html

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


def _page(method: str, path: str, name: str, summary: str, handler: Handler, **more: Any) -> Operation:
    return Operation(method, path, name, "page", handler, summary, transaction="none", media_type=html.HTML, **more)


def _form(
    path: str, name: str, summary: str, handler: Handler, body: type[BaseModel], errors: tuple[ErrorKind, ...]
) -> Operation:
    return _page("POST", path, name, summary, handler, status=303, body=body, errors=(FORBIDDEN, *errors))


OPERATIONS: tuple[Operation, ...] = (
    _page(
        "GET",
        PATH,
        "authorization",
        "Ask a seller to authorize an application",
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
    _form(
        PATH,
        "decide_authorization",
        "Decide about an authorization request",
        authorize.decide,
        Consent,
        (SESSION_ENDED, FORM_OUTDATED, REQUEST_DECIDED, APPLICATION_CHANGED),
    ),
    _page("GET", "/sign-in", "sign_in_page", "Show the sign-in form", sign_in.show, further_statuses=(303,)),
    _form(
        "/sign-in",
        "sign_in",
        "Sign a seller in",
        sign_in.sign_in,
        SignIn,
        (FORM_OUTDATED, SIGN_IN_THROTTLED, SIGN_IN_FAILED, SELLER_SUSPENDED),
    ),
    _form("/sign-out", "sign_out", "Sign the seller out", sign_in.sign_out, SignOut, (FORM_OUTDATED, SESSION_ENDED)),
    _page(
        "GET",
        APPLICATIONS_PATH,
        "acting_applications",
        "List the applications that the seller has authorized",
        applications.show,
    ),
    _form(
        f"{APPLICATIONS_PATH}/withdraw",
        "withdraw_authorization",
        "Withdraw an authorization",
        applications.withdraw,
        Withdrawal,
        (SESSION_ENDED, FORM_OUTDATED),
    ),
)
