"""What clients of the token endpoints are refused: flat, and with the codes of OAuth."""

from __future__ import annotations

from dataclasses import replace

from declared.attempt import Attempt, Table
from faulty_database import FaultyDatabase
from oauth_scene import Scene, make_scene
from paydesk.engine.oauth.clients import applications
from paydesk.platform.operation import Operation
from service import Reply, Service

CLIENT_FAILURES = 10


async def _good(service: Service, database: FaultyDatabase, operation: Operation) -> Attempt:
    attempt = Attempt(service, database, operation)
    return replace(attempt, body=await _body(service, operation, service.scene))


async def _body(service: Service, operation: Operation, scene: Scene) -> dict[str, str]:
    """A good body of the scene's application."""
    if operation.name == "create_token":
        return scene.exchange(await scene.code())
    return scene.presented(service.access_token)


async def _of_another(attempt: Attempt) -> tuple[Scene, Attempt]:
    """The same as another application asks it, and whose it is."""
    scene = replace(await make_scene(attempt.service.database), clock=attempt.service.scene.clock)
    return scene, replace(attempt, body=await _body(attempt.service, attempt.operation, scene))


TABLE = Table("token", _good)


@TABLE.way("invalid_request")
async def _unknown_parameter(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "zzz": "1"})


@TABLE.way("authorization_server_metadata/invalid_request")
async def _sandbox_header(attempt: Attempt) -> Reply:
    return await attempt.send(headers={"x-test-scope": "sandbox"})


@TABLE.way("unsupported_grant_type")
async def _as_the_client_itself(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "grant_type": "client_credentials"})


@TABLE.way("local_rate_limited")
async def _guessed_secrets(attempt: Attempt) -> Reply:
    _, other = await _of_another(attempt)
    for _ in range(CLIENT_FAILURES):
        assert (await _wrong_secret(other)).status == 400
    return await other.send()


@TABLE.way("invalid_client")
async def _wrong_secret(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "client_secret": "another"})


@TABLE.way("forbidden")
async def _suspended_application(attempt: Attempt) -> Reply:
    scene, other = await _of_another(attempt)
    client_id, now_ms = scene.application.application_id, attempt.service.clock.now_ms()
    await scene.database.write(lambda tx: applications.suspend(tx, client_id, now_ms))
    return await other.send()


@TABLE.way("invalid_grant")
async def _used_code(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status == 200
    return await attempt.send()


@TABLE.way("unauthorized_client")
async def _withdrawn(attempt: Attempt) -> Reply:
    scene, other = await _of_another(attempt)
    await scene.run("UPDATE authorizations SET withdrawn_ms = 1 WHERE seller_id = $1", scene.seller.seller_id)
    return await other.send()


@TABLE.way("invalid_scope")
async def _unknown_scope(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "scope": "admin"})
