"""Errors as literals: a kind has a code, a status and a public message; a refusal is a kind raised for a reason.

The client gets the kind's message; the precise reason goes to the log, and tests assert it. Kinds that only one domain
answers are in that domain's `errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Repeat = Literal["now", "later", "never"]
"""`now`: the outcome is unknown, a repeat returns it. `later`: nothing was done because of a state that can change.
`never`: nothing was done, and nothing will be until the request, its credential or an account changes."""


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One row of an error table: the `code`, `status` and `message` of the response."""

    code: str
    status: int
    message: str
    advice: str = ""
    """Advice about it, in the docs."""
    repeat: Repeat = "never"
    """When the same request with the same idempotency key may succeed: its effect, if it had one, is not repeated."""

    @property
    def what_happened(self) -> str:
        """The message without the hints that follow; the advice has them."""
        return f"{self.message.partition('. ')[0].rstrip('.')}."

    def with_reason(
        self,
        reason: str,
        *details: str,
        message: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        credential_was_valid: bool = False,
    ) -> Refusal:
        """Return a refusal of this kind. `reason` is for the log, `details` and `message` are for the client."""
        return Refusal(self, reason, details, message, headers, credential_was_valid=credential_was_valid)


@dataclass(frozen=True, slots=True)
class Fault:
    """One invalid part of a request: the kind, and the JSON path with the rule that it breaks."""

    kind: ErrorKind
    detail: str
    message: str | None = None


