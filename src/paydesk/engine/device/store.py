"""SQL of a terminal's sessions, leases and results, and of its long poll."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paydesk.engine.orders import store as orders
from paydesk.engine.orders.order import Order
from paydesk.engine.terminals.schemas import OperatingMode
from paydesk.platform.storage.database import Transaction

Processing = Literal["taken", "conflict", "finished", "late_approval", "unreadable"]
"""The processing of a result; column `verdict` of `results`."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One row of `leases`: a terminal's claim on an order, from its acknowledgement on."""

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
    offered_ms: int | None
    """When it was first offered; None if another node offered it."""


@dataclass(frozen=True, slots=True)
class PollState:
    """Everything that a poll depends on, from one snapshot of the database."""

    revoked_ms: int | None
    newest_session: int
    own_session: int | None
    """The session of the polling `boot_id`; None if it never sent a hello."""
    operating_mode: OperatingMode
    tip_percentages: str | None
    action_id: str | None
    """The terminal's open print action."""
    order: Order | None
    """The terminal's live order."""
    lease: Lease | None
    """The lease that the terminal acknowledged last."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result that was answered: the digest of its content, the status, and the body or the error code."""

    digest: bytes
    answer_status: int
    answer: str


LEASE = (
    "seller_id, lease_id, order_id, terminal_id, session, acknowledged_ms, seq, step, ended_ms, ended_by, offered_ms"
)

FIND_SESSIONS = """
SELECT t.session, s.session FROM terminals t
  LEFT JOIN terminal_sessions s
    ON s.seller_id = t.seller_id AND s.terminal_id = t.terminal_id AND s.boot_id = $3
 WHERE t.seller_id = $1 AND t.terminal_id = $2"""

# The lock is shared among calls of one session; a hello waits until they have ended.
LOCK_SESSIONS = f"{FIND_SESSIONS} FOR SHARE OF t"

INSERT_SESSION = """
INSERT INTO terminal_sessions (seller_id, terminal_id, boot_id, session, app_version, created_ms)
VALUES ($1, $2, $3, $4, $5, $6)"""

SET_NEWEST_SESSION = "UPDATE terminals SET session = $3 WHERE seller_id = $1 AND terminal_id = $2"

INSERT_LEASE = f"""
INSERT INTO leases ({LEASE}) VALUES ($1, $2, $3, $4, $5, $6, -1, 'acknowledged', NULL, NULL, $7)"""

FIND_LEASE = f"SELECT {LEASE} FROM leases WHERE seller_id = $1 AND lease_id = $2"

SET_LEASE_SESSION = "UPDATE leases SET session = $3 WHERE seller_id = $1 AND lease_id = $2"

ADVANCE_LEASE = "UPDATE leases SET seq = $3, step = $4 WHERE seller_id = $1 AND lease_id = $2 AND seq < $3"

STEPS_MAX = 64
"""Per lease; further steps are not recorded. A payment has about ten."""

INSERT_STEP = f"""
INSERT INTO lease_steps (seller_id, lease_id, seq, step, created_ms)
SELECT CAST($1 AS bigint), CAST($2 AS text), CAST($3 AS bigint), CAST($4 AS text), CAST($5 AS bigint)
 WHERE (SELECT COUNT(*) FROM lease_steps WHERE seller_id = $1 AND lease_id = $2) < {STEPS_MAX}
    ON CONFLICT DO NOTHING"""

_ORDER_COLUMNS = ", ".join(f"o.{column}" for column in orders.COLUMNS.split(", "))
_LEASE_COLUMNS = ", ".join(f"l.{column}" for column in LEASE.split(", "))
_LEASE_FROM = 6 + len(Order.__struct_fields__)

# One statement, because a waiting terminal costs little else.
POLL = f"""
SELECT d.revoked_ms, t.session, s.session, t.operating_mode, t.tip_percentages, t.action_id, {_ORDER_COLUMNS},
       {_LEASE_COLUMNS}
  FROM terminals t
  LEFT JOIN device_tokens d ON d.seller_id = t.seller_id AND d.digest = $3
  LEFT JOIN terminal_sessions s ON s.seller_id = t.seller_id AND s.terminal_id = t.terminal_id AND s.boot_id = $4
  LEFT JOIN orders o
    ON o.seller_id = t.seller_id AND o.terminal_id = t.terminal_id AND o.status IN ({orders.LIVE_STATUSES})
  LEFT JOIN leases l ON l.seller_id = t.seller_id AND l.lease_id = (
       SELECT lease_id FROM leases WHERE seller_id = $1 AND terminal_id = $2
        ORDER BY acknowledged_ms DESC, lease_id DESC LIMIT 1)
 WHERE t.seller_id = $1 AND t.terminal_id = $2"""

FIND_RESULT = """
SELECT digest, answer_status, answer FROM results
 WHERE seller_id = $1 AND lease_id = $2 AND result_id = $3"""

COUNT_RESULTS = "SELECT COUNT(*) FROM results WHERE seller_id = $1 AND lease_id = $2"

