"""Applications and their secrets. A secret is in the response that creates it, and is not shown again."""

from __future__ import annotations

from paydesk.core.errors import Refusal
from paydesk.core.response import Closed, Time
from paydesk.core.text.durations import typed_seconds
from paydesk.engine.oauth.clients import applications
from paydesk.engine.oauth.clients.applications import ApplicationSecret
from paydesk.engine.oauth.clients.authentication import Application
from paydesk.engine.oauth.lifecycle import OnReplay
from paydesk.operators import audit, lists
from paydesk.operators.applications.fields import ApplicationChange, ApplicationRequest, SecretRequest
from paydesk.operators.deletion import in_use, uses
from paydesk.operators.errors import APPLICATION_NOT_FOUND, SECRET_NOT_FOUND, TOO_MANY_SECRETS
from paydesk.operators.subject import Subject, plain
from paydesk.platform.operation import Answer, Call

VALID_SECRETS_MAX = 5
LIST = f"SELECT {applications.COLUMNS} FROM applications WHERE application_id > $1 ORDER BY application_id LIMIT $2"


class _Application(Closed, frozen=True):
    client_id: str
    name: str
    redirect_uris: tuple[str, ...]
    scopes: str
    pkce_required: bool
    on_replay: OnReplay
    test_tokens: bool
    created_date: Time


class ApplicationDocument(_Application, frozen=True):
    """An application without its secrets."""

    suspended_date: Time | None = None


class SecretDocument(Closed, frozen=True):
    """The id and dates of a secret; one without `expires_date` is valid until it is removed."""

    id: str
    created_date: Time
    expires_date: Time | None = None


class ApplicationWithSecrets(ApplicationDocument, frozen=True, kw_only=True):
    """An application with the ids and dates of its secrets."""

    secrets: list[SecretDocument]


class NewApplication(_Application, frozen=True):
    """A new application with its first secret."""

    client_secret: str


class NewSecret(Closed, frozen=True):
    """A new secret, and all secrets of its application."""

    client_id: str
    id: str
    client_secret: str
    created_date: Time
    secrets: list[SecretDocument]


async def create(call: Call) -> Answer:
    """Register an application; its first secret is in the response."""
    body: ApplicationRequest = call.body
    application, secret = await applications.create(call.tx, now_ms=call.now_ms, **body.model_dump())
    answer = _present(application)
    await audit.record(call, call.tx, "applications.create", answer.client_id, after=answer)
    return Answer(201, NewApplication.of(answer, client_secret=secret.reveal()))


async def get(call: Call) -> Answer:
    """Get an application with the ids and dates of its secrets."""
    application = await applications.get(call.tx, lists.id_in_path(call.path))
    if application is None:
        raise _unknown()
    return Answer(200, await _answer(call, application))


async def change(call: Call) -> Answer:
    """Change an application: only the fields that were sent, so that concurrent changes of others take effect too."""
    body: ApplicationChange = call.body

    async def work(before: Application) -> None:
        earlier = {name: getattr(before, name) for name in ApplicationChange.model_fields}
        settable = {**earlier, **body.model_dump(exclude_unset=True)}
        await applications.change(call.tx, before.application_id, **settable)

    return await _APPLICATION.change(call, "applications.change", work)


async def delete(call: Call) -> Answer:
    """Delete an application that nothing uses. Raises `IN_USE` with its orders, authorizations and subscriptions."""

    async def work(application: Application) -> None:
        number = application.application_id
        in_use.refuse(
            ("subscriptions", await uses.ids(call.tx, uses.APPLICATION_SUBSCRIPTIONS, number), "delete these first"),
            ("grants", await uses.ids(call.tx, uses.APPLICATION_AUTHORIZATIONS, number), "withdraw these first"),
            (
                "orders",
                await uses.ids(call.tx, uses.APPLICATION_ORDERS, number),
                "these stay, so suspend the application instead",
            ),
        )
        await applications.delete(call.tx, number)

    return await _APPLICATION.delete(call, "applications.delete", work)


