"""Applications as operators see them. The secret is in the answer that creates it, and nowhere else."""

from __future__ import annotations

from typing import Any

from paydesk.clock import rfc3339
from paydesk.oauth import applications
from paydesk.oauth.applications import Application
from paydesk.operation import Answer, Call
from paydesk.operators import audit, lists
from paydesk.operators.schemas import ApplicationRequest


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
