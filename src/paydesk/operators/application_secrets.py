"""The secrets of an application: a second one beside the first, so that it can be exchanged without a pause."""

from __future__ import annotations

from typing import Any

from paydesk.core.clock import rfc3339
from paydesk.core.durations import typed_seconds
from paydesk.oauth.clients import applications
from paydesk.oauth.clients.application import ApplicationSecret
from paydesk.operation import Answer, Call
from paydesk.operators import audit
from paydesk.operators.applications import answer, held, shown_secrets
from paydesk.operators.errors import SECRET_NOT_FOUND, TOO_MANY_SECRETS
from paydesk.operators.schemas import SecretRequest

GOOD_SECRETS_MAX = 5


async def add(call: Call) -> Answer:
    """One more secret; the others stay good for as long as the request says, or until they are removed."""
    application, body = await held(call), call.body
    assert isinstance(body, SecretRequest)
    number, before = application.application_id, await applications.find_secrets(call.tx, application.application_id)
    if body.others_expire_in is not None:
        overlap_seconds = typed_seconds(body.others_expire_in)
        assert overlap_seconds is not None, "the schema has looked at it"
        for other in before:
            await applications.expire_secret(call.tx, number, other.secret_id, call.now_ms + overlap_seconds * 1000)
    # What has ended is forgotten here, so that what is looked through at every authentication stays short.
    await applications.delete_expired_secrets(call.tx, number, call.now_ms)
    if len(await applications.find_secrets(call.tx, number)) >= GOOD_SECRETS_MAX:
        raise TOO_MANY_SECRETS.with_reason("too many secrets", f"at most {GOOD_SECRETS_MAX} may be good at once")
    made, secret = await applications.add_secret(call.tx, number, call.now_ms)
    after = await _record(call, number, "applications.secrets.add", before)
    return Answer(
        201,
        {
            "client_id": str(number),
            "id": made.secret_id,
            "client_secret": secret.reveal(),
            "created_date": rfc3339(made.created_ms),
            "secrets": after,
        },
    )


async def remove(call: Call) -> Answer:
    """End a secret at once. Also the last one: whose secret has leaked must not have to wait for anything."""
    application = await held(call)
    number = application.application_id
    before = await applications.find_secrets(call.tx, number)
    if not await applications.remove_secret(call.tx, number, call.path):
        raise SECRET_NOT_FOUND.with_reason("unknown secret")
    await _record(call, number, "applications.secrets.remove", before)
    return await answer(call, application)


async def _record(call: Call, number: int, action: str, before: list[ApplicationSecret]) -> list[dict[str, Any]]:
    """Write down which secrets there were and are, never what they say; those that there are."""
    after = shown_secrets(await applications.find_secrets(call.tx, number))
    await audit.record(
        call,
        call.tx,
        action,
        str(number),
        before={"secrets": shown_secrets(before)},
        after={"secrets": after},
    )
    return after
