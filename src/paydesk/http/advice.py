"""What to do about an error: one sentence per code, for the reference and the page of errors."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

ADVICE = {
    # The tokens
    "invalid_client": "Check client_id and client_secret. After a rotation, use the new secret.",
    "invalid_grant": "Start the authorization again: the code or refresh token was used, or belongs to another client.",
    "invalid_scope": "Request `offline_access`, `read` or `write`, each once, and only what was authorized.",
    "invalid_request": "Compare the body with the fields above: one is missing, repeated, unknown or of another type.",
    "unsupported_grant_type": "Send `authorization_code` or `refresh_token`.",
    "unauthorized_client": "Ask the seller to authorize the application again.",
    "local_rate_limited": "Wait for the seconds of `Retry-After`, then retry.",
    # The pages
    "doubled_parameter": "Send each query parameter once.",
    "unknown_application": "Send the client_id that the operator gave the application.",
    "unregistered_address": "Send a registered redirect_uri, identical in every character.",
    "application_suspended": "Ask the operator of the service for the reason.",
    "sign_in_failed": "Try again; an operator can set a new password for the seller.",
    "seller_suspended": "Ask the operator of the service for the reason.",
    "session_ended": "Sign in again.",
    "form_outdated": "Reload the page, with cookies allowed.",
    "request_decided": "Send the seller to GET /authorization again.",
    "application_changed": "Send the seller to GET /authorization again, with the application's current scopes.",
    "sign_in_throttled": "Wait for the seconds of `Retry-After`, then retry.",
    # Every operation
    "json_syntax_error": "Send one well-formed JSON document in UTF-8, each key once.",
    "bad_request": "Send well-formed HTTP; move an order only to a status that its current one allows.",
    "unsupported_header": "Remove `x-test-scope`, and `X-Test-Token` with a live token; test orders use test tokens.",
    "empty_required_header": "Send `X-Idempotency-Key`: a new one for a new intent, the same one for a retry.",
    "invalid_idempotency_key_length": "Use 1 to 64 visible ASCII characters, for example a UUID.",
    "required_properties": "Add the field that `details` names.",
    "unsupported_properties": "Remove the field or parameter that `details` names.",
    "property_type": "Send the field that `details` names with its type; omit it instead of sending null.",
    "property_value": "Send the field that `details` names with an allowed value.",
    "minimum_items": "Add an item to the array that `details` names.",
    "maximum_items": "Remove items from the array that `details` names.",
    "minimum_properties": "Add a property to the object that `details` names.",
    "events_no_longer_kept": "Start without `after`; read the orders whose outcome you still need one by one.",
    "invalid_path_param": "Use the id from a response, unchanged.",
    "unauthorized": "Send `Authorization: Bearer` with a token of this surface; refresh it if it has expired.",
    "forbidden": "Ask the operator of the service for the reason.",
    "insufficient_scope": "Ask the seller for the scope that this operation requires.",
    "misdirected_request": "Call the service by its configured host name.",
    "gone": "Call the operation that the message names.",
    "idempotency_key_already_used": "Use a new key: this one was used for a different request.",
    "resource_locked": "Retry with the same key in a moment: the first request is still running.",
    "payload_too_large": "Send at most 64 KiB.",
    "unsupported_media_type": "Send `Content-Type: application/json`, in UTF-8 and without `Content-Encoding`.",
    "request_timeout": "Retry with the same key: the request takes effect at most once.",
    "too_many_requests": "Wait for the seconds of `Retry-After`, then retry.",
    "internal_error": "Retry with the same key; report the `x-request-id` to the operator.",
    "service_unavailable": "Retry with the same key: the request may or may not have been applied.",
    "not_ready": "Send requests to another node until this one is ready; `details` has the reason.",
    # Orders
    "order_not_found": "Check the id, and that the token is for the order's seller and mode, live or test.",
    "forbidden_checking_terminal_owner": "Use a terminal from GET /terminals/v1/list with the same token.",
    "terminal_not_in_pdv_mode": "Set its mode with PATCH /terminals/v1/setup.",
    "already_queued_order_on_terminal": "Wait for the conflicting order or cancel it, then retry with the same key.",
    "transaction_not_found": "Use the payment's id from the order: PAY, then the order's id without ORD.",
    "order_already_refunded": "No action is needed: the whole amount is refunded.",
    "cannot_refund_order": (
        "`details` has the reason. A declined refund stays declined under this key: use a new key to try again."
    ),
    "refund_period_exceeded": "Refund the buyer in another way.",
    "partial_refund_forbidden_with_tips": "Refund the whole order: send no body.",
    "refund_amount_exceeds": "Refund at most the remaining amount in `details`.",
    "refund_in_progress": "Wait for the other refund to finish, then retry with the same key.",
    "cannot_cancel_order": "Read `details`: at its terminal an order needs the extra header; refund a paid order.",
    "order_already_canceled": "No action is needed: the order is canceled.",
    # Terminals
    "terminal_not_found": "Use a terminal from GET /terminals/v1/list with the same token.",
    "terminal_busy": "Wait for its order to end, or cancel it, then set the mode.",
    "precondition_failed": "Leave at most one terminal in PDV mode at each point of sale.",
    "stale_session": "Stop: a later start of this terminal has a newer session. Only results are still accepted.",
    "lease_not_found": "Delete the lease; it does not belong to this terminal.",
    "order_canceled": "Stop and return to idle; the buyer is not charged.",
    "cancel_not_requested": "Continue the payment, or report a result.",
    "order_not_granted": "Send `done: true`: authorization was not permitted, so nothing was charged.",
    "order_granted": "Wait for the result: the payment may already have been sent to the acquirer.",
    "order_finished": "Stop reporting: the result is recorded.",
    "result_conflict": "Stop reporting: the result is recorded, and an inquiry asks the acquirer for the outcome.",
    # Operators
    "reversal_not_found": "Use an id from `GET /operator/v1/reversals`.",
    "cannot_resolve_reversal": "Read `details`: it has the reason, or the time from which an operator may resolve it.",
    "cannot_resolve_order": "Read `details`: it has the reason, or the time from which an operator may resolve it.",
    "application_not_found": "Use a client_id from the list of applications.",
    "seller_not_found": "Use a user_id from the list of sellers.",
    "secret_not_found": "Use an id from the application's `secrets`.",
    "operator_not_found": "Use an id from the list of operators.",
    "grant_not_found": "Use an id from the list of grants, unchanged.",
    "store_not_found": "Use a store_id from the seller's list of stores.",
    "pos_not_found": "Use a pos_id from the seller's list of points of sale.",
    "email_taken": "Use the existing seller, or another address.",
    "too_many_secrets": "Remove a secret, or expire all others at once with `others_expire_in`: `0s`.",
    "external_pos_id_taken": "Use the existing point of sale, or another external_pos_id.",
    "pos_taken": "Send another pos_id, or none to create a point of sale; or set the other terminal to STANDALONE.",
}


def advice(kind: ErrorKind) -> str:
    """Return what the client does about this error; empty for a code without advice."""
    return ADVICE.get(kind.code, "")
