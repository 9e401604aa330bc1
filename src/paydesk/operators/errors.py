"""The errors that only the operator interface returns."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

APPLICATION_NOT_FOUND = ErrorKind("application_not_found", 404, "There is no such application.")
SECRET_NOT_FOUND = ErrorKind("secret_not_found", 404, "There is no such secret.")
SUBSCRIPTION_NOT_FOUND = ErrorKind("subscription_not_found", 404, "There is no such subscription.")
OPERATOR_NOT_FOUND = ErrorKind("operator_not_found", 404, "There is no such operator.")
AUTHORIZATION_NOT_FOUND = ErrorKind("grant_not_found", 404, "There is no such grant.")
SESSION_NOT_FOUND = ErrorKind("session_not_found", 404, "There is no such session, or it has ended.")
CANNOT_SIGN_IN = ErrorKind("cannot_sign_in", 409, "This operator can't sign in.")
WRONG_PASSWORD = ErrorKind("wrong_password", 403, "The current password is wrong.")
LAST_OWNER = ErrorKind(
    "last_owner",
    409,
    "No other owner has a token or a password. Without an owner, operators cannot be added, changed or removed.",
)
STORE_NOT_FOUND = ErrorKind("store_not_found", 404, "This seller has no such store.")
POS_NOT_FOUND = ErrorKind("pos_not_found", 404, "This seller has no such point of sale.")
EMAIL_TAKEN = ErrorKind("email_taken", 409, "Another account has this e-mail address.")
TOO_MANY_SECRETS = ErrorKind(
    "too_many_secrets", 409, "There are as many valid secrets as there may be: remove one first."
)
EXTERNAL_POS_ID_TAKEN = ErrorKind(
    "external_pos_id_taken", 409, "The seller already has a point of sale with this external_pos_id."
)
CANNOT_RELEASE_TERMINAL = ErrorKind(
    "cannot_release_terminal",
    409,
    "The terminal's order can't be canceled any more: authorization was permitted, so the card may be charged.",
)
POS_TAKEN = ErrorKind("pos_taken", 409, "Another terminal at this point of sale is already in mode PDV.")
DELIVERY_NOT_FOUND = ErrorKind("delivery_not_found", 404, "There is no such delivery.")
SUBSCRIPTION_PAUSED = ErrorKind("subscription_paused", 409, "The subscription is paused, so nothing is sent to it.")
SUBSCRIPTION_ENDED = ErrorKind(
    "subscription_ended",
    409,
    "The subscription is deleted, or the seller has withdrawn the application's authorization: nothing is sent any"
    " more.",
)
REQUEST_NOT_FOUND = ErrorKind(
    "request_not_found", 404, "There is no such recorded request. The last 10,000 are kept for up to 7 days."
)
