"""Components of the OpenAPI document: surfaces, security schemes, headers and the two error bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paydesk.core.errors import URI_TOO_LONG
from paydesk.platform.http.error_body import listed
from paydesk.platform.http.surfaces import POLICIES
from paydesk.platform.operation import Query, Surface

Json = dict[str, Any]

SURFACES: Mapping[Surface, str] = {name: one.description for name, one in POLICIES.items() if one.description}
SECURITY_SCHEMES: Mapping[Surface, Json] = {
    name: {"type": "http", "scheme": "bearer", "description": one.credential.described}
    for name, one in POLICIES.items()
    if one.credential is not None
}
IDEMPOTENCY_KEY = Query(
    "X-Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[!-~]+$", "examples": ["0d5020ed-1af6-469c"]},
    "Chosen by the client, one per intent: the same key with the same request has one effect and one response.",
    required=True,
)
ERROR_SCHEMAS: Json = {
    "Error": {
        "type": "object",
        "required": ["errors", "error", "message", "status", "cause"],
        "properties": {
            "errors": {
                "type": "array",
                "minItems": 1,
                "description": "All errors, in document order.",
                "items": {"$ref": "#/components/schemas/ErrorItem"},
            },
            "error": {"type": "string", "description": "The code of the first error."},
            "message": {
                "type": "string",
                "description": "The message of the first error with its first detail; on 401 without it.",
            },
            "status": {"type": "integer", "description": "The HTTP status."},
            "cause": {
                "type": "array",
                "minItems": 1,
                "description": "For official clients: a sentence for each detail, or for an error without one.",
                "items": {"$ref": "#/components/schemas/ErrorCause"},
            },
            "code": {"type": "string", "description": "On 401 only: the code again."},
        },
    },
    "ErrorItem": {
        "type": "object",
        "required": ["code", "message", "details"],
        "properties": {
            "code": {"type": "string"},
            "message": {"type": "string"},
            "details": {"type": "array", "items": {"type": "string"}},
        },
    },
    "ErrorCause": {
        "type": "object",
        "required": ["code", "description"],
        "properties": {"code": {"type": "string"}, "description": {"type": "string"}},
    },
    "TokenError": {
        "type": "object",
        "required": ["message", "error", "error_description", "status", "cause"],
        "properties": {
            "message": {"type": "string"},
            "error": {"type": "string", "description": "The code of RFC 6749 §5.2, or one of this service."},
            "error_description": {"type": "string", "description": "The same text as `message`."},
            "status": {"type": "integer"},
            "cause": {"type": "array", "maxItems": 0, "items": {"$ref": "#/components/schemas/ErrorCause"}},
        },
    },
}
HEADERS: Json = {
    "RequestId": {
        "description": "The client's `X-Request-Id`, or a new one; the request's log line has it.",
        "schema": {"type": "string"},
    },
    "Replayed": {
        "description": "`true` if this is the stored response of an earlier request with the same key.",
        "schema": {"type": "string", "const": "true"},
    },
    "RetryAfter": {"description": "Seconds to wait.", "schema": {"type": "string", "pattern": "^[0-9]+$"}},
    "Location": {"description": "The URL to which the browser is redirected.", "schema": {"type": "string"}},
    "Challenge": {"description": "The authentication scheme.", "schema": {"type": "string"}},
}
_ULID, _UUID = "01J67CQQH5904WDBVZEM4JMEP3", "5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6"
PATH_EXAMPLES = {
    "action_id": _UUID,
    "client_id": "3676047501096810",
    "delivery_id": f"{_UUID}.{_UUID}",
    "entry_id": _ULID,
    "fault_id": f"FLT{_ULID}",
    "grant_id": f"{_ULID}-1160535239",
    "lease_id": _ULID,
    "name": "acquirer",
    "operator_id": _ULID,
    "order_id": f"ORD{_ULID}",
    "pos_id": "4711",
    "refund_id": f"REF{_ULID}",
    "result_id": _UUID,
    "reversal_id": _ULID,
    "secret_id": "2",
    "session_id": _ULID,
    "store_id": "42",
    "subscription_id": _UUID,
    "terminal_id": "NEWLAND_N950__N950NCB801293324",
    "user_code": "BCDF-GHJK",
    "user_id": "1160535239",
}
"""An example of each parameter of a path."""
TOO_LONG: Json = {
    "description": f"`{URI_TOO_LONG.code}`",
    "x-repeat": URI_TOO_LONG.repeat,
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/Error"},
            "example": listed(URI_TOO_LONG.with_reason("an example")),
        }
    },
}
"""The server answers it before routing, so it is JSON on every surface."""
