"""The SQL of terminals and of their tokens."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from paydesk.core.secrets import Secret, digest, new_hex
from paydesk.storage.database import Transaction
from paydesk.terminals import stores

OperatingMode = Literal["PDV", "STANDALONE", "SELF_SERVICE", "UNDEFINED"]
Kind = Literal["terminal", "service"]

VIRTUAL_MODEL = "PAYDESK_VIRTUAL"
TOKEN_BITS = 160


@dataclass(frozen=True, slots=True)
class Terminal:
    """One row of `terminals`. Its columns in their order."""

    seller_id: int
    terminal_id: str
    live: int
    store_id: int
    pos_id: int
    kind: Kind
    is_virtual: int
    operating_mode: OperatingMode
    script: str | None
    session: int
    last_seen_ms: int | None
    created_ms: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A terminal as applications see it."""

    terminal_id: str
    pos_id: int
    store_id: int
    external_pos_id: str
    operating_mode: OperatingMode


class ForOrder(msgspec.Struct, frozen=True):
    """What creating an order needs of its terminal."""

    live: int
    operating_mode: OperatingMode


_TERMINAL = """seller_id, terminal_id, live, store_id, pos_id, kind, is_virtual, operating_mode, script, session,
    last_seen_ms, created_ms"""

# In: the owner of a terminal id, which is unique over all sellers.
CLAIM_ID = """INSERT INTO terminal_owners (terminal_id, seller_id) VALUES ($1, $2)
    ON CONFLICT DO NOTHING"""

INSERT_TERMINAL = f"""INSERT INTO terminals ({_TERMINAL})
    SELECT seller_id, CAST($2 AS text), CAST($3 AS smallint), store_id, pos_id, CAST($5 AS text), CAST($6 AS smallint),
           CAST($7 AS text), CAST($8 AS text), 0, NULL, CAST($9 AS bigint)
      FROM pos WHERE seller_id = $1 AND pos_id = $4
    RETURNING {_TERMINAL}"""

FIND = f"SELECT {_TERMINAL} FROM terminals WHERE seller_id = $1 AND terminal_id = $2"

LOCK = f"{FIND} FOR UPDATE"

OF_SELLER = f"SELECT {_TERMINAL} FROM terminals WHERE seller_id = $1 ORDER BY terminal_id"

VIRTUAL = f"SELECT {_TERMINAL} FROM terminals WHERE is_virtual = 1 ORDER BY created_ms, seller_id, terminal_id"

# An order and a change of mode exclude each other by this lock.
FOR_ORDER = "SELECT live, operating_mode FROM terminals WHERE seller_id = $1 AND terminal_id = $2 FOR UPDATE"

ON_POS = "SELECT terminal_id, operating_mode FROM terminals WHERE seller_id = $1 AND live = $2 AND pos_id = $3"

SET_MODE = "UPDATE terminals SET operating_mode = $3 WHERE seller_id = $1 AND terminal_id = $2"

SET_SCRIPT = "UPDATE terminals SET script = $3 WHERE seller_id = $1 AND terminal_id = $2"

_LISTED = """FROM terminals t JOIN pos p ON p.seller_id = t.seller_id AND p.pos_id = t.pos_id
    WHERE t.seller_id = $1 AND t.live = $2
      AND (CAST($3 AS bigint) IS NULL OR t.store_id = $3) AND (CAST($4 AS bigint) IS NULL OR t.pos_id = $4)"""

COUNT = f"SELECT COUNT(*) {_LISTED}"

LIST = f"""SELECT t.terminal_id, t.pos_id, t.store_id, p.external_pos_id, t.operating_mode {_LISTED}
    ORDER BY t.terminal_id LIMIT $5 OFFSET $6"""

INSERT_DEVICE = """INSERT INTO device_tokens (seller_id, digest, terminal_id, created_ms, revoked_ms)
    VALUES ($1, $2, $3, $4, NULL)"""

# good -> revoked, all that the terminal has; the first instant stays.
REVOKE_DEVICE = """UPDATE device_tokens SET revoked_ms = $3
    WHERE seller_id = $1 AND terminal_id = $2 AND revoked_ms IS NULL"""


def virtual_id() -> str:
    """The id of a new virtual terminal: its model and a random serial number."""
    return f"{VIRTUAL_MODEL}__{secrets.token_hex(6).upper()}"


