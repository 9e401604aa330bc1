"""The handlers of the token endpoints. The order of the lines is the order of the checks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from paydesk.core.errors import Refusal
from paydesk.engine.oauth import presented, schemas
from paydesk.engine.oauth.bearer import AccessToken
from paydesk.engine.oauth.clients import authentication, basic
from paydesk.engine.oauth.clients.authentication import Application, AuthenticationCache, ClientThrottle
from paydesk.engine.oauth.errors import TOKEN_FORBIDDEN
from paydesk.engine.oauth.grants import Redemption
from paydesk.engine.oauth.schemas import Credentials, Introspection, PresentedToken, TokenRequest
from paydesk.engine.oauth.scopes import shared
from paydesk.engine.oauth.store import RefreshToken
from paydesk.engine.oauth.tokens import Lifetimes
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.conflict_keys import ConflictKey

GRANTS = {"authorization_code": Redemption.exchange, "refresh_token": Redemption.refresh}
REDEEMED = {"code": conflict_keys.code, "refresh_token": conflict_keys.refresh_token}


def redeemed_credential(call: Call) -> tuple[ConflictKey, ...]:
    """Return the conflict key of a token request: the code or refresh token that it redeems."""
    return tuple(key(call.body[name]) for name, key in REDEEMED.items() if name in call.body)


async def token(call: Call) -> Answer | Refusal:
    """Exchange an authorization code for tokens, or refresh them: RFC 6749 sections 4.1.3 and 6."""
    request = schemas.read(TokenRequest, call.body)
    schemas.check_grant_type(request)
    redeem, settings = GRANTS[request.grant_type], call.settings

    async def work(application: Application) -> Answer | Refusal:
        redemption = Redemption(
            call.tx,
            call.now_ms,
            request,
            application,
            call.address,
            call.keys,
            Lifetimes(settings.access_token_lifetime_seconds, settings.refresh_token_lifetime_seconds),
            settings.code_repeat_seconds,
            settings.refresh_repeat_seconds,
        )
        try:
            pair = await redeem(redemption)
        except Exception:  # not `finally`: an attempt that the driver abandons is closed after the one that replaced it
            call.logged_seller_id = redemption.seller_id
            raise
        call.logged_seller_id, call.alert = redemption.seller_id, redemption.alert
        if isinstance(pair, Refusal):
            return pair
        # Scopes that an operator has taken from the application are left out; the tokens keep them for the case that
        # they are restored.
        scope = shared(pair.generation.scope, application.scopes)
        public_key = application.public_key(live=pair.family.live)
        return Answer(200, schemas.token_answer(pair, scope, public_key, call.now_ms))

    return await _as_client(call, request, work)


def presented_token(call: Call) -> tuple[ConflictKey, ...]:
    """Return the conflict key of a request about a token: that of a refresh with it."""
    return (conflict_keys.refresh_token(call.body.get("token")),)


async def revoke(call: Call) -> Answer | Refusal:
    """Revoke a token: RFC 7009, for tokens of the calling application."""
    request = _presented(call)

    async def work(application: Application) -> Answer:
        stored = await _find(call, request.token, application)
        if stored is not None:
            await presented.revoke(call.tx, stored, call.now_ms)
        return Answer(200, {})

    return await _as_client(call, request, work)


async def introspect(call: Call) -> Answer | Refusal:
    """Introspect a token: RFC 7662, for valid tokens of the calling application."""
    request = _presented(call)

    async def work(application: Application) -> Answer:
        stored = await _find(call, request.token, application)
        if stored is None:
            return Answer(200, Introspection(active=False))
        issuer = call.settings.issuer
        return Answer(200, await presented.introspect(call.tx, stored, application, call.now_ms, issuer))

    return await _as_client(call, request, work)


def _presented(call: Call) -> PresentedToken:
    request = schemas.read(PresentedToken, call.body)
    if not request.token:
        raise schemas.missing("token")
    return request


async def _find(call: Call, token: str, application: Application) -> AccessToken | RefreshToken | None:
    stored = await presented.find(call.tx, token, application)
    if stored is not None:
        call.logged_seller_id = stored.seller_id
    return stored


async def _as_client(
    call: Call, credentials: Credentials, work: Callable[[Application], Awaitable[Answer | Refusal]]
) -> Answer | Refusal:
    """Authenticate the client and return the result of `work`.

    A client in this node's cache is not looked up. If `work` then refuses without a write, the client is looked up and
    `work` runs again, since the cached application may be outdated by seconds.
    """
    cache = call.shared.objects[AuthenticationCache]
    client_id, client_secret = credentials.client_id, credentials.client_secret
    cached = cache.find(client_id, client_secret, call.now_ms)
    if cached is not None:
        _count_request(call, cached)
        writes = call.tx.writes
        try:
            return await work(cached)
        except Refusal:
            if call.tx.writes != writes:
                raise
    application = await authentication.authenticate(call.tx, client_id, client_secret, call.now_ms, cache)
    if isinstance(application, Refusal):
        if not call.throttle_counted:
            call.throttle_counted = True
            call.shared.objects[ClientThrottle].failed(authentication.number(client_id), call.address)
        challenged = basic.is_basic(call.headers.get("authorization", ""))
        return replace(application, headers=(basic.CHALLENGE,)) if challenged else application
    _count_request(call, application)
    if application.suspended_ms is not None:
        raise TOKEN_FORBIDDEN.with_reason("application suspended")
    return await work(application)


def _count_request(call: Call, application: Application) -> None:
    """Refuse a client that calls too often. A call counts once, however often its transaction is retried."""
    if not call.throttle_counted:
        call.throttle_counted = True
        seconds = call.shared.objects[ClientThrottle].succeeded(application.application_id, call.address)
        if seconds is not None:
            raise authentication.limited("client calls too often", seconds)
    call.logged_application_id = application.application_id
