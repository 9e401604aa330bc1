"""Applications as operators see them. The secret is in the answer that creates it, and nowhere else."""

from __future__ import annotations

from typing import Any

import msgspec

from paydesk.core.clock import rfc3339
from paydesk.core.errors import MINIMUM_PROPERTIES
from paydesk.oauth.clients import applications
from paydesk.oauth.clients.application import Application, ApplicationSecret
from paydesk.operation import Answer, Call
from paydesk.operators import audit, lists
from paydesk.operators.errors import APPLICATION_NOT_FOUND
from paydesk.operators.schemas import ApplicationChange, ApplicationRequest


async def create(call: Call) -> Answer:
    """Register an application with its first secret."""
    audit.require_change(call)
    body: ApplicationRequest = call.body
    application, secret = await applications.create(
        call.tx,
        name=body.name,
        redirect_uris=tuple(body.redirect_uris),
        scopes=body.scopes,
        pkce_required=body.pkce_required,
        on_replay=body.on_replay,
        now_ms=call.now_ms,
    )
    answer = shown(application)
    await audit.record(call, call.tx, "applications.create", answer["client_id"], after=answer)
    return Answer(201, {**answer, "client_secret": secret.reveal()})


async def find_all(call: Call) -> Answer:
    """List the applications."""
    return lists.slice_of(call, await applications.find_all(call.tx), lambda one: one.application_id, shown)


async def get(call: Call) -> Answer:
    """One application, with what is known of its secrets."""
    application = await applications.get(call.tx, lists.id_in_path(call.path))
    if application is None:
        raise APPLICATION_NOT_FOUND.with_reason("unknown application")
    return await answer(call, application)


async def change(call: Call) -> Answer:
    """Change what was sent, and nothing else: two who change different things at once both get theirs."""
    before, body = await held(call), call.body
    assert isinstance(body, ApplicationChange)
    sent = {name: getattr(body, name) for name in body.model_fields_set}
    if not sent:
        raise MINIMUM_PROPERTIES.with_reason(
            "nothing to change", f"'$' - must have one of {', '.join(type(body).model_fields)}"
        )
    if "redirect_uris" in sent:
        sent["redirect_uris"] = tuple(sent["redirect_uris"])
    after = msgspec.structs.replace(before, **sent)
    await applications.change(
        call.tx,
        after.application_id,
        name=after.name,
        redirect_uris=after.redirect_uris,
        scopes=after.scopes,
        pkce_required=after.pkce_required,
        on_replay=after.on_replay,
    )
    return await _changed(call, "applications.change", before)


async def suspend(call: Call) -> Answer:
    """It gets no tokens any more, and those it has stop working."""
    before = await held(call)
    await applications.suspend(call.tx, before.application_id, call.now_ms)
    return await _changed(call, "applications.suspend", before)


async def resume(call: Call) -> Answer:
    """It may go on, with the tokens it had."""
    before = await held(call)
    await applications.resume(call.tx, before.application_id)
    return await _changed(call, "applications.resume", before)


async def held(call: Call) -> Application:
    """The application of the path, for one who may change it and whom nobody else overtakes."""
    audit.require_change(call)
    application = await applications.lock(call.tx, lists.id_in_path(call.paths[0]))
    if application is None:
        raise APPLICATION_NOT_FOUND.with_reason("unknown application")
    return application


async def answer(call: Call, application: Application) -> Answer:
    """200 with the application and what is known of its secrets."""
    secrets = await applications.find_secrets(call.tx, application.application_id)
    return Answer(200, {**shown(application), "secrets": shown_secrets(secrets)})


def shown(application: Application) -> dict[str, Any]:
    """The application without its secrets."""
    document = {
        "client_id": str(application.application_id),
        "name": application.name,
        "redirect_uris": list(application.redirect_uris),
        "scopes": application.scopes,
        "pkce_required": application.pkce_required,
        "on_replay": application.on_replay,
        "created_date": rfc3339(application.created_ms),
    }
    suspended_ms = application.suspended_ms
    return document if suspended_ms is None else {**document, "suspended_date": rfc3339(suspended_ms)}


def shown_secrets(secrets: list[ApplicationSecret]) -> list[dict[str, Any]]:
    """What is known of the secrets; one without an end is good until it is removed."""
    return [
        {"id": one.secret_id, "created_date": rfc3339(one.created_ms)}
        | ({} if one.expires_ms is None else {"expires_date": rfc3339(one.expires_ms)})
        for one in secrets
    ]


async def _changed(call: Call, action: str, before: Application) -> Answer:
    """The application as it is by now; what changed is written down, and where nothing did, nothing."""
    after = await applications.get(call.tx, before.application_id)
    assert after is not None, "it is held until the commit"
    if after != before:
        document = shown(after)
        await audit.record(call, call.tx, action, document["client_id"], before=shown(before), after=document)
    return await answer(call, after)
