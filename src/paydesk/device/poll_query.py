"""What a poll looks at, in one statement and so on one snapshot: it is what a terminal that waits costs."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.device import lease_store
from paydesk.device.lease_store import Lease
from paydesk.orders import store as orders
from paydesk.orders.order import Order
from paydesk.storage.database import Transaction
from paydesk.terminals.store import OperatingMode


@dataclass(frozen=True, slots=True)
class View:
    """What the database says of a terminal: its mode, its live order, and the lease it acknowledged last."""

    operating_mode: OperatingMode
    order: Order | None
    lease: Lease | None


@dataclass(frozen=True, slots=True)
class Look:
    """When the token was revoked, the terminal's newest session, this start's (None: no hello), and the view."""

    revoked_ms: int | None
    newest: int
    own: int | None
    view: View


_ORDER = ", ".join(f"o.{column}" for column in orders.COLUMNS.split(", "))
_LEASE = ", ".join(f"l.{column}" for column in lease_store.COLUMNS.split(", "))
_LEASE_FROM = 4 + len(Order.__struct_fields__)

LOOK = f"""
SELECT d.revoked_ms, t.session, s.session, t.operating_mode, {_ORDER}, {_LEASE}
  FROM terminals t
  LEFT JOIN device_tokens d ON d.seller_id = t.seller_id AND d.digest = $3
  LEFT JOIN terminal_sessions s ON s.seller_id = t.seller_id AND s.terminal_id = t.terminal_id AND s.boot_id = $4
  LEFT JOIN orders o
    ON o.seller_id = t.seller_id AND o.terminal_id = t.terminal_id AND o.status IN ({orders.LIVE_STATUSES})
  LEFT JOIN leases l ON l.seller_id = t.seller_id AND l.lease_id = (
       SELECT lease_id FROM leases WHERE seller_id = $1 AND terminal_id = $2
        ORDER BY acknowledged_ms DESC, lease_id DESC LIMIT 1)
 WHERE t.seller_id = $1 AND t.terminal_id = $2"""


async def look(tx: Transaction, seller_id: int, terminal_id: str, token_digest: bytes, boot_id: str) -> Look:
    """What there is to know for a poll of the terminal with this token by this start."""
    row = await tx.one(LOOK, seller_id, terminal_id, token_digest, boot_id.lower())
    assert row is not None, "a device token belongs to a terminal"
    revoked_ms, newest, own, operating_mode = row[:4]
    order = None if row[4] is None else Order(*row[4:_LEASE_FROM])
    lease = None if row[_LEASE_FROM] is None else Lease(*row[_LEASE_FROM:])
    return Look(revoked_ms, newest, own, View(operating_mode, order, lease))
