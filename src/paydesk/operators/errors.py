"""The errors that only the operator interface returns."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

APPLICATION_NOT_FOUND = ErrorKind(
    "application_not_found",
    404,
    "There is no such application.",
    advice="Use an id from the list: deleted and old ones are not in it.",
)
ACQUIRER_NOT_FOUND = ErrorKind(
    "acquirer_not_found",
    404,
    "There is no such acquirer on this node.",
    advice="Use a name of `GET /operator/v1/acquirers`, or add it to the `acquirers_file` of every node.",
)
SECRET_NOT_FOUND = ErrorKind(
    "secret_not_found",
    404,
    "There is no such secret.",
    advice="Use an id from the `secrets` of the application or subscription.",
)
SUBSCRIPTION_NOT_FOUND = ErrorKind(
    "subscription_not_found",
    404,
    "There is no such subscription.",
    advice="Use an id from the list: deleted and old ones are not in it.",
)
OPERATOR_NOT_FOUND = ErrorKind(
    "operator_not_found",
    404,
    "There is no such operator.",
    advice="Use an id from the list: deleted and old ones are not in it.",
)
AUTHORIZATION_NOT_FOUND = ErrorKind(
    "grant_not_found",
    404,
    "There is no such grant.",
    advice="Use an id from the list: deleted and old ones are not in it.",
)
SESSION_NOT_FOUND = ErrorKind(
    "session_not_found",
    404,
    "There is no such session, or it has ended.",
    advice="Use an id from the list: deleted and old ones are not in it.",
)
CANNOT_SIGN_IN = ErrorKind("cannot_sign_in", 409, "This operator can't sign in.", advice="Read `details`.")
WRONG_PASSWORD = ErrorKind(
    "wrong_password",
    403,
    "The current password is wrong.",
    advice="Send the one with which you sign in, or ask an owner for a link.",
)
LAST_OWNER = ErrorKind(
    "last_owner",
    409,
    "No other owner has a token or a password. Without an owner, operators cannot be added, changed or removed.",
    advice="Add another owner, then repeat the request.",
    repeat="later",
)
STORE_NOT_FOUND = ErrorKind(
    "store_not_found",
    404,
    "This seller has no such store.",
    advice="Use an id from the list: deleted and old ones are not in it.",
)
POS_NOT_FOUND = ErrorKind(
    "pos_not_found",
    404,
    "This seller has no such point of sale.",
    advice="Use an id from the list: deleted and old ones are not in it.",
)
EMAIL_TAKEN = ErrorKind(
    "email_taken",
    409,
    "Another account has this e-mail address.",
    advice="Use that account, or another address.",
)
TOO_MANY_SECRETS = ErrorKind(
    "too_many_secrets",
    409,
    "There are as many valid secrets as there may be: remove one first.",
    advice="Remove a secret first; for an application, `others_expire_in`: `0s` expires all others.",
    repeat="later",
)
EXTERNAL_POS_ID_TAKEN = ErrorKind(
    "external_pos_id_taken",
    409,
    "The seller already has a point of sale with this external_pos_id.",
    advice="Use that point of sale, or another id.",
)
CANNOT_RELEASE_TERMINAL = ErrorKind(
    "cannot_release_terminal",
    409,
    "The terminal's order can't be canceled any more: authorization was permitted, so the card may be charged.",
    advice="Read `details`: what it waits for, and until when.",
    repeat="later",
)
POS_TAKEN = ErrorKind(
    "pos_taken",
    409,
    "Another terminal at this point of sale is already in mode PDV.",
    advice="Send another pos_id or none, or set the other terminal to STANDALONE.",
    repeat="later",
)
DELIVERY_NOT_FOUND = ErrorKind(
    "delivery_not_found",
    404,
    "There is no such delivery.",
    advice="Use an id from the list: deleted and old ones are not in it.",
)
SUBSCRIPTION_PAUSED = ErrorKind(
    "subscription_paused",
    409,
    "The subscription is paused, so nothing is sent to it.",
    advice="Resume it, then send the request again.",
    repeat="later",
)
SUBSCRIPTION_ENDED = ErrorKind(
    "subscription_ended",
    409,
    "The subscription is deleted, or the seller has withdrawn the application's authorization: nothing is sent any"
    " more.",
    advice="Subscribe the application again, or ask the seller to authorize it again.",
)
REQUEST_NOT_FOUND = ErrorKind(
    "request_not_found",
    404,
    "There is no such recorded request. The last 10,000 are kept for up to 7 days.",
    advice="Use an id from the list: deleted and old ones are not in it.",
)
