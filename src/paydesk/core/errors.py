"""Errors as literals: a kind has a code, a status and a public message; a refusal is a kind raised for a reason.

The client gets the kind's message; the precise reason goes to the log, and tests assert it. Kinds that only one domain
answers are in that domain's `errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One row of an error table: the `code`, `status` and `message` of the response."""

    code: str
    status: int
    message: str
    advice: str = ""
    """Advice about it, in the docs."""

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
    advice="Send one well-formed JSON document in UTF-8, each key once.",
)
BAD_REQUEST = ErrorKind(
    "bad_request",
    400,
    "The request is malformed.",
    advice="Send well-formed HTTP; move an order only to a status that its current one allows.",
)
UNSUPPORTED_HEADER = ErrorKind(
    "unsupported_header",
    400,
    "The request has a header that is not allowed.",
    advice="Remove `x-test-scope`, and `X-Test-Token` with a live token; test orders use test tokens.",
)
INVALID_REQUEST = ErrorKind(
    "invalid_request",
    400,
    "A required parameter is missing, or a parameter is unknown, repeated or malformed; or the body is not JSON or a"
    " form, as its Content-Type says.",
    advice="Change the parameter or header that `message` names. If it names none, the body is malformed.",
)
"""The code of the token endpoints for a malformed request (RFC 6749, as the next one)."""
INVALID_CLIENT = ErrorKind(
    "invalid_client",
    400,
    "client_id or client_secret is invalid.",
    advice="Check client_id and client_secret. After a rotation, use the new secret.",
)
EMPTY_REQUIRED_HEADER = ErrorKind(
    "empty_required_header",
    400,
    "Missing HTTP header: X-Idempotency-Key.",
    advice="Send `X-Idempotency-Key`: a new one for a new intent, the same one for a retry.",
)
INVALID_IDEMPOTENCY_KEY_LENGTH = ErrorKind(
    "invalid_idempotency_key_length",
    400,
    "X-Idempotency-Key must be one header of 1 to 64 visible ASCII characters.",
    advice="Use 1 to 64 visible ASCII characters, for example a UUID.",
)
REQUIRED_PROPERTIES = ErrorKind(
    "required_properties", 400, "A required property is missing.", advice="Add the field that `details` names."
)
UNSUPPORTED_PROPERTIES = ErrorKind(
    "unsupported_properties",
    400,
    "A property is unknown.",
    advice="Remove the field or parameter that `details` names.",
)
PROPERTY_TYPE = ErrorKind(
    "property_type",
    400,
    "A property has the wrong type.",
    advice="Send the field that `details` names with its type; omit it instead of sending null.",
)
PROPERTY_VALUE = ErrorKind(
    "property_value",
    400,
    "A property has a value that is not allowed.",
    advice="Send the field that `details` names with an allowed value.",
)
MINIMUM_ITEMS = ErrorKind(
    "minimum_items", 400, "An array has too few items.", advice="Add an item to the array that `details` names."
)
MAXIMUM_ITEMS = ErrorKind(
    "maximum_items", 400, "An array has too many items.", advice="Remove items from the array that `details` names."
)
MINIMUM_PROPERTIES = ErrorKind(
    "minimum_properties",
    400,
    "An object that needs properties is empty.",
    advice="Add a property to the object that `details` names.",
)
INVALID_PATH_PARAM = ErrorKind(
    "invalid_path_param", 400, "The id in the path is malformed.", advice="Use the id from a response, unchanged."
)
UNAUTHORIZED = ErrorKind(
    "unauthorized",
    401,
    "invalid access token",
    advice="Read `cause`: it has the kind of token that was sent, and the one to send.",
)
FORBIDDEN = ErrorKind(
    "forbidden",
    403,
    "The seller or the application is suspended.",
    advice="Ask the operator of the service for the reason.",
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
    advice="Ask the seller for the scope that this operation requires.",
)
SELLER_NOT_FOUND = ErrorKind(
    "seller_not_found", 404, "There is no such seller.", advice="Use a user_id from the list of sellers."
)
NOT_FOUND = ErrorKind(
    "not_found",
    404,
    "Unknown path.",
    advice="Check the method and the path: `/openapi.json` lists those of this service.",
)
METHOD_NOT_ALLOWED = ErrorKind("method_not_allowed", 405, "This path does not support that method.")
REQUEST_TIMEOUT = ErrorKind(
    "request_timeout",
    408,
    "The request did not arrive in time.",
    advice="Retry with the same key: the request takes effect at most once.",
)
IDEMPOTENCY_KEY_ALREADY_USED = ErrorKind(
    "idempotency_key_already_used",
    409,
    "This X-Idempotency-Key was used for another request. Use a new key for a new request; repeat the earlier one"
    " unchanged.",
    advice="Use a new key: this one was used for a different request.",
)
IN_USE = ErrorKind(
    "in_use",
    409,
    "It is in use and can't be deleted or replaced.",
    advice="`details` names what uses it and what to do instead.",
)
GONE = ErrorKind("gone", 410, "This operation is retired.", advice="Call the operation that the message names.")
PAYLOAD_TOO_LARGE = ErrorKind(
    "payload_too_large", 413, "The body is larger than 64 KiB.", advice="Send a smaller body: `message` has the limit."
)
URI_TOO_LONG = ErrorKind("uri_too_long", 414, "The URL is longer than 8 KiB.")
UNSUPPORTED_MEDIA_TYPE = ErrorKind(
    "unsupported_media_type",
    415,
    "The body must be application/json in UTF-8.",
    advice="Send `Content-Type: application/json`, in UTF-8 and without `Content-Encoding`.",
)
MISDIRECTED_REQUEST = ErrorKind(
    "misdirected_request",
    421,
    "This host name is not configured. Use the host of the service's `public_url`.",
    advice="Call the service by its configured host name.",
)
RESOURCE_LOCKED = ErrorKind(
    "resource_locked",
    423,
    "A request with this X-Idempotency-Key is still running. Retry in a second, with the same key.",
    advice="Retry with the same key in a moment: the first request is still running.",
)
TOO_MANY_REQUESTS = ErrorKind(
    "too_many_requests",
    429,
    "Too many requests. Try again later.",
    advice="Wait for the seconds of `Retry-After`, then retry.",
)
HEADERS_TOO_LARGE = ErrorKind("headers_too_large", 431, "The request has too many or too large headers.")
INTERNAL_ERROR = ErrorKind(
    "internal_error",
    500,
    "Internal error. The service's log has the details under this x-request-id.",
    advice="Retry with the same key; report the `x-request-id` to the operator.",
)
SERVICE_UNAVAILABLE = ErrorKind(
    "service_unavailable",
    503,
    "The database is unavailable. The request may or may not have been applied; retry it, with the same"
    " X-Idempotency-Key if it had one.",
    advice="Retry with the same key: the request may or may not have been applied.",
)
NOT_READY = ErrorKind(
    "not_ready",
    503,
    "This node is not ready for traffic.",
    advice="Send requests to another node until this one is ready; `details` has the reason.",
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
