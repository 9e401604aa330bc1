"""The seller, who agrees that an application may act for them, and is sent back to it."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

from paydesk.oauth import issuing
from service import Service


async def agree(service: Service, authorization_url: str) -> str:
    """Where the seller's browser is sent at the end: the application's address with `code`, `state` and `iss`."""
    asked = dict(parse_qsl(urlsplit(authorization_url).query))
    application, now_ms = service.scene.application, service.clock.now_ms()
    assert asked["client_id"] == str(application.application_id)
    code = await service.database.write(
        lambda tx: issuing.mint_code(
            tx,
            application_id=application.application_id,
            seller_id=service.seller_id,
            redirect_uri=asked["redirect_uri"],
            scope=asked.get("scope", application.scopes),
            challenge=asked.get("code_challenge"),
            now_ms=now_ms,
            expires_ms=now_ms + 600_000,
        )
    )
    told = {"code": code, "iss": service.base_url, **{name: asked[name] for name in ("state",) if name in asked}}
    return f"{asked['redirect_uri']}?{urlencode(told)}"
