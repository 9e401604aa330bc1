"""Authorizations: which seller has authorized which application. A token is valid only while its authorization is.

An authorization begins with a code, or for tools and tests with tokens, and ends when the seller, or an operator for
the seller, withdraws it.
"""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.core import ids
from paydesk.core.keys import Keys
from paydesk.core.secrets import digest
from paydesk.engine.oauth import lifecycle, store, tokens
from paydesk.engine.oauth.scopes import canonical
from paydesk.engine.oauth.tokens import Lifetimes, Pair, TokenFamily
from paydesk.engine.webhooks import outbox
from paydesk.engine.webhooks.schemas import AUTHORIZED, DEAUTHORIZED
from paydesk.platform.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class Authorization:
    """A seller's consent for one application; its tokens are invalid once it is withdrawn."""

    seller_id: int
    authorization_id: str
    application_id: int
    scope: str
    created_ms: int
    withdrawn_ms: int | None


_COLUMNS = "seller_id, authorization_id, application_id, scope, created_ms, withdrawn_ms"
_VALID = lifecycle.WITHDRAW.guard("authorizations")

# Inserts an authorization, beside earlier ones of the same seller and application.
INSERT = f"INSERT INTO authorizations ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, NULL)"

# Inserts an authorization code.
INSERT_CODE = """INSERT INTO codes
    (seller_id, digest, authorization_id, application_id, redirect_uri, scope, challenge, test_token, created_ms,
        expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"""

# Selects one authorization.
GET = f"SELECT {_COLUMNS} FROM authorizations WHERE seller_id = $1 AND authorization_id = $2"

# Counts a seller's valid authorizations.
COUNT = f"SELECT COUNT(*) FROM authorizations WHERE seller_id = $1 AND {_VALID}"

# valid -> withdrawn; the first instant stays.
WITHDRAW = f"""UPDATE authorizations SET withdrawn_ms = $3
    WHERE seller_id = $1 AND authorization_id = $2 AND {_VALID}
    RETURNING application_id"""

# All valid ones of a seller: valid -> withdrawn.
WITHDRAW_ALL = f"""UPDATE authorizations SET withdrawn_ms = $2
    WHERE seller_id = $1 AND {_VALID}
    RETURNING application_id, authorization_id"""


async def create(tx: Transaction, *, seller_id: int, application_id: int, scope: str, now_ms: int) -> str:
    """Create an authorization and return its id; earlier ones of the same seller and application stay as they are."""
    authorization_id = ids.ulid(now_ms)
    await tx.run(INSERT, seller_id, authorization_id, application_id, scope, now_ms)
    return authorization_id


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
    test_token: bool | None = None,
) -> str:
    """Create an authorization with its code, by default a random one, and notify the application's webhooks.

    `test_token` is the mode of its tokens; None leaves it to the exchange. The caller has validated the application,
    the seller and `redirect_uri`. Raises `ScopeError`.
    """
    scope, code = canonical(scope), code or tokens.new_code(seller_id)
    key = await create(tx, seller_id=seller_id, application_id=application_id, scope=scope, now_ms=now_ms)
    whose, mode = (seller_id, digest(code), key, application_id), None if test_token is None else int(test_token)
    await tx.run(INSERT_CODE, *whose, redirect_uri, scope, challenge, mode, now_ms, expires_ms)
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
    key = await create(tx, seller_id=seller_id, application_id=application_id, scope=scope, now_ms=now_ms)
    family = TokenFamily(seller_id, tokens.new_family_id(), application_id, live, scope)
    return await store.begin_family(tx, keys, family, key, now_ms, lifetimes)


async def get(tx: Transaction, seller_id: int, authorization_id: str) -> Authorization | None:
    """Return the authorization, or None."""
    row = await tx.one(GET, seller_id, authorization_id)
    return Authorization(*row) if row else None


async def count(tx: Transaction, seller_id: int) -> int:
    """Return how many authorizations of the seller have not been withdrawn."""
    ((number,),) = await tx.all(COUNT, seller_id)
    return int(number)


def topic(authorization_id: str) -> str:
    """Return the topic notified when the authorization is withdrawn."""
    return f"authorization:{authorization_id}"


async def withdraw(tx: Transaction, *, seller_id: int, authorization_id: str, now_ms: int) -> bool:
    """Withdraw one authorization. Return False, without effect, if it is unknown or was withdrawn before.

    From the commit on all its codes and tokens are invalid, those included that a concurrent request creates. Other
    authorizations of the same seller and application stay valid, and orders in progress continue.
    """
    row = await tx.one(WITHDRAW, seller_id, authorization_id, now_ms)
    if row is not None:
        await _announce_withdrawal(tx, seller_id, row[0], authorization_id, now_ms)
    return row is not None


async def withdraw_all(tx: Transaction, *, seller_id: int, now_ms: int) -> list[str]:
    """Withdraw every authorization of the seller, each as `withdraw` does; return their ids.

    Call it after the seller's sessions were ended in the same transaction: a consent given concurrently in one of the
    sessions is then either refused or among the withdrawn.
    """
    withdrawn = sorted((row[0], row[1]) for row in await tx.all(WITHDRAW_ALL, seller_id, now_ms))
    for application_id, authorization_id in withdrawn:
        await _announce_withdrawal(tx, seller_id, application_id, authorization_id, now_ms)
    return [authorization_id for _, authorization_id in withdrawn]


async def _announce_withdrawal(
    tx: Transaction, seller_id: int, application_id: int, authorization_id: str, now_ms: int
) -> None:
    tx.notify(topic(authorization_id))
    await outbox.announce_connect(
        tx, seller_id=seller_id, application_id=application_id, action=DEAUTHORIZED, now_ms=now_ms
    )
