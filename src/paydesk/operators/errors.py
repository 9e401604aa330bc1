"""The errors that only the operator interface returns."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

APPLICATION_NOT_FOUND = ErrorKind(
    "application_not_found",
    404,
    "There is no such application.",
    advice="Use a client_id from the list of applications.",
)
ACQUIRER_NOT_FOUND = ErrorKind(
    "acquirer_not_found",
    404,
    "There is no such acquirer on this node.",
    advice="Use a name from `GET /operator/v1/acquirers`, or add it to the `acquirers_file` of every node.",
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
    advice="Use an id from the list of subscriptions; a deleted one is not in it.",
)
OPERATOR_NOT_FOUND = ErrorKind(
    "operator_not_found", 404, "There is no such operator.", advice="Use an id from the list of operators."
)
AUTHORIZATION_NOT_FOUND = ErrorKind(
    "grant_not_found", 404, "There is no such grant.", advice="Use an id from the list of grants, unchanged."
)
SESSION_NOT_FOUND = ErrorKind(
    "session_not_found",
    404,
    "There is no such session, or it has ended.",
    advice="Use an id from `GET /operator/v1/sessions`: it has the sessions that have not ended.",
)
CANNOT_SIGN_IN = ErrorKind(
    "cannot_sign_in", 409, "This operator can't sign in.", advice="Read `details`: it says what the operator lacks."
)
WRONG_PASSWORD = ErrorKind(
    "wrong_password",
    403,
    "The current password is wrong.",
    advice="Send the password with which you sign in, or ask an owner for a link to set a new one.",
)
LAST_OWNER = ErrorKind(
    "last_owner",
    409,
    "No other owner has a token or a password. Without an owner, operators cannot be added, changed or removed.",
    advice="Add another owner, who sets a password or has a token, then repeat the request.",
)
STORE_NOT_FOUND = ErrorKind(
    "store_not_found", 404, "This seller has no such store.", advice="Use a store_id from the seller's list of stores."
)
POS_NOT_FOUND = ErrorKind(
    "pos_not_found",
    404,
    "This seller has no such point of sale.",
    advice="Use a pos_id from the seller's list of points of sale.",
)
EMAIL_TAKEN = ErrorKind(
    "email_taken",
    409,
    "Another account has this e-mail address.",
    advice="Use the existing seller or operator, or another address.",
)
TOO_MANY_SECRETS = ErrorKind(
    "too_many_secrets",
    409,
    "There are as many valid secrets as there may be: remove one first.",
    advice="Remove a secret first; for an application, `others_expire_in`: `0s` expires all others.",
)
EXTERNAL_POS_ID_TAKEN = ErrorKind(
    "external_pos_id_taken",
    409,
    "The seller already has a point of sale with this external_pos_id.",
    advice="Use the existing point of sale, or another external_pos_id.",
)
CANNOT_RELEASE_TERMINAL = ErrorKind(
    "cannot_release_terminal",
    409,
    "The terminal's order can't be canceled any more: authorization was permitted, so the card may be charged.",
    advice="Read `details`: it has what the order waits for, and until when.",
)
POS_TAKEN = ErrorKind(
    "pos_taken",
    409,
    "Another terminal at this point of sale is already in mode PDV.",
    advice="Send another pos_id, or none to create a point of sale; or set the other terminal to STANDALONE.",
)
DELIVERY_NOT_FOUND = ErrorKind(
    "delivery_not_found",
    404,
    "There is no such delivery.",
    advice="Use an id from `GET /operator/v1/deliveries`. Old deliveries are deleted.",
)
SUBSCRIPTION_PAUSED = ErrorKind(
    "subscription_paused",
    409,
    "The subscription is paused, so nothing is sent to it.",
    advice="Resume the subscription, then send the request again.",
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
    advice="Use an entry_id from `GET /operator/v1/requests`.",
)
