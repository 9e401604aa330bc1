"""What the pages refuse beside what every page does. What a seller reads of it stands in `texts`."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

DOUBLED_PARAMETER = ErrorKind("doubled_parameter", 400, "A parameter was sent more than once.")
UNKNOWN_APPLICATION = ErrorKind("unknown_application", 400, "client_id is missing or of no application.")
UNREGISTERED_ADDRESS = ErrorKind(
    "unregistered_address", 400, "redirect_uri is missing, or is not one of the application's registered addresses."
)
APPLICATION_SUSPENDED = ErrorKind("application_suspended", 403, "The operator has suspended this application.")
SIGN_IN_FAILED = ErrorKind("sign_in_failed", 403, "The e-mail address or the password is wrong.")
SELLER_SUSPENDED = ErrorKind("seller_suspended", 403, "The operator has suspended this seller.")
SESSION_ENDED = ErrorKind("session_ended", 403, "Nobody is signed in, or not any more.")
FORM_OUTDATED = ErrorKind("form_outdated", 403, "The form is not one that was shown to this browser a while ago.")
REQUEST_DECIDED = ErrorKind("request_decided", 409, "This was decided already, or asked too long ago.")
APPLICATION_CHANGED = ErrorKind("application_changed", 409, "The application was changed since the page was shown.")
SIGN_IN_THROTTLED = ErrorKind("sign_in_throttled", 429, "Too many tries to sign in; try again later.")
