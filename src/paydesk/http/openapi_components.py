"""What every OpenAPI document of ours has: the surfaces and how each is opened, headers, the two bodies of errors."""

from __future__ import annotations

from typing import Any

from paydesk.core.errors import URI_TOO_LONG
from paydesk.http.shared import error_body
from paydesk.operation import Query, Surface

Json = dict[str, Any]

SURFACES: dict[Surface, str] = {
    "token": "Tokens: an application proves who it is in the body and is given a token to act for a seller.",
    "page": "What a seller's browser sees: bodies are forms, answers are HTML in the browser's language, errors too.",
    "application": "Orders and terminals, for an application that acts for a seller.",
    "device": "What a card terminal calls, always outbound from it.",
    "operator": "What operators do; the command line is a client of it.",
    "public": "Open to everybody who reaches the service.",
}
SECURITY_SCHEMES: dict[Surface, Json] = {
    "application": {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token of `POST /oauth/token`, `APP_USR-…` or `TEST-…`, with the scope named.",
    },
    "device": {"type": "http", "scheme": "bearer", "description": "A terminal's own token, `PDT-…`."},
    "operator": {"type": "http", "scheme": "bearer", "description": "An operator's token, `PDO-…`."},
}
IDEMPOTENCY_KEY = Query(
    "X-Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[!-~]+$", "examples": ["0d5020ed-1af6-469c"]},
    "Chosen by the caller, one per intent: the same key with the same request has one effect and one answer.",
    required=True,
)
ERROR_SCHEMAS: Json = {
    "Error": {
        "type": "object",
        "required": ["errors", "error", "message", "status"],
        "properties": {
            "errors": {
                "type": "array",
                "minItems": 1,
                "description": "Everything that is wrong, in document order.",
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
            "error": {"type": "string", "description": "The first one's code."},
            "message": {"type": "string", "description": "The first one's message."},
            "status": {"type": "integer", "description": "The HTTP status."},
            "code": {"type": "string", "description": "On 401 alone: the code once more."},
        },
    },
    "TokenError": {
        "type": "object",
        "required": ["message", "error", "error_description", "status", "cause"],
        "properties": {
            "message": {"type": "string"},
            "error": {"type": "string", "description": "The code of RFC 6749 §5.2, or one of this service."},
            "error_description": {"type": "string", "description": "The same sentence as `message`."},
            "status": {"type": "integer"},
            "cause": {"type": "array", "items": {}},
        },
    },
}
HEADERS: Json = {
    "RequestId": {
        "description": "The caller's own `X-Request-Id`, or a new one; it is in the log line of this request.",
        "schema": {"type": "string"},
    },
    "Replayed": {
        "description": "`true` when this answer was given before, under the same key.",
        "schema": {"type": "string", "const": "true"},
    },
    "RetryAfter": {"description": "Seconds to wait.", "schema": {"type": "string", "pattern": "^[0-9]+$"}},
    "Location": {"description": "Where the browser goes on.", "schema": {"type": "string"}},
    "Successor": {
        "description": 'The successor\'s path, with `rel="successor-version"`.',
        "schema": {"type": "string"},
    },
    "Challenge": {"description": "Which credential opens the door.", "schema": {"type": "string"}},
}
TOO_LONG: Json = {
    "description": f"`{URI_TOO_LONG.code}`",
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/Error"},
            "example": error_body("public", URI_TOO_LONG.with_reason("an example")),
        }
    },
}
"""Said before it is known what is asked for, and so in JSON wherever a long query may be sent."""
