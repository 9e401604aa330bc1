"""The errors of the token endpoints: one public sentence each; the exact reason goes to the log.

`OAUTH_ERRORS` has them in the order of the checks.
"""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

INVALID_REQUEST = ErrorKind(
    "invalid_request", 400, "A required parameter is missing, or a parameter is unknown, repeated or malformed."
)
UNSUPPORTED_GRANT_TYPE = ErrorKind(
    "unsupported_grant_type", 400, "grant_type must be authorization_code or refresh_token."
)
INVALID_CLIENT = ErrorKind("invalid_client", 400, "client_id or client_secret is invalid.")
LOCAL_RATE_LIMITED = ErrorKind("local_rate_limited", 429, "Too many requests. Try again later.")
TOKEN_FORBIDDEN = ErrorKind("forbidden", 400, "The application or the seller is not allowed to get tokens.")
INVALID_GRANT = ErrorKind(
    "invalid_grant",
    400,
    "The code or refresh token is invalid, expired, revoked or issued to another client, or redirect_uri or"
    " code_verifier does not match.",
)
UNAUTHORIZED_CLIENT = ErrorKind(
    "unauthorized_client",
    400,
    "The seller has not authorized this application, has withdrawn the authorization, or offline_access was removed.",
)
INVALID_SCOPE = ErrorKind(
    "invalid_scope", 400, "scope is malformed, unknown or wider than granted. Scopes: offline_access, read, write."
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
