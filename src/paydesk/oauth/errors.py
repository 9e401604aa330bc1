"""The errors of the token endpoints: one public sentence each; the exact reason goes to the log.

They stand in the order in which they are checked. `OAUTH_ERRORS` has that order, the repeated kinds once.
"""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

INVALID_REQUEST = ErrorKind(
    "invalid_request", 400, "A required parameter is missing, or a parameter is unknown, doubled or malformed."
)
UNSUPPORTED_GRANT_TYPE = ErrorKind(
    "unsupported_grant_type", 400, "grant_type must be authorization_code or refresh_token."
)
INVALID_CLIENT = ErrorKind("invalid_client", 400, "client_id or client_secret is invalid.")
LOCAL_RATE_LIMITED = ErrorKind("local_rate_limited", 429, "Too many calls at this time; try again later.")
TOKEN_FORBIDDEN = ErrorKind("forbidden", 400, "The application or the seller is not allowed to get tokens.")
INVALID_GRANT = ErrorKind(
    "invalid_grant",
    400,
    "The code or refresh token is invalid, expired, revoked or of another client, or redirect_uri or code_verifier"
    " differs.",
)
UNAUTHORIZED_CLIENT = ErrorKind(
    "unauthorized_client", 400, "The seller does not, or no longer, let this application create tokens."
)
INVALID_SCOPE = ErrorKind(
    "invalid_scope", 400, "scope is malformed, unknown or wider than granted; known: offline_access, read, write."
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
"""Those of an endpoint to which an application says who it is, but that redeems nothing."""
