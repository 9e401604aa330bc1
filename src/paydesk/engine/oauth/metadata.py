"""The authorization server metadata, by which a client discovers the endpoints (RFC 8414)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from paydesk.engine.oauth.consent import authorization
from paydesk.engine.oauth.scopes import SCOPES
from paydesk.platform.operation import Answer, Call, Handler
from paydesk.platform.web.language import LANGUAGES

PATH = "/.well-known/oauth-authorization-server"
CLIENT_AUTHENTICATION = ["client_secret_post", "client_secret_basic"]


def handler(endpoints: Mapping[str, str], grant_types: Collection[str]) -> Handler:
    """Return the handler. `endpoints` has the paths of the members `…_endpoint` at which a client authenticates."""

    async def show(call: Call) -> Answer:
        """Get the authorization server metadata."""
        return Answer(200, document(call.settings.issuer, endpoints, grant_types))

    return show


def document(issuer: str, endpoints: Mapping[str, str], grant_types: Collection[str]) -> dict[str, Any]:
    """Return the document of the service with this issuer."""
    authenticated: dict[str, Any] = {}
    for name, path in endpoints.items():
        authenticated[f"{name}_endpoint"] = issuer + path
        authenticated[f"{name}_endpoint_auth_methods_supported"] = CLIENT_AUTHENTICATION
    return {
        "issuer": issuer,
        "authorization_endpoint": issuer + authorization.PATH,
        **authenticated,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(grant_types),
        "code_challenge_methods_supported": [authorization.S256],
        "scopes_supported": list(SCOPES),
        "authorization_response_iss_parameter_supported": True,
        "service_documentation": f"{issuer}/docs",
        "ui_locales_supported": list(LANGUAGES),
    }


def answer_type(example: Mapping[str, Any]) -> type[msgspec.Struct]:
    """Return the document's type, derived from an example."""
    kinds = [(name, list[str] if isinstance(value, list) else type(value)) for name, value in example.items()]
    return msgspec.defstruct("Metadata", kinds)
