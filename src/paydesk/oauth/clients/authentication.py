"""Who calls the token endpoints: an application, by the credentials in the body. They are checked nowhere else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from paydesk.core.errors import Refusal
from paydesk.oauth.clients import applications
from paydesk.oauth.clients.application import Application
from paydesk.oauth.clients.authentication_cache import AuthenticationCache
from paydesk.oauth.clients.throttle import ClientThrottle
from paydesk.oauth.errors import LOCAL_RATE_LIMITED, TOKEN_FORBIDDEN
from paydesk.oauth.schemas import Credentials
from paydesk.operation import Answer, Call

Work = Callable[[Application], Awaitable[Answer | Refusal]]


def client_named_in(document: Mapping[str, Any]) -> int | None:
    """The client that a body says it is from, whatever else is wrong with it; None where that can't be read."""
    value = document.get("client_id")
    if type(value) is int:
        value = str(value)
    return applications.number(value) if isinstance(value, str) and value else None


def check_throttled(throttle: ClientThrottle, document: Mapping[str, Any], address: str) -> None:
    """Refuse a client that has failed too often from there. Comes before every other look at the body."""
    if throttle.is_calm:
        return
    client = client_named_in(document)
    seconds = throttle.refusal(client, address) if client is not None else None
    if seconds is not None:
        raise _limited("too many failed authentications", seconds)


async def as_client(call: Call, credentials: Credentials, work: Work) -> Answer | Refusal:
    """What `work` answers the application that these credentials prove.

    A client that this node remembers is not looked up first; where `work` then refuses, it is, and `work` runs again.
    """
    proven: AuthenticationCache | None = call.state.get("authentication_cache")
    client_id, client_secret = credentials.client_id, credentials.client_secret
    known = proven.find(client_id, client_secret, call.now_ms) if proven is not None else None
    if known is not None:
        _count(call, known)
        call.logged_application_id = known.application_id
        writes = call.tx.writes
        try:
            return await work(known)
        except Refusal:
            # What this node remembers may be seconds old: nobody is refused for it.
            if call.tx.writes != writes:
                raise
    application = await _authenticated(call, credentials, proven)
    if isinstance(application, Refusal):
        return application
    _count(call, application)
    call.logged_application_id = application.application_id
    if application.suspended_ms is not None:
        raise TOKEN_FORBIDDEN.with_reason("application suspended")
    return await work(application)


async def _authenticated(
    call: Call, credentials: Credentials, proven: AuthenticationCache | None
) -> Application | Refusal:
    """The application, or why it is not; a failure is counted."""
    client_id = credentials.client_id
    try:
        application = await applications.authenticate(
            call.tx, client_id, credentials.client_secret, call.now_ms, proven
        )
    except Refusal:
        _count_failure(call, client_id)
        raise
    if isinstance(application, Refusal):
        _count_failure(call, client_id)
    return application


def _count_failure(call: Call, client_id: str) -> None:
    throttle: ClientThrottle | None = call.state.get("client_throttle")
    if throttle is not None and not call.throttle_counted:
        call.throttle_counted = True
        throttle.failed(applications.number(client_id), call.address)


def _count(call: Call, application: Application) -> None:
    """Refuse a client that calls too often; one call counts once, however often its unit of work is run."""
    throttle: ClientThrottle | None = call.state.get("client_throttle")
    if throttle is None or call.throttle_counted:
        return
    call.throttle_counted = True
    seconds = throttle.succeeded(application.application_id, call.address)
    if seconds is not None:
        raise _limited("client calls too often", seconds)


def _limited(reason: str, seconds: int) -> Refusal:
    return LOCAL_RATE_LIMITED.with_reason(reason, headers=(("retry-after", str(seconds)),))