@dataclass(eq=False)
class Refusal(Exception):
    """The refusal of a request. Raised, it rolls back the unit of work; returned, the work is committed.

    `faults` has all faults of a body; otherwise it is empty, and the kind with its details is the only one.
    """

    kind: ErrorKind
    reason: str
    details: tuple[str, ...] = ()
    message: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    faults: tuple[Fault, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the response body."""
    credential_was_valid: bool = False
    """Whether the refused credential was valid once (expired, revoked), so that this is not a guess."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request's log line."""

    def __str__(self) -> str:
        return f"{self.kind.code}: {self.reason}"

    @property
    def public_message(self) -> str:
        """Return the message for the client."""
        return self.message or self.kind.message


HOW_TO_GET_TEST_TOKENS = (
    "for a test token (TEST-…) exchange the code with test_token: true, or set the application's `test_tokens`"
)
"""The end of a message that refuses a live token."""

JSON_SYNTAX_ERROR = ErrorKind(
    "json_syntax_error",
    400,
    "The body is not well-formed JSON in UTF-8.",
    advice="Send one document, each key once.",
)
BAD_REQUEST = ErrorKind(
    "bad_request",
    400,
    "The request is malformed.",
    advice="Send well-formed HTTP, and only values that `details` allows.",
)
UNSUPPORTED_HEADER = ErrorKind(
    "unsupported_header",
    400,
    "The request has a header that is not allowed.",
    advice="Remove `x-test-scope`; remove `X-Test-Token` if the token is live.",
)
INVALID_REQUEST = ErrorKind(
    "invalid_request",
    400,
    "A required parameter is missing, or a parameter is unknown, repeated or malformed; or the body is not JSON or a"
    " form, as its Content-Type says.",
    advice="Change what `message` names. If it names nothing, the body is malformed.",
)
"""The code of the token endpoints for a malformed request (RFC 6749, as the next one)."""
INVALID_CLIENT = ErrorKind(
    "invalid_client",
    400,
    "client_id or client_secret is invalid.",
    advice="Check both. After a rotation, use the new secret.",
)
EMPTY_REQUIRED_HEADER = ErrorKind(
    "empty_required_header",
    400,
    "Missing HTTP header: X-Idempotency-Key.",
    advice="Send a new key for a new intent, the same one for a retry.",
)
INVALID_IDEMPOTENCY_KEY_LENGTH = ErrorKind(
    "invalid_idempotency_key_length",
    400,
    "X-Idempotency-Key must be one header of 1 to 64 visible ASCII characters.",
    advice="Use a UUID, for example.",
)
REQUIRED_PROPERTIES = ErrorKind(
    "required_properties", 400, "A required property is missing.", advice="`details` names the field."
)
UNSUPPORTED_PROPERTIES = ErrorKind(
    "unsupported_properties",
    400,
    "A property is unknown.",
    advice="Remove the field that `details` names.",
)
PROPERTY_TYPE = ErrorKind(
    "property_type",
    400,
    "A property has the wrong type.",
    advice="`details` names the field; omit it instead of sending null.",
)
PROPERTY_VALUE = ErrorKind(
    "property_value",
    400,
    "A property has a value that is not allowed.",
    advice="`details` names the field.",
)
MINIMUM_ITEMS = ErrorKind(
    "minimum_items", 400, "An array has too few items.", advice="Change the array that `details` names."
)
MAXIMUM_ITEMS = ErrorKind(
    "maximum_items", 400, "An array has too many items.", advice="Change the array that `details` names."
)
MINIMUM_PROPERTIES = ErrorKind(
    "minimum_properties",
    400,
    "An object that needs properties is empty.",
    advice="Add a property that `details` names.",
)
INVALID_PATH_PARAM = ErrorKind(
    "invalid_path_param", 400, "The id in the path is malformed.", advice="Use the id from a response, unchanged."
)
UNAUTHORIZED = ErrorKind(
    "unauthorized",
    401,
    "invalid access token",
    advice="`cause` says which kind of token to send.",
)
FORBIDDEN = ErrorKind(
    "forbidden",
    403,
    "The seller or the application is suspended.",
    advice="Ask the operator for the reason.",
)
FORM_OUTDATED = ErrorKind(
    "form_outdated",
    403,
    "The form token is not valid for this browser.",
    advice="Reload the page, with cookies allowed.",
)
INSUFFICIENT_SCOPE = ErrorKind(
    "insufficient_scope",
    403,
    "The access token lacks the scope that this operation needs.",
    advice="Ask the seller for that scope.",
)
SELLER_NOT_FOUND = ErrorKind(
    "seller_not_found",
    404,
    "There is no such seller.",
    advice="Use an id from the list: deleted and old ones are not in it.",
)
NOT_FOUND = ErrorKind(
    "not_found",
    404,
    "Unknown path.",
    advice="`/docs` lists all paths.",
)
METHOD_NOT_ALLOWED = ErrorKind("method_not_allowed", 405, "This path does not support that method.")
REQUEST_TIMEOUT = ErrorKind(
    "request_timeout",
    408,
    "The request did not arrive in time.",
    advice="Retry with the same key.",
    repeat="now",
)
IDEMPOTENCY_KEY_ALREADY_USED = ErrorKind(
    "idempotency_key_already_used",
    409,
    "This X-Idempotency-Key was used for another request. Use a new key for a new request; repeat the earlier one"
    " unchanged.",
    advice="Use a new key for a new request.",
)
IN_USE = ErrorKind(
    "in_use",
    409,
    "It is in use and can't be deleted or replaced.",
    advice="Read `details`: what uses it, and what to do instead.",
    repeat="later",
)
GONE = ErrorKind("gone", 410, "This operation is retired.", advice="Call what the message names.")
PAYLOAD_TOO_LARGE = ErrorKind(
    "payload_too_large", 413, "The body is larger than 64 KiB.", advice="`message` has the limit."
)
URI_TOO_LONG = ErrorKind("uri_too_long", 414, "The URL is longer than 8 KiB.")
UNSUPPORTED_MEDIA_TYPE = ErrorKind(
    "unsupported_media_type",
    415,
    "The body must be application/json in UTF-8.",
    advice="Send `Content-Type: application/json` without `Content-Encoding`.",
)
MISDIRECTED_REQUEST = ErrorKind(
    "misdirected_request",
    421,
    "This host name is not configured. Use the host of the service's `public_url`.",
    advice="Use the host of `public_url`.",
)
RESOURCE_LOCKED = ErrorKind(
    "resource_locked",
    423,
    "A request with this X-Idempotency-Key is still running. Retry in a second, with the same key.",
    advice="Retry with the same key in a second.",
    repeat="now",
)
TOO_MANY_REQUESTS = ErrorKind(
    "too_many_requests",
    429,
    "Too many requests. Try again later.",
    advice="Wait for the seconds of `Retry-After`.",
    repeat="later",
)
HEADERS_TOO_LARGE = ErrorKind("headers_too_large", 431, "The request has too many or too large headers.")
INTERNAL_ERROR = ErrorKind(
    "internal_error",
    500,
    "Internal error. The service's log has the details under this x-request-id.",
    advice="Retry with the same key; report the `x-request-id`.",
    repeat="now",
)
SERVICE_UNAVAILABLE = ErrorKind(
    "service_unavailable",
    503,
    "The database is unavailable. The request may or may not have been applied; retry it, with the same"
    " X-Idempotency-Key if it had one.",
    advice="Retry with the same key, after `Retry-After`.",
    repeat="now",
)
NOT_READY = ErrorKind(
    "not_ready",
    503,
    "This node is not ready for traffic.",
    advice="Use another node; `details` has the reason.",
    repeat="later",
)

BODY_FAULTS = (
    REQUIRED_PROPERTIES,
    UNSUPPORTED_PROPERTIES,
    PROPERTY_TYPE,
    PROPERTY_VALUE,
    MINIMUM_ITEMS,
    MAXIMUM_ITEMS,
    MINIMUM_PROPERTIES,
)