async def suspend(call: Call) -> Answer:
    """Suspend an application: it gets no tokens, and its tokens are refused."""
    return await _APPLICATION.change(
        call, "applications.suspend", lambda one: applications.suspend(call.tx, one.application_id, call.now_ms)
    )


async def resume(call: Call) -> Answer:
    """Resume a suspended application; its tokens are accepted again."""
    return await _APPLICATION.change(
        call, "applications.resume", lambda one: applications.resume(call.tx, one.application_id)
    )


async def add_secret(call: Call) -> Answer:
    """Add a secret to an application. The others stay valid for `others_expire_in`, or until they are removed."""
    application, body = await _APPLICATION.locked(call), call.body
    assert isinstance(body, SecretRequest)
    number, before = application.application_id, await applications.find_secrets(call.tx, application.application_id)
    if body.others_expire_in is not None:
        overlap_seconds = typed_seconds(body.others_expire_in)
        assert overlap_seconds is not None, "the schema has validated it"
        for other in before:
            await applications.expire_secret(call.tx, number, other.secret_id, call.now_ms + overlap_seconds * 1000)
    # Every authentication reads all secrets of the application, so expired ones are deleted here.
    await applications.delete_expired_secrets(call.tx, number, call.now_ms)
    if len(await applications.find_secrets(call.tx, number)) >= VALID_SECRETS_MAX:
        raise TOO_MANY_SECRETS.with_reason("too many secrets", f"at most {VALID_SECRETS_MAX} may be valid at once")
    created, secret = await applications.add_secret(call.tx, number, call.now_ms)
    after = await _record_secrets(call, number, "applications.secrets.add", before)
    one = _present_secret(created)
    return Answer(201, NewSecret.of(one, client_id=str(number), client_secret=secret.reveal(), secrets=after))


async def remove_secret(call: Call) -> Answer:
    """Remove a secret at once. The last one too: a leaked secret must not wait for its replacement."""
    application = await _APPLICATION.locked(call)
    number = application.application_id
    before = await applications.find_secrets(call.tx, number)
    if not await applications.remove_secret(call.tx, number, call.path):
        raise SECRET_NOT_FOUND.with_reason("unknown secret")
    await _record_secrets(call, number, "applications.secrets.remove", before)
    return Answer(200, await _answer(call, application))


async def _record_secrets(
    call: Call, number: int, action: str, before: list[ApplicationSecret]
) -> list[SecretDocument]:
    """Record the ids of the secrets before and after in the audit trail; return those after."""
    after = await _secrets(call, number)
    earlier = {"secrets": [_present_secret(secret) for secret in before]}
    await audit.record(call, call.tx, action, str(number), before=earlier, after={"secrets": after})
    return after


async def _answer(call: Call, application: Application) -> ApplicationWithSecrets:
    secrets = await _secrets(call, application.application_id)
    return ApplicationWithSecrets.of(_present(application), secrets=secrets)


async def _secrets(call: Call, number: int) -> list[SecretDocument]:
    return [_present_secret(secret) for secret in await applications.find_secrets(call.tx, number)]


def _present(application: Application) -> ApplicationDocument:
    return ApplicationDocument.of(application, client_id=str(application.application_id))


def _unknown() -> Refusal:
    return APPLICATION_NOT_FOUND.with_reason("unknown application")


def _present_secret(secret: ApplicationSecret) -> SecretDocument:
    return SecretDocument.of(secret, id=secret.secret_id)


PAGES = lists.pages(ApplicationDocument, LIST, lambda row: _present(Application.of(row)), (0,))
_APPLICATION: Subject[Application] = Subject(
    lock=lambda tx, call: applications.lock(tx, lists.id_in_path(call.paths[0])),
    read=lambda tx, application: applications.get(tx, application.application_id),
    show=plain(_present),
    id_of=lambda application: application.application_id,
    unknown=_unknown,
    answer=_answer,
)
