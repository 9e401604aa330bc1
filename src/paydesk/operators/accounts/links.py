"""Links with which operators set their passwords: each is valid for one use, and a newer one replaces it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from paydesk.core.secrets import Secret, digest, new_hex
from paydesk.operators.accounts import store
from paydesk.operators.accounts.store import Person
from paydesk.platform.storage.database import Transaction

LIFETIME_MS = 24 * 3_600_000
PATH = "/console/password"
PARAMETER = "link"
TOKEN_PATTERN = re.compile(r"PDL-[0-9a-f]{40}", re.ASCII)

INSERT = "INSERT INTO operator_links (digest, operator_id, created_ms, expires_ms) VALUES ($1, $2, $3, $4)"

OPERATOR = "SELECT operator_id FROM operator_links WHERE digest = $1 AND used_ms IS NULL AND expires_ms > $2"

# valid -> used: of two requests with one link exactly one.
USE = "UPDATE operator_links SET used_ms = $2 WHERE digest = $1 AND used_ms IS NULL AND expires_ms > $2"

# All of an operator's links: valid -> used.
END_ALL = "UPDATE operator_links SET used_ms = $2 WHERE operator_id = $1 AND used_ms IS NULL"

DELETE_ALL = "DELETE FROM operator_links WHERE operator_id = $1"

DELETE_OLD = """DELETE FROM operator_links WHERE digest IN (WITH old AS MATERIALIZED (
    SELECT digest FROM operator_links WHERE expires_ms < $1 ORDER BY expires_ms LIMIT $2 FOR UPDATE SKIP LOCKED)
    SELECT * FROM old)"""


@dataclass(frozen=True, slots=True)
class Link:
    """A new link: its token, and when it expires."""

    token: Secret
    expires_ms: int

    def url(self, base_url: str) -> str:
        """Return the address of the page where the password is set."""
        return f"{base_url}{PATH}?{PARAMETER}={self.token.reveal()}"


async def create(tx: Transaction, operator_id: str, now_ms: int) -> Link:
    """Create a link that replaces the operator's earlier ones. Call it with the operator new or locked."""
    link = Link(Secret(f"PDL-{new_hex(160)}"), now_ms + LIFETIME_MS)
    await end_all(tx, operator_id, now_ms)
    await tx.run(INSERT, digest(link.token.reveal()), operator_id, now_ms, link.expires_ms)
    return link


async def find(tx: Transaction, token: str, now_ms: int) -> Person | None:
    """Return the operator of a valid link, or None if it is unknown, used, expired or of a revoked operator."""
    row = await tx.one(OPERATOR, digest(token), now_ms) if TOKEN_PATTERN.fullmatch(token) else None
    person = await store.person(tx, row[0]) if row is not None else None
    return person if person is not None and person.revoked_ms is None else None


async def use(tx: Transaction, token: str, now_ms: int) -> Person | None:
    """Use the link, once; return its operator, locked until the commit, or None as `find` does."""
    person = await find(tx, token, now_ms)
    # The operator is locked before the link, as by every transaction that creates or ends links.
    locked = await store.lock_person(tx, person.operator_id) if person is not None else None
    return locked if locked is not None and await tx.run(USE, digest(token), now_ms) else None


async def end_all(tx: Transaction, operator_id: str, now_ms: int) -> None:
    """End all links of the operator."""
    await tx.run(END_ALL, operator_id, now_ms)


async def prune(tx: Transaction, before_ms: int, limit: int) -> int:
    """Delete links that expired before an instant, at most a number of them; return how many."""
    return await tx.run(DELETE_OLD, before_ms, limit)
