"""The audit trail: each change by an operator records who, when, from where and what, in its own transaction.

Of reads only exports of orders are recorded.
"""

from __future__ import annotations

from typing import Any

import msgspec

from paydesk.core import ids
from paydesk.platform.operation import Call
from paydesk.platform.storage.database import Transaction

ADD = """
INSERT INTO operator_audit (entry_id, operator_id, action, subject, address, before, after, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"""


async def record(
    call: Call, tx: Transaction, action: str, subject: str, *, before: Any = None, after: Any = None
) -> None:
    """Record a change by the calling operator, and publish a hint to open pages.

    `before` and `after` must not contain secrets. The hint's noun is the first word of the action, such as
    `subscriptions`.
    """
    if call.database.signals.watched:
        tx.notify(f"hint:{action.partition('.')[0]}:{subject}")
    await write(
        tx,
        operator_id=call.caller.operator_id,
        action=action,
        subject=subject,
        address=call.address,
        before=before,
        after=after,
        now_ms=call.now_ms,
    )


async def write(
    tx: Transaction,
    *,
    operator_id: str,
    action: str,
    subject: str,
    address: str,
    now_ms: int,
    before: Any = None,
    after: Any = None,
) -> None:
    """Record a change made over HTTP or locally. `before` and `after` must not contain secrets."""
    entry_id = ids.ordered_ulid(now_ms)
    await tx.run(ADD, entry_id, operator_id, action, subject, address, _json(before), _json(after), now_ms)


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