async def create(  # noqa: PLR0913  # a terminal is what it is
    tx: Transaction,
    *,
    seller_id: int,
    pos_id: int,
    terminal_id: str,
    live: bool,
    now_ms: int,
    kind: Kind = "terminal",
    is_virtual: bool = False,
    operating_mode: OperatingMode = "UNDEFINED",
    script: str | None = None,
) -> Terminal | None:
    """A new terminal; None where its id is taken, by whomever, or the seller has no such point of sale.

    For the mode PDV the caller looks at `in_pdv` first, in the same transaction.
    """
    if await stores.find_pos(tx, seller_id, pos_id) is None or not await tx.run(CLAIM_ID, terminal_id, seller_id):
        return None
    row = await tx.one(
        INSERT_TERMINAL,
        seller_id,
        terminal_id,
        int(live),
        pos_id,
        kind,
        int(is_virtual),
        operating_mode,
        script,
        now_ms,
    )
    assert row is not None, "points of sale are never deleted"
    return Terminal(*row)


async def find(tx: Transaction, seller_id: int, terminal_id: str) -> Terminal | None:
    """The terminal, or None."""
    row = await tx.one(FIND, seller_id, terminal_id)
    return Terminal(*row) if row else None


async def lock(tx: Transaction, seller_id: int, terminal_id: str) -> Terminal | None:
    """The terminal, held until the end of the transaction, or None."""
    row = await tx.one(LOCK, seller_id, terminal_id)
    return Terminal(*row) if row else None


async def of_seller(tx: Transaction, seller_id: int) -> list[Terminal]:
    """All terminals of the seller, live and test."""
    return [Terminal(*row) for row in await tx.all(OF_SELLER, seller_id)]


async def virtual(tx: Transaction) -> list[Terminal]:
    """The virtual terminals of all sellers, the oldest first."""
    return [Terminal(*row) for row in await tx.all(VIRTUAL)]


async def for_order(tx: Transaction, seller_id: int, terminal_id: str) -> ForOrder | None:
    """What creating an order needs to know, held until the end of the transaction; None: not this seller's."""
    row = await tx.one(FOR_ORDER, seller_id, terminal_id)
    return ForOrder(*row) if row else None


async def in_pdv(tx: Transaction, seller_id: int, pos_id: int, *, live: bool) -> list[str]:
    """The terminals in mode PDV at the point of sale, which stays locked until the end of the transaction."""
    await stores.lock_pos(tx, seller_id, pos_id)
    rows = await tx.all(ON_POS, seller_id, int(live), pos_id)
    return sorted(terminal_id for terminal_id, mode in rows if mode == "PDV")


async def lock_all(tx: Transaction, seller_id: int, terminal_ids: Sequence[str]) -> list[Terminal]:
    """Those of the terminals that exist, held until the end of the transaction, in an order that avoids deadlocks.

    Their points of sale are held too, and before them: what stands at one can't change meanwhile.
    """
    known = [terminal for terminal_id in terminal_ids if (terminal := await find(tx, seller_id, terminal_id))]
    for pos_id in sorted({terminal.pos_id for terminal in known}):
        await stores.lock_pos(tx, seller_id, pos_id)
    held = [
        await lock(tx, seller_id, terminal_id) for terminal_id in sorted(terminal.terminal_id for terminal in known)
    ]
    return [terminal for terminal in held if terminal is not None]


async def set_mode(tx: Transaction, seller_id: int, terminal_id: str, mode: OperatingMode) -> None:
    """Another mode; the terminal is told with its next poll."""
    await tx.run(SET_MODE, seller_id, terminal_id, mode)
    tx.notify(f"terminal:{terminal_id}")


async def set_script(tx: Transaction, seller_id: int, terminal_id: str, script: str) -> None:
    """What a virtual terminal plays from the next start on."""
    await tx.run(SET_SCRIPT, seller_id, terminal_id, script)


async def page(
    tx: Transaction,
    seller_id: int,
    *,
    live: bool,
    limit: int,
    offset: int,
    store_id: int | None = None,
    pos_id: int | None = None,
) -> tuple[int, list[Listed]]:
    """How many terminals there are in all, and those of one page."""
    which = (seller_id, int(live), store_id, pos_id)
    counted = await tx.one(COUNT, *which)
    rows = await tx.all(LIST, *which, limit, offset)
    return counted[0] if counted else 0, [Listed(*row) for row in rows]


async def mint_token(tx: Transaction, seller_id: int, terminal_id: str, now_ms: int) -> Secret:
    """A new device token for the terminal; the ones before it are revoked. It is kept as a digest alone."""
    await revoke_tokens(tx, seller_id, terminal_id, now_ms)
    token = f"PDT-{new_hex(TOKEN_BITS)}-{seller_id}"
    await tx.run(INSERT_DEVICE, seller_id, digest(token), terminal_id, now_ms)
    return Secret(token)


async def revoke_tokens(tx: Transaction, seller_id: int, terminal_id: str, now_ms: int) -> bool:
    """End what tokens the terminal has; whether there was one. Results of its leases are taken for a while still."""
    revoked = await tx.run(REVOKE_DEVICE, seller_id, terminal_id, now_ms)
    tx.notify(f"device:{terminal_id}")
    return revoked > 0
