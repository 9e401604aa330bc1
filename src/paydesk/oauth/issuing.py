"""Issue authorization codes, token families and tokens, and check what both grant types check before."""

from __future__ import annotations

from paydesk import operator_events
from paydesk.core.keys import Keys
from paydesk.oauth import authorizations, schemas, store, tokens
from paydesk.oauth.clients.application import Application
from paydesk.oauth.errors import INVALID_GRANT, INVALID_REQUEST, INVALID_SCOPE, TOKEN_FORBIDDEN, UNAUTHORIZED_CLIENT
from paydesk.oauth.schemas import TokenRequest
from paydesk.oauth.scopes import OFFLINE_ACCESS, canonical, includes, shared
from paydesk.oauth.store import AuthorizationState
from paydesk.oauth.tokens import Generation, Lifetimes, Pair, TokenFamily
from paydesk.operation import Answer, Call
from paydesk.operator_events import Kind, OperatorEvent
from paydesk.storage.database import Transaction
from paydesk.webhooks import outbox
from paydesk.webhooks.schemas import AUTHORIZED

FIRST_GENERATION = 1


async def mint_code(  # noqa: PLR0913 - the parts of a consent
    tx: Transaction,
    *,
    application_id: int,
    seller_id: int,
    redirect_uri: str,
    scope: str,
    challenge: str | None,
    now_ms: int,
    expires_ms: int,
    code: str = "",
) -> str:
    """Create an authorization with its code, by default a random one, and notify the application's webhooks.

    The caller has validated the application, the seller and `redirect_uri`. Raises `ScopeError`.
    """
    scope = canonical(scope)
    authorization = await authorizations.create(
        tx, seller_id=seller_id, application_id=application_id, scope=scope, now_ms=now_ms
    )
    code = code or tokens.new_code(seller_id)
    state = AuthorizationState(seller_id, application_id, authorization.authorization_id, scope, None, None)
    await store.add_code(
        tx, code, state, redirect_uri=redirect_uri, challenge=challenge, now_ms=now_ms, expires_ms=expires_ms
    )
    await outbox.announce_connect(
        tx, seller_id=seller_id, application_id=application_id, action=AUTHORIZED, now_ms=now_ms
    )
    return code


async def mint_family(
    tx: Transaction,
    keys: Keys,
    *,
    application_id: int,
    seller_id: int,
    scope: str,
    live: bool,
    now_ms: int,
    lifetimes: Lifetimes,
) -> Pair:
    """Create an authorization with its first tokens, for tools and tests: without consent and without a webhook.

    Raises `ScopeError`.
    """
    scope = canonical(scope)
    authorization = await authorizations.create(
        tx, seller_id=seller_id, application_id=application_id, scope=scope, now_ms=now_ms
    )
    family = TokenFamily(seller_id, tokens.new_family_id(), application_id, live, scope)
    return await begin_family(tx, keys, family, authorization.authorization_id, now_ms, lifetimes)


async def begin_family(
    tx: Transaction, keys: Keys, family: TokenFamily, authorization_id: str, now_ms: int, lifetimes: Lifetimes
) -> Pair:
    """Store a new family and issue the tokens of its first generation."""
    await store.add_family(tx, family, authorization_id, now_ms)
    return issue(tx, keys, family, FIRST_GENERATION, family.scope, now_ms, lifetimes)


def issue(
    tx: Transaction, keys: Keys, family: TokenFamily, number: int, scope: str, now_ms: int, lifetimes: Lifetimes
) -> Pair:
    """Issue the tokens of generation `number`, which the caller has claimed; `scope` is the access token's."""
    expires_ms = now_ms + lifetimes.access_token_seconds * 1000
    pair = tokens.derive(keys, family, Generation(number, keys.active, scope, now_ms, expires_ms))
    store.add_access_token(tx, family, pair.generation, pair.access_token)
    if pair.refresh_token is not None:
        expires_ms = now_ms + lifetimes.refresh_token_seconds * 1000
        store.add_refresh_token(tx, family, pair.generation, pair.refresh_token, expires_ms)
    return pair


def lifetimes(call: Call) -> Lifetimes:
    """Return the configured lifetimes of new tokens."""
    settings = call.settings
    return Lifetimes(settings.access_token_lifetime_seconds, settings.refresh_token_lifetime_seconds)


def answer(call: Call, application: Application, pair: Pair) -> Answer:
    """Return 200 with the tokens (RFC 6749 section 5.1); the HTTP layer adds `Cache-Control: no-store`.

    Scopes that an operator has taken from the application are left out. The tokens keep them for the case
    that they are restored.
    """
    public_key = application.public_key(live=pair.family.live)
    scope = shared(pair.generation.scope, application.scopes)
    return Answer(200, schemas.token_answer(pair, scope, public_key, call.now_ms))


def check_parameters(request: TokenRequest, *, required: tuple[str, ...], foreign: tuple[str, ...]) -> None:
    """Refuse a request that lacks a parameter of its grant type, or has one of the other."""
    for name in required:
        if not getattr(request, name):
            raise INVALID_REQUEST.with_reason(f"{name} is missing")
    for name in foreign:
        if getattr(request, name):
            raise INVALID_REQUEST.with_reason(f"{name} is of the other grant type")


def check_client(authorization: AuthorizationState, application: Application) -> None:
    """Refuse a code or token that was issued to another application."""
    if authorization.application_id != application.application_id:
        raise INVALID_GRANT.with_reason("of another client")


def check_authorization(authorization: AuthorizationState, application: Application) -> None:
    """Refuse if the seller is suspended, the authorization was withdrawn, or `offline_access` was taken away."""
    if authorization.seller_suspended_ms is not None:
        raise TOKEN_FORBIDDEN.with_reason("seller suspended")
    if authorization.withdrawn_ms is not None:
        raise UNAUTHORIZED_CLIENT.with_reason("authorization withdrawn")
    if includes(authorization.scope, OFFLINE_ACCESS) and not includes(application.scopes, OFFLINE_ACCESS):
        raise UNAUTHORIZED_CLIENT.with_reason("offline_access taken from the application")


def check_redirect_uri(redirect_uri: str, application: Application) -> None:
    """Refuse a redirect URI that is not registered, or not any more."""
    if redirect_uri not in application.redirect_uris:
        raise INVALID_GRANT.with_reason("redirect_uri not registered")


def check_scope(scope: str, application: Application) -> None:
    """Refuse tokens whose scopes have all been taken from the application."""
    if not shared(scope, application.scopes):
        raise INVALID_SCOPE.with_reason("the application has none of these scopes any more")


async def alert(call: Call, kind: Kind, authorization: AuthorizationState, message: str) -> None:
    """Alert operators to a replayed credential, in the transaction that revokes its family."""
    call.alert = OperatorEvent(
        kind,
        f"{authorization.authorization_id}-{authorization.seller_id}",
        message,
        authorization.seller_id,
        {"application_id": authorization.application_id, "address": call.address},
    )
    await operator_events.record(call.tx, call.alert, call.now_ms)
