"""Applications: the OAuth clients that sellers authorize, and their client secrets."""

from __future__ import annotations

import hmac
import json
from typing import Any

import msgspec

from paydesk.core import ids
from paydesk.core.errors import Refusal
from paydesk.core.secrets import Secret, digest, new_hex
from paydesk.oauth import tokens
from paydesk.oauth.clients.application import Application, ApplicationSecret, OnReplay
from paydesk.oauth.clients.authentication_cache import AuthenticationCache
from paydesk.oauth.errors import INVALID_CLIENT
from paydesk.storage.database import Row, Transaction

_uris = msgspec.json.Decoder(tuple[str, ...]).decode
_UNKNOWN_CLIENT_DIGEST = digest("secret of no client")


_COLUMNS = """application_id, name, redirect_uris, scopes, pkce_required, on_replay, public_key_live, public_key_test,
    suspended_ms, created_ms"""

# Inserts an application.
INSERT = f"INSERT INTO applications ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, $9)"

# Selects one application.
GET = f"SELECT {_COLUMNS} FROM applications WHERE application_id = $1"

# Selects one application, locked until the commit against changes and new secrets.
LOCK = f"{GET} FOR UPDATE"

# Selects all applications, the oldest first.
LIST = f"SELECT {_COLUMNS} FROM applications ORDER BY created_ms, application_id"

# Updates the fields that an operator may change.
CHANGE = """UPDATE applications SET name = $2, redirect_uris = $3, scopes = $4, pkce_required = $5, on_replay = $6
    WHERE application_id = $1"""

# active -> suspended; the first instant stays.
SUSPEND = "UPDATE applications SET suspended_ms = $2 WHERE application_id = $1 AND suspended_ms IS NULL"

# suspended -> active.
RESUME = "UPDATE applications SET suspended_ms = NULL WHERE application_id = $1 AND suspended_ms IS NOT NULL"

# Inserts a secret.
INSERT_SECRET = """INSERT INTO application_secrets (application_id, secret_id, digest, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, NULL)"""

# Selects an application's secrets, the oldest first.
LIST_SECRETS = """SELECT secret_id, created_ms, expires_ms FROM application_secrets
    WHERE application_id = $1 ORDER BY created_ms, secret_id"""

# Deletes a secret, which stays invalid even if the clock is set back.
DELETE_SECRET = "DELETE FROM application_secrets WHERE application_id = $1 AND secret_id = $2"

# Deletes an application's expired secrets.
DELETE_EXPIRED_SECRETS = """DELETE FROM application_secrets
    WHERE application_id = $1 AND (expires_ms <= $2 OR expired_ms IS NOT NULL)"""

# Sets the expiry of a secret, unless it expires earlier.
EXPIRE_SECRET = """UPDATE application_secrets SET expires_ms = $3
    WHERE application_id = $1 AND secret_id = $2 AND (expires_ms IS NULL OR expires_ms > $3)"""

# A secret refused as expired stays expired, also if the clock is set back.
SECRET_EXPIRED = """UPDATE application_secrets SET expired_ms = $3
    WHERE application_id = $1 AND secret_id = $2 AND expired_ms IS NULL"""

# Selects an application with all its secrets, one row each; one row without a secret if it has none.
WITH_SECRETS = """SELECT a.application_id, a.name, a.redirect_uris, a.scopes, a.pkce_required, a.on_replay,
        a.public_key_live, a.public_key_test, a.suspended_ms, a.created_ms,
        s.secret_id, s.digest, s.expires_ms, s.expired_ms
    FROM applications a LEFT JOIN application_secrets s ON s.application_id = a.application_id
    WHERE a.application_id = $1"""


async def create(
    tx: Transaction,
    *,
    name: str,
    redirect_uris: tuple[str, ...],
    scopes: str,
    now_ms: int,
    pkce_required: bool = False,
    on_replay: OnReplay = "revoke",
) -> tuple[Application, Secret]:
    """Create an application with its first secret, of which only the digest is stored."""
    application = Application(
        application_id=ids.application_number(),
        name=name,
        redirect_uris=redirect_uris,
        scopes=scopes,
        pkce_required=pkce_required,
        on_replay=on_replay,
        public_key_live=tokens.new_public_key(live=True),
        public_key_test=tokens.new_public_key(live=False),
        suspended_ms=None,
        created_ms=now_ms,
    )
    await tx.run(
        INSERT,
        application.application_id,
        name,
        json.dumps(redirect_uris),
        scopes,
        int(pkce_required),
        on_replay,
        application.public_key_live,
        application.public_key_test,
        now_ms,
    )
    _, secret = await add_secret(tx, application.application_id, now_ms)
    return application, secret


async def get(tx: Transaction, application_id: int) -> Application | None:
    """Return the application, or None."""
    row = await tx.one(GET, application_id)
    return _application(row) if row else None


