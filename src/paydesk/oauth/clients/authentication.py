"""Client authentication at the token endpoints, by the credentials in the body (RFC 6749 section 2.3.1)."""

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
    """Return the number of the body's `client_id`, whether or not the rest is valid; None if it has none."""
    value = document.get("client_id")
    if type(value) is int:
        value = str(value)
    return applications.number(value) if isinstance(value, str) and value else None


def check_throttled(throttle: ClientThrottle, document: Mapping[str, Any], address: str) -> None:
    """Refuse a client with too many failures from this address, before any other check of the body."""
    if throttle.is_idle:
        return
    client = client_named_in(document)
    seconds = throttle.refusal(client, address) if client is not None else None
    if seconds is not None:
        raise _limited("too many failed authentications", seconds)


async def as_client(call: Call, credentials: Credentials, work: Work) -> Answer | Refusal:
    """Authenticate the client and return the result of `work`.

    A client in this node's cache is not looked up. If `work` then refuses without a write, the client is looked up and
    `work` runs again, since the cached application may be outdated by seconds.
    """
    cache = call.shared.authentication_cache
    client_id, client_secret = credentials.client_id, credentials.client_secret
    cached = cache.find(client_id, client_secret, call.now_ms)
    if cached is not None:
        _count_request(call, cached)
        call.logged_application_id = cached.application_id
        writes = call.tx.writes
        try:
            return await work(cached)
        except Refusal:
            if call.tx.writes != writes:
                raise
    application = await _authenticate(call, credentials, cache)
    if isinstance(application, Refusal):
        return application
    _count_request(call, application)
    call.logged_application_id = application.application_id
    if application.suspended_ms is not None:
        raise TOKEN_FORBIDDEN.with_reason("application suspended")
    return await work(application)


async def _authenticate(call: Call, credentials: Credentials, cache: AuthenticationCache) -> Application | Refusal:
    """Return the application, or return or raise the refusal; a failure is counted."""
    client_id = credentials.client_id
    try:
        application = await applications.authenticate(call.tx, client_id, credentials.client_secret, call.now_ms, cache)
    except Refusal:
        _count_failure(call, client_id)
        raise
    if isinstance(application, Refusal):
        _count_failure(call, client_id)
    return application


def _count_failure(call: Call, client_id: str) -> None:
    if not call.throttle_counted:
        call.throttle_counted = True
        call.shared.client_throttle.failed(applications.number(client_id), call.address)


def _count_request(call: Call, application: Application) -> None:
    """Refuse a client that calls too often. A call counts once, however often its transaction is retried."""
    if call.throttle_counted:
        return
    call.throttle_counted = True
    seconds = call.shared.client_throttle.succeeded(application.application_id, call.address)
    if seconds is not None:
        raise _limited("client calls too often", seconds)


def _limited(reason: str, seconds: int) -> Refusal:
    return LOCAL_RATE_LIMITED.with_reason(reason, headers=(("retry-after", str(seconds)),))
