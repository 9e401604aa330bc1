"""The errors of the sellers' pages. The sentences that a seller reads are in `web/texts`."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

DOUBLED_PARAMETER = ErrorKind("doubled_parameter", 400, "A parameter was sent more than once.")
UNKNOWN_APPLICATION = ErrorKind("unknown_application", 400, "client_id is missing or unknown.")
UNREGISTERED_ADDRESS = ErrorKind(
    "unregistered_address", 400, "redirect_uri is missing, or is not one of the application's registered addresses."
)
APPLICATION_SUSPENDED = ErrorKind("application_suspended", 403, "The operator has suspended this application.")
SIGN_IN_FAILED = ErrorKind("sign_in_failed", 403, "The e-mail address or the password is wrong.")
SELLER_SUSPENDED = ErrorKind("seller_suspended", 403, "The operator has suspended this seller.")
SESSION_ENDED = ErrorKind("session_ended", 403, "The session is missing or has ended.")
FORM_OUTDATED = ErrorKind("form_outdated", 403, "The form token is not valid for this browser.")
REQUEST_DECIDED = ErrorKind("request_decided", 409, "This authorization request was decided already or has expired.")
APPLICATION_CHANGED = ErrorKind("application_changed", 409, "The application has changed since the page was shown.")
SIGN_IN_THROTTLED = ErrorKind("sign_in_throttled", 429, "Too many sign-in attempts. Try again later.")