async def find(tx: Transaction, client_id: str) -> Application | None:
    """Return the application of a `client_id` from a request, or None."""
    return await get(tx, number(client_id))


async def lock(tx: Transaction, application_id: int) -> Application | None:
    """Return the application, locked until the commit, or None."""
    row = await tx.one(LOCK, application_id)
    return _application(row) if row else None


async def find_all(tx: Transaction) -> list[Application]:
    """Return all applications, the oldest first."""
    return [_application(row) for row in await tx.all(LIST)]


async def change(
    tx: Transaction,
    application_id: int,
    *,
    name: str,
    redirect_uris: tuple[str, ...],
    scopes: str,
    pkce_required: bool,
    on_replay: OnReplay,
) -> bool:
    """Set every field that an operator may change. Return False if the application is unknown."""
    tx.notify("applications")
    return bool(
        await tx.run(CHANGE, application_id, name, json.dumps(redirect_uris), scopes, int(pkce_required), on_replay)
    )


async def suspend(tx: Transaction, application_id: int, now_ms: int) -> bool:
    """Stop the application's tokens and refuse new ones. Return False if it is suspended already or unknown."""
    tx.notify("applications")
    return bool(await tx.run(SUSPEND, application_id, now_ms))


async def resume(tx: Transaction, application_id: int) -> bool:
    """Make the application's tokens work again. Return False if it is not suspended."""
    tx.notify("applications")
    return bool(await tx.run(RESUME, application_id))


async def add_secret(tx: Transaction, application_id: int, now_ms: int) -> tuple[ApplicationSecret, Secret]:
    """Add a secret of 256 random bits beside the existing ones; only its digest is stored."""
    secret_id, secret = ids.ulid(now_ms), new_hex(256)
    await tx.run(INSERT_SECRET, application_id, secret_id, digest(secret), now_ms)
    return ApplicationSecret(secret_id, now_ms, None), Secret(secret)


async def find_secrets(tx: Transaction, application_id: int) -> list[ApplicationSecret]:
    """Return the metadata of an application's secrets, the oldest first."""
    return [ApplicationSecret(*row) for row in await tx.all(LIST_SECRETS, application_id)]


async def expire_secret(tx: Transaction, application_id: int, secret_id: str, expires_ms: int) -> bool:
    """Make the secret expire at `expires_ms`. Return False if it is unknown or expires earlier."""
    tx.notify("applications")
    return bool(await tx.run(EXPIRE_SECRET, application_id, secret_id, expires_ms))


async def remove_secret(tx: Transaction, application_id: int, secret_id: str) -> bool:
    """Delete the secret, which invalidates it. Return False if it is unknown."""
    tx.notify("applications")
    return bool(await tx.run(DELETE_SECRET, application_id, secret_id))


async def delete_expired_secrets(tx: Transaction, application_id: int, now_ms: int) -> None:
    """Delete the application's expired secrets."""
    await tx.run(DELETE_EXPIRED_SECRETS, application_id, now_ms)


async def authenticate(
    tx: Transaction, client_id: str, client_secret: str, now_ms: int, cache: AuthenticationCache | None = None
) -> Application | Refusal:
    """Return the application with these credentials and store it in `cache`.

    Raises INVALID_CLIENT, or returns it if the expiry of the secret was recorded and must be committed. Neither the
    answer nor its time shows whether the application or the secret is wrong.
    """
    given, changes = digest(client_secret), cache.changes if cache is not None else 0
    rows = await tx.all(WITH_SECRETS, number(client_id))
    matching = [row for row in rows if hmac.compare_digest(given, row[11] or _UNKNOWN_CLIENT_DIGEST)]
    if not rows:
        hmac.compare_digest(given, _UNKNOWN_CLIENT_DIGEST)
        raise INVALID_CLIENT.with_reason("unknown client")
    if not matching or matching[0][11] is None:
        raise INVALID_CLIENT.with_reason("secret differs")
    application_id, secret_id, expires_ms, expired_ms = (matching[0][column] for column in (0, 10, 12, 13))
    if expired_ms is None and (expires_ms is None or now_ms < expires_ms):
        application = _application(matching[0])
        if cache is not None:
            cache.store(client_id, application, given, expires_ms, changes=changes)
        return application
    if expired_ms is None:
        tx.notify("applications")
    await tx.run(SECRET_EXPIRED, application_id, secret_id, now_ms)
    return INVALID_CLIENT.with_reason("secret expired")


def number(client_id: str) -> int:
    """Return the number of a `client_id`, or -1 if it is malformed: the look-up takes the same time then."""
    canonical = client_id.isascii() and client_id.isdigit() and 0 < len(client_id) <= 18 and client_id[0] != "0"
    return int(client_id) if canonical else -1


def _application(row: Row) -> Application:
    values: list[Any] = list(row[:10])
    values[2] = _uris(values[2])
    values[4] = bool(values[4])
    return Application(*values)
