"""Errors of the terminals' interface (`/device/v1`)."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

STALE_SESSION = ErrorKind(
    "stale_session",
    409,
    "The terminal has begun a newer session. This session has ended; send a hello to begin one.",
    advice="Stop. Only results are still accepted.",
)
LEASE_NOT_FOUND = ErrorKind(
    "lease_not_found",
    404,
    "This terminal has no such lease.",
    advice="Drop the order, but keep an unsent result and send it again.",
)
ORDER_CANCELED = ErrorKind(
    "order_canceled",
    409,
    "The terminal must not charge this order: it was canceled, it expired, or it was detached.",
    advice="Return to idle: the buyer is not charged.",
)
NOT_A_SERVICE_TERMINAL = ErrorKind(
    "not_a_service_terminal",
    409,
    "The service authorizes payments only for terminals of kind `service`. Request the permit with the step"
    " `authorizing`, ask your acquirer, and report a result.",
    advice="Ask for the permit with the step `authorizing`, then your own acquirer; or pair it as `service`.",
)
ACQUIRER_NOT_CONFIGURED = ErrorKind(
    "acquirer_not_configured",
    409,
    "The service has no acquirer for this order. Nothing was charged and the order is unchanged. Set `acquirer`.",
    advice="Nothing was charged: cancel the order, or ask the operator for an acquirer.",
    repeat="later",
)
AUTHORIZATION_CONFLICT = ErrorKind(
    "authorization_conflict",
    409,
    "An authorization with other content was requested for this lease. Repeat that request to get its outcome.",
    advice="Send the first request again; nothing is charged twice.",
)
ORDER_FINISHED = ErrorKind(
    "order_finished",
    409,
    "The order has already ended. A reported result is recorded.",
    advice='Stop reporting if the body has `"recorded": true`.',
)
RESULT_CONFLICT = ErrorKind(
    "result_conflict",
    409,
    "The result is unreadable or contradicts the order's state. It is recorded.",
    advice='Stop reporting if the body has `"recorded": true`. If the outcome is open, the acquirer is asked.',
)
CANCEL_NOT_REQUESTED = ErrorKind(
    "cancel_not_requested",
    409,
    "No cancel of the order was requested. Report a result instead.",
    advice="Continue the payment, or report a result.",
)
ORDER_NOT_GRANTED = ErrorKind(
    "order_not_granted",
    409,
    "A cancel can be declined only after authorization was permitted. Release the order with `done: true`.",
    advice="Send `done: true`.",
)
ORDER_GRANTED = ErrorKind(
    "order_granted",
    409,
    "Authorization was permitted, so the order can't be released. Report a result.",
    advice="Continue: the acquirer may have charged.",
)
