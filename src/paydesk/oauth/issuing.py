"""Issue authorization codes, token families and the tokens of each generation."""

from __future__ import annotations

from paydesk.core.keys import Keys
from paydesk.oauth import authorizations, store, tokens
from paydesk.oauth.scopes import canonical
from paydesk.oauth.tokens import Generation, Lifetimes, Pair, TokenFamily
from paydesk.storage.database import Transaction
from paydesk.webhooks import outbox
from paydesk.webhooks.schemas import AUTHORIZED

FIRST_GENERATION = 1


async def mint_code(  # noqa: PLR0913 - what a consent consists of
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
    """A new authorization with its code, `code` or a random one, as the seller's consent makes them.

    The application is told of it. The caller has seen to it that the application, the seller and `redirect_uri` are
    what they should be. Raises `ScopeError`.
    """
    scope = canonical(scope)
    authorization = await authorizations.create(
        tx, seller_id=seller_id, application_id=application_id, scope=scope, now_ms=now_ms
    )
    code = code or tokens.new_code(seller_id)
    grant = store.Grant(seller_id, application_id, authorization.authorization_id, scope, None, None)
    await store.add_code(
        tx, code, grant, redirect_uri=redirect_uri, challenge=challenge, now_ms=now_ms, expires_ms=expires_ms
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
    """A new authorization with its first tokens, for tools and tests: nobody agreed, so nobody is told.

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
    """Keep a new family and issue the tokens of its first generation."""
    await store.add_family(tx, family, authorization_id, now_ms)
    return issue(tx, keys, family, FIRST_GENERATION, family.scope, now_ms, lifetimes)


def issue(
    tx: Transaction, keys: Keys, family: TokenFamily, number: int, scope: str, now_ms: int, lifetimes: Lifetimes
) -> Pair:
    """The tokens of generation `number`, which the caller has claimed; `scope` is the access token's alone."""
    expires_ms = now_ms + lifetimes.access_token_seconds * 1000
    pair = tokens.derive(keys, family, Generation(number, keys.active, scope, now_ms, expires_ms))
    store.add_access_token(tx, family, pair.generation, pair.access_token)
    if pair.refresh_token is not None:
        expires_ms = now_ms + lifetimes.refresh_token_seconds * 1000
        store.add_refresh_token(tx, family, pair.generation, pair.refresh_token, expires_ms)
    return pair