# Evidence that the acquirer was called, whatever the terminal's journal says: an authorization that the service
# requested for the terminal, or a result.
MAY_BE_CHARGED = """
SELECT 1 WHERE EXISTS (SELECT 1 FROM lease_authorizations WHERE seller_id = $1 AND lease_id = $2)
            OR EXISTS (SELECT 1 FROM results WHERE seller_id = $1 AND lease_id = $2)"""

INSERT_RESULT = """
INSERT INTO results (seller_id, lease_id, result_id, digest, outcome, verdict, body, answer_status, answer, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING"""

# An operator resolved the order as approved without a reference.
SET_REFERENCE = """
UPDATE orders SET reference_id = $3 WHERE seller_id = $1 AND order_id = $2 AND reference_id IS NULL"""


async def find_sessions(
    tx: Transaction, seller_id: int, terminal_id: str, boot_id: str, *, lock: bool = False
) -> tuple[int, int | None]:
    """Return the terminal's newest session and the session of `boot_id`, or None if it never sent a hello.

    A deleted terminal has none. With `lock` the newest session can't change until the transaction ends.
    """
    row = await tx.one(LOCK_SESSIONS if lock else FIND_SESSIONS, seller_id, terminal_id, boot_id.lower())
    return (row[0], row[1]) if row else (0, None)


async def begin_session(
    tx: Transaction, seller_id: int, terminal_id: str, boot_id: str, app_version: str, session: int, now_ms: int
) -> None:
    """Insert a session and make it the newest. The caller has locked the terminal's row."""
    await tx.run(INSERT_SESSION, seller_id, terminal_id, boot_id.lower(), session, app_version, now_ms)
    await tx.run(SET_NEWEST_SESSION, seller_id, terminal_id, session)
    # Open polls of earlier sessions end.
    tx.notify(f"terminal:{terminal_id}")


async def insert_lease(tx: Transaction, order: Order, session: int, now_ms: int, offered_ms: int | None) -> None:
    """Insert the lease of an order that its terminal acknowledged."""
    await tx.run(
        INSERT_LEASE, order.seller_id, order.ulid, order.order_id, order.terminal_id, session, now_ms, offered_ms
    )


async def find_lease(tx: Transaction, seller_id: int, lease_id: str) -> Lease | None:
    """Return the lease, or None if the order was never acknowledged."""
    row = await tx.one(FIND_LEASE, seller_id, lease_id)
    return Lease(*row) if row else None


async def set_lease_session(tx: Transaction, seller_id: int, lease_id: str, session: int) -> None:
    """Move the lease to another session of its terminal."""
    await tx.run(SET_LEASE_SESSION, seller_id, lease_id, session)


async def advance_lease(tx: Transaction, seller_id: int, lease_id: str, seq: int, step: str, now_ms: int) -> None:
    """Record the step in the history of the lease, and as its newest unless one with a higher `seq` is."""
    await tx.run(ADVANCE_LEASE, seller_id, lease_id, seq, step)
    tx.defer(INSERT_STEP, seller_id, lease_id, seq, step, now_ms)


async def poll(
    tx: Transaction, seller_id: int, terminal_id: str, token_digest: bytes, boot_id: str
) -> PollState | None:
    """Return the state that a poll of the terminal with this token and `boot_id` depends on; None if it is deleted."""
    row = await tx.one(POLL, seller_id, terminal_id, token_digest, boot_id.lower())
    if row is None:
        return None
    order = None if row[6] is None else Order(*row[6:_LEASE_FROM])
    lease = None if row[_LEASE_FROM] is None else Lease(*row[_LEASE_FROM:])
    revoked_ms, newest_session, own_session, operating_mode, tip_percentages, action_id = row[:6]
    return PollState(revoked_ms, newest_session, own_session, operating_mode, tip_percentages, action_id, order, lease)


async def find_result(tx: Transaction, order: Order, result_id: str) -> StoredResult | None:
    """Return the stored result with its answer, or None."""
    row = await tx.one(FIND_RESULT, order.seller_id, order.ulid, result_id)
    return StoredResult(bytes(row[0]), row[1], row[2]) if row else None


async def count_results(tx: Transaction, order: Order) -> int:
    """Return the number of stored results of the order's lease."""
    row = await tx.one(COUNT_RESULTS, order.seller_id, order.ulid)
    assert row is not None, "an aggregate has a row"
    return int(row[0])


async def may_be_charged(tx: Transaction, order: Order) -> bool:
    """Return whether the database has evidence that the acquirer was called for the order's lease."""
    return await tx.one(MAY_BE_CHARGED, order.seller_id, order.ulid) is not None


async def insert_result(
    tx: Transaction,
    order: Order,
    result_id: str,
    stored: StoredResult,
    outcome: str,
    processing: Processing,
    body: str,
    now_ms: int,
) -> None:
    """Insert the result with its answer, unless a result with its id exists."""
    await tx.run(
        INSERT_RESULT,
        order.seller_id,
        order.ulid,
        result_id,
        stored.digest,
        outcome,
        processing,
        body,
        stored.answer_status,
        stored.answer,
        now_ms,
    )


async def set_reference(tx: Transaction, order: Order, reference_id: str | None) -> None:
    """Set the reference of the payment, if it has none."""
    await tx.run(SET_REFERENCE, order.seller_id, order.order_id, reference_id)
