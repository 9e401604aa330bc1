"""The errors of the token endpoints and the sellers' pages: one public sentence each; the exact reason goes to the log.

Only `invalid_request` names the parameter at fault, never its value (`invalid_parameter`).

`OAUTH_ERRORS` has those of the token endpoints in the order of the checks. The sentences that a seller reads are in
`web/texts`.
"""

from __future__ import annotations

from paydesk.core.errors import INVALID_CLIENT, INVALID_REQUEST, ErrorKind, Refusal
from paydesk.core.text.redaction import redacted_name

UNSUPPORTED_GRANT_TYPE = ErrorKind(
    "unsupported_grant_type",
    400,
    "grant_type must be authorization_code or refresh_token.",
    advice="Other grants are not offered.",
)
LOCAL_RATE_LIMITED = ErrorKind(
    "local_rate_limited",
    429,
    "Too many requests. Try again later.",
    advice="Wait for the seconds of `Retry-After`.",
    repeat="later",
)
TOKEN_FORBIDDEN = ErrorKind(
    "forbidden",
    400,
    "The application or the seller is not allowed to get tokens.",
    advice="Ask the operator for the reason.",
)
INVALID_GRANT = ErrorKind(
    "invalid_grant",
    400,
    "The code or refresh token is invalid, expired, revoked or issued to another client, or redirect_uri or"
    " code_verifier does not match.",
    advice="Start the authorization again.",
)
UNAUTHORIZED_CLIENT = ErrorKind(
    "unauthorized_client",
    400,
    "The seller has not authorized this application, has withdrawn the authorization, or offline_access was removed.",
    advice="Ask the seller to authorize it again.",
)
INVALID_SCOPE = ErrorKind(
    "invalid_scope",
    400,
    "scope is malformed, unknown or wider than granted. Scopes: offline_access, read, write.",
    advice="Request each scope once, and only what was authorized.",
)

OAUTH_ERRORS = (
    LOCAL_RATE_LIMITED,
    INVALID_REQUEST,
    UNSUPPORTED_GRANT_TYPE,
    INVALID_CLIENT,
    TOKEN_FORBIDDEN,
    INVALID_GRANT,
    UNAUTHORIZED_CLIENT,
    INVALID_SCOPE,
)

CLIENT_ERRORS = (LOCAL_RATE_LIMITED, INVALID_REQUEST, INVALID_CLIENT, TOKEN_FORBIDDEN)
"""The errors of an endpoint that authenticates a client and redeems nothing."""

DOUBLED_PARAMETER = ErrorKind("doubled_parameter", 400, "A parameter was sent more than once.", advice="Send it once.")
UNKNOWN_APPLICATION = ErrorKind(
    "unknown_application",
    400,
    "client_id is missing or unknown.",
    advice="Send the one that the operator gave.",
)
UNREGISTERED_ADDRESS = ErrorKind(
    "unregistered_address",
    400,
    "redirect_uri is missing, or is not one of the application's registered addresses.",
    advice="Send a registered one, identical in every character.",
)
APPLICATION_SUSPENDED = ErrorKind(
    "application_suspended",
    403,
    "The operator has suspended this application.",
    advice="Ask the operator for the reason.",
)
REQUEST_DECIDED = ErrorKind(
    "request_decided",
    409,
    "This authorization request was decided already or has expired.",
    advice="Send the seller to GET /authorization again.",
)
APPLICATION_CHANGED = ErrorKind(
    "application_changed",
    409,
    "The application has changed since the page was shown.",
    advice="Send the seller to GET /authorization again.",
)


def invalid_parameter(reason: str, name: str, rule: str) -> Refusal:
    """Return INVALID_REQUEST with a message that names the parameter, masked, and the rule that it breaks."""
    return INVALID_REQUEST.with_reason(reason, message=f"{redacted_name(name)} {rule}.")
