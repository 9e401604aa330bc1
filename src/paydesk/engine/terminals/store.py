"""SQL of terminals and device tokens."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import msgspec

from paydesk.core.secrets import Secret, digest, new_hex
from paydesk.engine.terminals import presence, stores
from paydesk.engine.terminals.schemas import VIRTUAL_MODEL, Kind, OperatingMode, TerminalDocument
from paydesk.platform.storage.database import Transaction

TOKEN_BITS = 160


@dataclass(frozen=True, slots=True)
class Terminal:
    """One row of `terminals`, its columns in order."""

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
    tip_percentages: str | None = None
    """A JSON array of whole numbers; None: the terminal offers no tips."""
    action_id: str | None = None
    """Its open print action."""


class OrderTerminal(msgspec.Struct, frozen=True):
    """The columns of a terminal that creating an order depends on."""

    live: int
    operating_mode: OperatingMode
    action_id: str | None
    """Its open print action."""


_TERMINAL = ", ".join(field.name for field in fields(Terminal))

# Terminal ids are unique over all sellers.
CLAIM_ID = """INSERT INTO terminal_owners (terminal_id, seller_id) VALUES ($1, $2)
    ON CONFLICT DO NOTHING"""

# A terminal that was deleted counts its sessions on from those of its leases.
INSERT_TERMINAL = f"""INSERT INTO terminals ({_TERMINAL})
    SELECT seller_id, CAST($2 AS text), CAST($3 AS smallint), store_id, pos_id, CAST($5 AS text), CAST($6 AS smallint),
           CAST($7 AS text), CAST($8 AS text), COALESCE((SELECT MAX(session) FROM leases
            WHERE seller_id = $1 AND terminal_id = $2), 0), CAST(NULL AS bigint), CAST($9 AS bigint), NULL, NULL
      FROM pos WHERE seller_id = $1 AND pos_id = $4
    RETURNING {_TERMINAL}"""

FIND = f"SELECT {_TERMINAL} FROM terminals WHERE seller_id = $1 AND terminal_id = $2"

LOCK = f"{FIND} FOR UPDATE"

OF_SELLER = f"SELECT {_TERMINAL} FROM terminals WHERE seller_id = $1 ORDER BY terminal_id"

VIRTUAL = f"SELECT {_TERMINAL} FROM terminals WHERE is_virtual = 1 ORDER BY created_ms, seller_id, terminal_id"

# The lock makes creating an order, creating a print action and changing the mode exclude each other.
FOR_ORDER = "SELECT live, operating_mode, action_id FROM terminals WHERE seller_id = $1 AND terminal_id = $2 FOR UPDATE"

ON_POS = "SELECT terminal_id, operating_mode FROM terminals WHERE seller_id = $1 AND live = $2 AND pos_id = $3"

SET_MODE = "UPDATE terminals SET operating_mode = $3 WHERE seller_id = $1 AND terminal_id = $2"

# An overdue order does not count: the expiry worker ends it, usually within 1 s.
COUNT_LIVE_ORDERS = """SELECT COUNT(*) FROM orders
    WHERE seller_id = $1 AND terminal_id = $2 AND status IN ('created', 'at_terminal')
      AND (expires_ms > $3 OR permitted_ms IS NOT NULL OR payment_status_detail = 'check_on_terminal')"""

_OF_SELLER = """WHERE t.seller_id = $1 AND t.live = $2
      AND (CAST($3 AS bigint) IS NULL OR t.store_id = $3) AND (CAST($4 AS bigint) IS NULL OR t.pos_id = $4)"""

COUNT = f"SELECT COUNT(*) FROM terminals t {_OF_SELLER}"

LIST = f"""SELECT t.terminal_id, t.pos_id, t.store_id, p.external_pos_id, t.operating_mode, {presence.COLUMNS}
    FROM terminals t JOIN pos p ON p.seller_id = t.seller_id AND p.pos_id = t.pos_id
    {presence.LIVE_ORDER}
    {_OF_SELLER}
    ORDER BY t.terminal_id LIMIT $5 OFFSET $6"""

INSERT_DEVICE = """INSERT INTO device_tokens (seller_id, digest, terminal_id, created_ms, revoked_ms)
    VALUES ($1, $2, $3, $4, NULL)"""

IS_UNUSED = "SELECT used_ms IS NULL AND revoked_ms IS NULL FROM device_tokens WHERE seller_id = $1 AND digest = $2"

USE_DEVICE = """UPDATE device_tokens SET used_ms = COALESCE(used_ms, $3) WHERE seller_id = $1 AND digest = $2
    RETURNING revoked_ms"""

# Revokes all tokens of the terminal. The time of the first revocation is kept.
REVOKE_DEVICE = """UPDATE device_tokens SET revoked_ms = $3
    WHERE seller_id = $1 AND terminal_id = $2 AND revoked_ms IS NULL"""


def virtual_id(prefix: str = "") -> str:
    """Return an id for a new virtual terminal: its model and a serial number, random after the prefix."""
    return f"{VIRTUAL_MODEL}__{prefix}{secrets.token_hex(6).upper()}"


async def create(  # noqa: PLR0913  # one parameter per column
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
    """Insert a terminal; return None if any seller has one of this id, or the seller has no such point of sale.

    For mode PDV the caller checks `in_pdv` first, in the same transaction.
    """
    if await stores.lock_pos(tx, seller_id, pos_id) is None or not await tx.run(CLAIM_ID, terminal_id, seller_id):
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
    assert row is not None, "the point of sale is locked"
    return Terminal(*row)


async def find(tx: Transaction, seller_id: int, terminal_id: str) -> Terminal | None:
    """Return the terminal, or None."""
    row = await tx.one(FIND, seller_id, terminal_id)
    return Terminal(*row) if row else None


async def lock(tx: Transaction, seller_id: int, terminal_id: str) -> Terminal | None:
    """Return the terminal, locked until the transaction ends, or None."""
    row = await tx.one(LOCK, seller_id, terminal_id)
    return Terminal(*row) if row else None


async def of_seller(tx: Transaction, seller_id: int) -> list[Terminal]:
    """Return all terminals of the seller, live and test."""
    return [Terminal(*row) for row in await tx.all(OF_SELLER, seller_id)]


async def virtual(tx: Transaction) -> list[Terminal]:
    """Return the virtual terminals of all sellers, oldest first."""
    return [Terminal(*row) for row in await tx.all(VIRTUAL)]


async def for_order(tx: Transaction, seller_id: int, terminal_id: str) -> OrderTerminal | None:
    """Return the terminal for a new order, locked until the transaction ends, or None."""
    row = await tx.one(FOR_ORDER, seller_id, terminal_id)
    return OrderTerminal(*row) if row else None


async def in_pdv(tx: Transaction, seller_id: int, pos_id: int, *, live: bool) -> list[str]:
    """Return the ids of the terminals in mode PDV at the point of sale, which is locked until the transaction ends."""
    await stores.lock_pos(tx, seller_id, pos_id)
    rows = await tx.all(ON_POS, seller_id, int(live), pos_id)
    return sorted(terminal_id for terminal_id, mode in rows if mode == "PDV")


async def lock_all(tx: Transaction, seller_id: int, terminal_ids: Sequence[str]) -> list[Terminal]:
    """Return those of the terminals that exist, locked until the transaction ends, in an order that avoids deadlocks.

    Their points of sale are locked first, so that no other terminal there can change to mode PDV.
    """
    known = [terminal for terminal_id in terminal_ids if (terminal := await find(tx, seller_id, terminal_id))]
    for pos_id in sorted({terminal.pos_id for terminal in known}):
        await stores.lock_pos(tx, seller_id, pos_id)
    locked = [await lock(tx, seller_id, known_id) for known_id in sorted(terminal.terminal_id for terminal in known)]
    return [terminal for terminal in locked if terminal is not None]


async def set_mode(tx: Transaction, seller_id: int, terminal_id: str, mode: OperatingMode) -> None:
    """Set the mode. The terminal gets it with its next poll."""
    await tx.run(SET_MODE, seller_id, terminal_id, mode)
    tx.notify(f"terminal:{terminal_id}")


async def has_live_order(tx: Transaction, seller_id: int, terminal_id: str, now_ms: int) -> bool:
    """Return whether the terminal has a live order that is not overdue."""
    row = await tx.one(COUNT_LIVE_ORDERS, seller_id, terminal_id, now_ms)
    return row is not None and row[0] > 0


async def page(
    tx: Transaction,
    seller_id: int,
    *,
    live: bool,
    limit: int,
    offset: int,
    store_id: int | None = None,
    pos_id: int | None = None,
    label: Callable[[str, str], str],
) -> tuple[int, list[TerminalDocument]]:
    """Return the number of matching terminals, and one page of them.

    `label` returns the label of an order's status and detail.
    """
    which = (seller_id, int(live), store_id, pos_id)
    counted = await tx.one(COUNT, *which)
    rows = await tx.all(LIST, *which, limit, offset)
    listed = [
        TerminalDocument(
            terminal_id, terminal_id, pos_id, str(store_id), external_pos_id, mode, **presence.shown(rest, label)
        )
        for terminal_id, pos_id, store_id, external_pos_id, mode, *rest in rows
    ]
    return counted[0] if counted else 0, listed


async def mint_token(tx: Transaction, seller_id: int, terminal_id: str, now_ms: int) -> Secret:
    """Insert a device token for the terminal and revoke its earlier ones. Only the digest is stored."""
    token = f"PDT-{new_hex(TOKEN_BITS)}-{seller_id}"
    await replace_token(tx, seller_id, terminal_id, token, now_ms)
    return Secret(token)


async def replace_token(tx: Transaction, seller_id: int, terminal_id: str, token: str, now_ms: int) -> None:
    """Insert this device token for the terminal and revoke its earlier ones. Only the digest is stored."""
    await revoke_tokens(tx, seller_id, terminal_id, now_ms)
    await tx.run(INSERT_DEVICE, seller_id, digest(token), terminal_id, now_ms)


async def is_unused(tx: Transaction, seller_id: int, token_digest: bytes) -> bool | None:
    """Return whether the device token is valid and no terminal has used it; None if it is unknown."""
    row = await tx.one(IS_UNUSED, seller_id, token_digest)
    return bool(row[0]) if row else None


async def use_token(tx: Transaction, seller_id: int, token_digest: bytes, now_ms: int) -> bool:
    """Record the first use of a device token: from then on its pairing does not return it. Return False if revoked."""
    row = await tx.one(USE_DEVICE, seller_id, token_digest, now_ms)
    return row is None or row[0] is None


async def revoke_tokens(tx: Transaction, seller_id: int, terminal_id: str, now_ms: int) -> bool:
    """Revoke the terminal's tokens; return whether it had one. They are accepted for results for 7 more days."""
    revoked = await tx.run(REVOKE_DEVICE, seller_id, terminal_id, now_ms)
    tx.notify(f"device:{terminal_id}")
    return revoked > 0
