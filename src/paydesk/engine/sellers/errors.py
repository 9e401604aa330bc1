"""The errors of signing in, with one public sentence each; the exact reason goes to the log."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

SIGN_IN_FAILED = ErrorKind(
    "sign_in_failed",
    403,
    "The e-mail address or the password is wrong.",
    advice="Try again, or ask for a new password.",
)
SELLER_SUSPENDED = ErrorKind(
    "seller_suspended",
    403,
    "The operator has suspended this seller.",
    advice="Ask the operator for the reason.",
)
SESSION_ENDED = ErrorKind("session_ended", 403, "The session is missing or has ended.", advice="Sign in again.")
SIGN_IN_THROTTLED = ErrorKind(
    "sign_in_throttled",
    429,
    "Too many sign-in attempts. Try again later.",
    advice="Wait for the seconds of `Retry-After`.",
    repeat="later",
)
