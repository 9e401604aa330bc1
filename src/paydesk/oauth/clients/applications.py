"""Applications: who may act for sellers, and the secrets with which they prove who they are."""

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
_UNKNOWN_CLIENT_DIGEST = digest("nobody's secret")


_COLUMNS = """application_id, name, redirect_uris, scopes, pkce_required, on_replay, public_key_live, public_key_test,
    suspended_ms, created_ms"""

# In: a new application.
INSERT = f"INSERT INTO applications ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, $9)"

# Out: one application.
GET = f"SELECT {_COLUMNS} FROM applications WHERE application_id = $1"

# Out: one application, held until the commit: nobody else changes it, or gives it secrets, meanwhile.
LOCK = f"{GET} FOR UPDATE"

# Out: all applications, the oldest first.
LIST = f"SELECT {_COLUMNS} FROM applications ORDER BY created_ms, application_id"

# What an operator may change of an application.
CHANGE = """UPDATE applications SET name = $2, redirect_uris = $3, scopes = $4, pkce_required = $5, on_replay = $6
    WHERE application_id = $1"""

# active -> suspended; the first instant stays.
SUSPEND = "UPDATE applications SET suspended_ms = $2 WHERE application_id = $1 AND suspended_ms IS NULL"

# suspended -> active.
RESUME = "UPDATE applications SET suspended_ms = NULL WHERE application_id = $1 AND suspended_ms IS NOT NULL"

# In: one more secret.
INSERT_SECRET = """INSERT INTO application_secrets (application_id, secret_id, digest, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, NULL)"""

# Out: an application's secrets, the oldest first.
LIST_SECRETS = """SELECT secret_id, created_ms, expires_ms FROM application_secrets
    WHERE application_id = $1 ORDER BY created_ms, secret_id"""

# Out: a secret is gone, and good for nothing whatever the clocks do.
DELETE_SECRET = "DELETE FROM application_secrets WHERE application_id = $1 AND secret_id = $2"

# Out: an application's secrets that have ended are gone.
DELETE_ENDED_SECRETS = """DELETE FROM application_secrets
    WHERE application_id = $1 AND (expires_ms <= $2 OR expired_ms IS NOT NULL)"""

# A secret ends at an instant; a sooner end stays.
EXPIRE_SECRET = """UPDATE application_secrets SET expires_ms = $3
    WHERE application_id = $1 AND secret_id = $2 AND (expires_ms IS NULL OR expires_ms > $3)"""

# A secret was refused as expired: it never comes back, whatever the clocks do.
SECRET_EXPIRED = """UPDATE application_secrets SET expired_ms = $3
    WHERE application_id = $1 AND secret_id = $2 AND expired_ms IS NULL"""

# Out: an application with all its secrets, one row each, one row with none where it has none.
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
    """A new application and its first secret, which is shown this once and kept nowhere."""
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
    """The application, or None."""
    row = await tx.one(GET, application_id)
    return _application(row) if row else None


async def find(tx: Transaction, client_id: str) -> Application | None:
    """The application of a `client_id` as it was sent, or None."""
    return await get(tx, number(client_id))


async def lock(tx: Transaction, application_id: int) -> Application | None:
    """The application as it is until the commit, or None."""
    row = await tx.one(LOCK, application_id)
    return _application(row) if row else None


async def find_all(tx: Transaction) -> list[Application]:
    """All applications, the oldest first."""
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
    """Set everything that an operator may change; False where there is no such application."""
    tx.notify("applications")
    return bool(
        await tx.run(CHANGE, application_id, name, json.dumps(redirect_uris), scopes, int(pkce_required), on_replay)
    )


async def suspend(tx: Transaction, application_id: int, now_ms: int) -> bool:
    """It gets no tokens, and those it has stop working; False where it is suspended already or unknown."""
    tx.notify("applications")
    return bool(await tx.run(SUSPEND, application_id, now_ms))


async def resume(tx: Transaction, application_id: int) -> bool:
    """It may go on, with the tokens it had; False where it is not suspended."""
    tx.notify("applications")
    return bool(await tx.run(RESUME, application_id))


async def add_secret(tx: Transaction, application_id: int, now_ms: int) -> tuple[ApplicationSecret, Secret]:
    """One more secret beside those it has, 256 random bits, shown this once."""
    secret_id, secret = ids.ulid(now_ms), new_hex(256)
    await tx.run(INSERT_SECRET, application_id, secret_id, digest(secret), now_ms)
    return ApplicationSecret(secret_id, now_ms, None), Secret(secret)


async def find_secrets(tx: Transaction, application_id: int) -> list[ApplicationSecret]:
    """What is known of an application's secrets, the oldest first."""
    return [ApplicationSecret(*row) for row in await tx.all(LIST_SECRETS, application_id)]


async def expire_secret(tx: Transaction, application_id: int, secret_id: str, expires_ms: int) -> bool:
    """The secret is good until `expires_ms` and no longer; False where it is unknown or ends sooner."""
    tx.notify("applications")
    return bool(await tx.run(EXPIRE_SECRET, application_id, secret_id, expires_ms))


async def remove_secret(tx: Transaction, application_id: int, secret_id: str) -> bool:
    """The secret is good for nothing any more; False where it is unknown."""
    tx.notify("applications")
    return bool(await tx.run(DELETE_SECRET, application_id, secret_id))


async def forget_ended_secrets(tx: Transaction, application_id: int, now_ms: int) -> None:
    """Secrets that are not good any more are unknown from now on."""
    await tx.run(DELETE_ENDED_SECRETS, application_id, now_ms)


async def authenticate(
    tx: Transaction, client_id: str, client_secret: str, now_ms: int, proven: AuthenticationCache | None = None
) -> Application | Refusal:
    """The application that these credentials belong to, which `proven` then remembers.

    Raises INVALID_CLIENT, and returns it where a secret that is refused as expired was written down as such. Whether
    the application or the secret is unknown shows neither in the answer nor in the time it takes.
    """
    given, changes = digest(client_secret), proven.changes if proven is not None else 0
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
        if proven is not None:
            proven.remember(client_id, application, given, expires_ms, changes=changes)
        return application
    if expired_ms is None:
        tx.notify("applications")
    await tx.run(SECRET_EXPIRED, application_id, secret_id, now_ms)
    return INVALID_CLIENT.with_reason("secret expired")


def number(client_id: str) -> int:
    """The client's number, or one that nobody has: an unknown client costs the same look-up."""
    canonical = client_id.isascii() and client_id.isdigit() and 0 < len(client_id) <= 18 and client_id[0] != "0"
    return int(client_id) if canonical else -1


def _application(row: Row) -> Application:
    values: list[Any] = list(row[:10])
    values[2] = _uris(values[2])
    values[4] = bool(values[4])
    return Application(*values)
