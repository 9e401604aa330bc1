"""Applications: the OAuth clients that sellers authorize, and their client secrets."""

from __future__ import annotations

import json
from dataclasses import dataclass

from paydesk.core import ids
from paydesk.core.secrets import Secret, digest, new_hex
from paydesk.engine.oauth import tokens
from paydesk.engine.oauth.clients import authentication
from paydesk.engine.oauth.clients.authentication import Application
from paydesk.engine.oauth.lifecycle import OnReplay
from paydesk.platform.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class ApplicationSecret:
    """The metadata of a client secret; the secret itself is not stored."""

    secret_id: str
    created_ms: int
    expires_ms: int | None


COLUMNS = """application_id, name, redirect_uris, scopes, pkce_required, on_replay, test_tokens, public_key_live,
    public_key_test, suspended_ms, created_ms"""

# Inserts an application.
INSERT = f"INSERT INTO applications ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"

# Selects one application.
GET = f"SELECT {COLUMNS} FROM applications WHERE application_id = $1"

# Selects one application, locked until the commit against changes and new secrets.
LOCK = f"{GET} FOR UPDATE"

# Selects one application, locked until the commit against deletion and changes; others may add what belongs to it.
LOCK_SHARED = f"{GET} FOR SHARE"

# Selects all applications, the oldest first.
LIST = f"SELECT {COLUMNS} FROM applications ORDER BY created_ms, application_id"

# Updates the fields that an operator may change.
CHANGE = """UPDATE applications SET name = $2, redirect_uris = $3, scopes = $4, pkce_required = $5, on_replay = $6,
        test_tokens = $7
    WHERE application_id = $1"""

# Deletes an application that nothing uses.
DELETE = "DELETE FROM applications WHERE application_id = $1"

# Deletes all secrets of an application.
DELETE_SECRETS = "DELETE FROM application_secrets WHERE application_id = $1"

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


async def create(
    tx: Transaction,
    *,
    name: str,
    redirect_uris: tuple[str, ...],
    scopes: str,
    now_ms: int,
    pkce_required: bool = False,
    on_replay: OnReplay = "revoke",
    test_tokens: bool = False,
) -> tuple[Application, Secret]:
    """Create an application with its first secret, of which only the digest is stored."""
    application_id = ids.application_number()
    public_keys = tokens.new_public_key(live=True), tokens.new_public_key(live=False)
    settable = name, json.dumps(redirect_uris), scopes, int(pkce_required), on_replay, int(test_tokens)
    row = (application_id, *settable, *public_keys, None, now_ms)
    await tx.run(INSERT, *row)
    _, secret = await add_secret(tx, application_id, now_ms)
    return Application.of(row), secret


async def get(tx: Transaction, application_id: int) -> Application | None:
    """Return the application, or None."""
    row = await tx.one(GET, application_id)
    return Application.of(row) if row else None


async def find(tx: Transaction, client_id: str) -> Application | None:
    """Return the application of a `client_id` from a request, or None."""
    return await get(tx, authentication.number(client_id))


async def lock(tx: Transaction, application_id: int) -> Application | None:
    """Return the application, locked until the commit, or None."""
    row = await tx.one(LOCK, application_id)
    return Application.of(row) if row else None


async def lock_shared(tx: Transaction, application_id: int) -> Application | None:
    """Return the application, which is not deleted before the commit, or None."""
    row = await tx.one(LOCK_SHARED, application_id)
    return Application.of(row) if row else None


async def find_all(tx: Transaction) -> list[Application]:
    """Return all applications, the oldest first."""
    return [Application.of(row) for row in await tx.all(LIST)]


async def change(
    tx: Transaction,
    application_id: int,
    *,
    name: str,
    redirect_uris: tuple[str, ...],
    scopes: str,
    pkce_required: bool,
    on_replay: OnReplay,
    test_tokens: bool,
) -> bool:
    """Set every field that an operator may change. Return False if the application is unknown."""
    tx.notify("applications")
    settable = name, json.dumps(redirect_uris), scopes, int(pkce_required), on_replay, int(test_tokens)
    return bool(await tx.run(CHANGE, application_id, *settable))


async def delete(tx: Transaction, application_id: int) -> None:
    """Delete the application, which the caller has locked and found to be unused, with its secrets."""
    tx.notify("applications")
    await tx.run(DELETE_SECRETS, application_id)
    await tx.run(DELETE, application_id)


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
    secret_id, secret = ids.ordered_ulid(now_ms), new_hex(256)
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
