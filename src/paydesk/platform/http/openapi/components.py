"""Components of the OpenAPI document: surfaces, security schemes, headers and the two error bodies."""

from __future__ import annotations

from typing import Any

from paydesk.core.errors import URI_TOO_LONG
from paydesk.platform.http.error_body import listed
from paydesk.platform.operation import Query, Surface

Json = dict[str, Any]

SURFACES: dict[Surface, str] = {
    "token": "OAuth endpoints: an application authenticates in the body and gets a token to act for a seller.",
    "page": "Pages for a seller's browser: bodies are forms; answers and errors are HTML in the browser's language.",
    "application": "Orders and terminals, for an application that acts for a seller.",
    "device": "Operations for card terminals, which open all connections themselves.",
    "operator": "Operations for operators; the command line is a client of them.",
    "virtual": "Virtual terminals of `paydesk dev`, driven step by step by a test of the seller's application.",
    "public": "Operations without authentication.",
}
SECURITY_SCHEMES: dict[Surface, Json] = {
    "application": {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token of `POST /oauth/token`, `APP_USR-…` or `TEST-…`, with the required scope.",
    },
    "device": {"type": "http", "scheme": "bearer", "description": "A terminal's own token, `PDT-…`."},
    "operator": {"type": "http", "scheme": "bearer", "description": "An operator's token, `PDO-…`."},
    "virtual": {
        "type": "http",
        "scheme": "bearer",
        "description": "A test access token, `TEST-…`, with the required scope, or an operator's token, `PDO-…`.",
    },
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
                "items": {
                    "type": "object",
                    "required": ["code", "message", "details"],
                    "properties": {
                        "code": {"type": "string"},
                        "message": {"type": "string"},
                        "details": {"type": "array", "items": {"type": "string"}},
                    },
                },
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
                "items": {
                    "type": "object",
                    "required": ["code", "description"],
                    "properties": {"code": {"type": "string"}, "description": {"type": "string"}},
                },
            },
            "code": {"type": "string", "description": "On 401 only: the code again."},
        },
    },
    "TokenError": {
        "type": "object",
        "required": ["message", "error", "error_description", "status", "cause"],
        "properties": {
            "message": {"type": "string"},
            "error": {"type": "string", "description": "The code of RFC 6749 §5.2, or one of this service."},
            "error_description": {"type": "string", "description": "The same text as `message`."},
            "status": {"type": "integer"},
            "cause": {"type": "array", "items": {}},
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
    "Successor": {
        "description": 'The successor\'s path, with `rel="successor-version"`.',
        "schema": {"type": "string"},
    },
    "Challenge": {"description": "The authentication scheme.", "schema": {"type": "string"}},
}
TOO_LONG: Json = {
    "description": f"`{URI_TOO_LONG.code}`",
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/Error"},
            "example": listed(URI_TOO_LONG.with_reason("an example")),
        }
    },
}
"""The server answers it before routing, so it is JSON on every surface."""
