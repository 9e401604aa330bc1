"""Further accounts of a running service: another seller, another application, a token with fewer scopes."""

from __future__ import annotations

from dataclasses import replace

from oauth_scene import REDIRECT_URI, Scene, make_scene
from paydesk.engine.oauth.clients import applications
from paydesk.engine.oauth.clients.authentication import Application
from paydesk.platform.storage.database import Transaction
from service import Service, access_token


async def other_seller(service: Service) -> Service:
    """Return the service with the tokens of another seller and another application."""
    return await _with_tokens_of(service, await make_scene(service.database))


async def other_application(service: Service) -> Service:
    """Return the service with the tokens of another application of the same seller."""
    scene, now_ms = service.scene, service.clock.now_ms()

    async def work(tx: Transaction) -> Application:
        application, _ = await applications.create(
            tx, name="Kiosk", redirect_uris=(REDIRECT_URI,), scopes="read write", now_ms=now_ms
        )
        return application

    return await _with_tokens_of(service, replace(scene, application=await service.database.write(work)))


async def with_scope(service: Service, scope: str, *, live: bool = False) -> str:
    """Return an access token of the same seller and application with only this scope."""
    return await access_token(service.scene, service.clock.now_ms(), live=live, scope=scope)


async def _with_tokens_of(service: Service, scene: Scene) -> Service:
    now_ms = service.clock.now_ms()
    return replace(
        service,
        scene=scene,
        access_token=await access_token(scene, now_ms, live=False),
        live_access_token=await access_token(scene, now_ms, live=True),
    )
