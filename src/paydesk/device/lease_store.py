"""The SQL of sessions and leases: which start of a terminal speaks, and which of them holds an order."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.core.errors import Refusal
from paydesk.device.errors import STALE_SESSION
from paydesk.operation import Call
from paydesk.operator_events import OperatorEvent
from paydesk.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class Lease:
    """One row of `leases`: the hold that a terminal has on an order from its acknowledgement on."""

    seller_id: int
    lease_id: str
    order_id: str
    terminal_id: str
    session: int
    acknowledged_ms: int
    seq: int
    step: str
    ended_ms: int | None
    ended_by: str | None


COLUMNS = "seller_id, lease_id, order_id, terminal_id, session, acknowledged_ms, seq, step, ended_ms, ended_by"

# The terminal's row is shared, so that a hello waits until this session's call has ended.
SESSION = """SELECT t.session, s.session FROM terminals t
    LEFT JOIN terminal_sessions s
      ON s.seller_id = t.seller_id AND s.terminal_id = t.terminal_id AND s.boot_id = $3
    WHERE t.seller_id = $1 AND t.terminal_id = $2"""

LOCK_SESSION = f"{SESSION} FOR SHARE OF t"

INSERT_SESSION = """INSERT INTO terminal_sessions (seller_id, terminal_id, boot_id, session, app_version, created_ms)
    VALUES ($1, $2, $3, $4, $5, $6)"""

BEGIN_SESSION = "UPDATE terminals SET session = $3 WHERE seller_id = $1 AND terminal_id = $2"

INSERT = f"""INSERT INTO leases ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, -1, 'acknowledged', NULL, NULL)
    ON CONFLICT DO NOTHING"""

FIND = f"SELECT {COLUMNS} FROM leases WHERE seller_id = $1 AND lease_id = $2"

HAND_OVER = "UPDATE leases SET session = $3 WHERE seller_id = $1 AND lease_id = $2"

ADVANCE = "UPDATE leases SET seq = $3, step = $4 WHERE seller_id = $1 AND lease_id = $2 AND seq < $3"


async def sessions_of(tx: Transaction, seller_id: int, terminal_id: str, boot_id: str) -> tuple[int, int | None]:
    """The number of the terminal's newest session, and that of this start's (None: it never said hello)."""
    row = await tx.one(SESSION, seller_id, terminal_id, boot_id.lower())
    assert row is not None, "a device token belongs to a terminal"
    return row[0], row[1]


async def lock_session(call: Call, boot_id: str) -> int:
    """The number of this start's session, which stays the newest until the transaction ends.

    Raises `stale_session` where another start has taken over, or this one never said hello.
    """
    row = await call.tx.one(LOCK_SESSION, call.caller.seller_id, call.caller.terminal_id, boot_id.lower())
    assert row is not None, "a device token belongs to a terminal"
    newest, own = row
    if own is None or own != newest:
        raise stale(call, own, newest)
    session: int = own
    return session


def stale(call: Call, own: int | None, newest: int, *, is_late: bool = True) -> Refusal:
    """Return the refusal of a session that is not the newest.

    A device that was started again never speaks in its earlier session. So a call of one that `is_late`, which came
    after the newer session had begun, shows two devices with one token, and operators are alerted.
    """
    if own is None:
        return STALE_SESSION.with_reason("no hello")
    if is_late:
        call.alert = OperatorEvent(
            "terminal_session_conflict",
            call.caller.terminal_id,
            "A call came from an earlier session after a newer one had begun: two devices may use one device token.",
            call.caller.seller_id,
            {"session": own, "newest_session": newest, "address": call.address},
        )
    return STALE_SESSION.with_reason(f"session {own}, the newest is {newest}")


async def begin_session(
    tx: Transaction, seller_id: int, terminal_id: str, boot_id: str, app_version: str, session: int, now_ms: int
) -> None:
    """A new session takes over; the terminal's row is held by the caller."""
    await tx.run(INSERT_SESSION, seller_id, terminal_id, boot_id.lower(), session, app_version, now_ms)
    await tx.run(BEGIN_SESSION, seller_id, terminal_id, session)
    # Whoever polls in an earlier session learns that it is over.
    tx.notify(f"terminal:{terminal_id}")


async def create(tx: Transaction, seller_id: int, order_id: str, terminal_id: str, session: int, now_ms: int) -> None:
    """The terminal holds the order from now on."""
    await tx.run(INSERT, seller_id, order_id.removeprefix("ORD"), order_id, terminal_id, session, now_ms)


async def find(tx: Transaction, seller_id: int, lease_id: str) -> Lease | None:
    """The lease, or None where the order was never acknowledged."""
    row = await tx.one(FIND, seller_id, lease_id)
    return Lease(*row) if row else None


async def hand_over(tx: Transaction, seller_id: int, lease_id: str, session: int) -> None:
    """The lease goes to another session of its terminal."""
    await tx.run(HAND_OVER, seller_id, lease_id, session)


async def advance(tx: Transaction, seller_id: int, lease_id: str, seq: int, step: str) -> None:
    """Write the step down, unless a later one is there already."""
    await tx.run(ADVANCE, seller_id, lease_id, seq, step)
