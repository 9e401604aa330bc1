"""What to do about an error: one sentence a code, for the reference and the page of errors."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

ADVICE = {
    # The tokens
    "invalid_client": "Check client_id and client_secret; a secret that was rotated stops working.",
    "invalid_grant": "Start the authorization again: the code or refresh token is spent, or is not this application's.",
    "invalid_scope": "Ask for `offline_access`, `read` and `write`, each once, and for no more than was granted.",
    "invalid_request": "Compare the body with the fields above: one is missing, doubled, unknown or of another type.",
    "unsupported_grant_type": "Send `authorization_code` or `refresh_token`.",
    "unauthorized_client": "Ask the seller to authorize the application again.",
    "local_rate_limited": "Wait for the seconds of `Retry-After`, then repeat.",
    # The pages
    "doubled_parameter": "Send each parameter of the query once.",
    "unknown_application": "Send the client_id that the operator gave the application.",
    "unregistered_address": "Send a redirect_uri that is registered, character for character.",
    "application_suspended": "Ask the operator of the service why.",
    "sign_in_failed": "Try again; the operator gives a seller another password.",
    "seller_suspended": "Ask the operator of the service why.",
    "session_ended": "Sign in again.",
    "form_outdated": "Open the page anew, with cookies allowed.",
    "request_decided": "Send the seller to GET /authorization again.",
    "application_changed": "Send the seller to GET /authorization again, asking for what the application may have.",
    "sign_in_throttled": "Wait for the seconds of `Retry-After`, then repeat.",
    # Every operation
    "json_syntax_error": "Send one well-formed JSON document in UTF-8, each key once.",
    "bad_request": "Send well-formed HTTP; bring an order only to a status that it can go to. Nothing was done.",
    "unsupported_header": "Drop `x-test-scope`, and `X-Test-Token` with a live token; test orders have test tokens.",
    "empty_required_header": "Send `X-Idempotency-Key`: a new one for a new intent, the old one for a repeat.",
    "invalid_idempotency_key_length": "Use 1 to 64 visible ASCII characters; a UUID does well.",
    "required_properties": "Add the field that `details` names.",
    "unsupported_properties": "Remove the field or parameter that `details` names.",
    "property_type": "Give the field that `details` names its type; leave it out rather than sending null.",
    "property_value": "Give the field that `details` names a value that its rules allow.",
    "minimum_items": "Put an item into the array that `details` names.",
    "maximum_items": "Take items out of the array that `details` names.",
    "minimum_properties": "Fill the object that `details` names.",
    "events_no_longer_kept": "Begin without `after`; read the orders whose outcome you still wait for one by one.",
    "invalid_path_param": "Take the id from an answer, unchanged.",
    "unauthorized": "Send `Authorization: Bearer` with a token of this surface; refresh it when it has expired.",
    "forbidden": "Ask the operator of the service why.",
    "insufficient_scope": "Ask the seller for the scope that this operation names.",
    "misdirected_request": "Call the service by its configured address.",
    "gone": "Call the operation that the message names.",
    "idempotency_key_already_used": "Use a new key: this one stands for a request that was different.",
    "resource_locked": "Repeat with the same key in a moment: the first request is still running.",
    "payload_too_large": "Send at most 64 KiB.",
    "unsupported_media_type": "Send `Content-Type: application/json`, in UTF-8 and without `Content-Encoding`.",
    "request_timeout": "Repeat on a better line; with the same key nothing happens twice.",
    "too_many_requests": "Wait for the seconds of `Retry-After`, then repeat.",
    "internal_error": "Repeat with the same key; report the `x-request-id` to the operator.",
    "service_unavailable": "Repeat with the same key: it tells whether anything was done.",
    "not_ready": "Send requests to another node until this one is ready; `details` says what it lacks.",
    # Orders
    "order_not_found": "Check the id, and that the token is of the order's seller and of its kind, live or test.",
    "forbidden_checking_terminal_owner": "Take the terminal from GET /terminals/v1/list, asked with the same token.",
    "terminal_not_in_pdv_mode": "Set its mode with PATCH /terminals/v1/setup.",
    "already_queued_order_on_terminal": "Wait for the order in the way or cancel it; the same key may be tried again.",
    "transaction_not_found": "Take the payment's id from the order: it is PAY and the order's id without ORD.",
    "order_already_refunded": "There is nothing left to give back.",
    "cannot_refund_order": (
        "`details` says why. What the acquirer declined stays declined under this key: use a new key to ask again."
    ),
    "refund_period_exceeded": "Give the money back in another way.",
    "partial_refund_forbidden_with_tips": "Refund the whole order: send no body.",
    "refund_amount_exceeds": "Ask for at most what `details` says is left.",
    "refund_in_progress": "Wait for the other refund to end, then repeat; the same key may be tried again.",
    "cannot_cancel_order": "Read `details`: at its terminal an order takes one header more; a paid one is refunded.",
    "order_already_canceled": "Nothing; the order is canceled.",
    # Terminals
    "terminal_not_found": "Take the terminal from GET /terminals/v1/list, asked with the same token.",
    "terminal_busy": "Wait for its order to end, or cancel it, then set the mode.",
    "precondition_failed": "Leave at most one terminal in PDV mode at each point of sale.",
    "stale_session": "Stop: another start of this terminal has taken over. Only results are still taken.",
    "lease_not_found": "Forget the lease; it is not one of this terminal.",
    "order_canceled": "Stop and go back to idle; the buyer is not charged.",
    "cancel_not_requested": "Go on with the payment, or report a result.",
    "order_not_granted": "Answer `done: true`; nothing was asked of the acquirer yet.",
    "order_granted": "Wait for the result: the acquirer may have been asked already.",
    "order_finished": "Stop reporting: what was sent is recorded.",
    "result_conflict": "Stop reporting: what was sent is recorded, and the acquirer is asked for the truth.",
    # Operators
    "reversal_not_found": "Take the id from `GET /operator/v1/reversals`.",
    "cannot_resolve_reversal": "Read `details`: it says why, or from when on an operator may end it.",
    "cannot_resolve_order": "Read `details`: it says why, or from when on an operator may end it.",
    "application_not_found": "Take the client_id from the list of applications.",
    "seller_not_found": "Take the user_id from the list of sellers.",
    "secret_not_found": "Take the id from the application's own `secrets`.",
    "operator_not_found": "Take the id from the list of operators.",
    "grant_not_found": "Take the id from the list of grants, unchanged.",
    "store_not_found": "Take the store_id from the list of stores, of the same seller.",
    "pos_not_found": "Take the pos_id from the list of points of sale, of the same seller.",
    "email_taken": "Use the seller that there is, or another address.",
    "too_many_secrets": "Remove a secret, or let the others end at once with `others_expire_in` of `0s`.",
    "external_pos_id_taken": "Use the point of sale that there is, or another name.",
    "pos_taken": "Name another point of sale, or none for a new one; or set the other terminal to STANDALONE.",
}


def advice(kind: ErrorKind) -> str:
    """What the caller does about this error; empty for a code of which nothing is said yet."""
    return ADVICE.get(kind.code, "")
