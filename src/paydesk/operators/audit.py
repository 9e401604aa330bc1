"""The audit trail: each change by an operator writes who, when, from where and what, in its own transaction."""

from __future__ import annotations

from typing import Any

import msgspec

from paydesk.core import ids
from paydesk.core.errors import FORBIDDEN
from paydesk.operation import Call
from paydesk.operators import store
from paydesk.storage.database import Transaction


def require_change(call: Call) -> None:
    """Refuse those who may only read. Raises `FORBIDDEN`."""
    if call.caller.role == "support":
        raise FORBIDDEN.with_reason("support may only read", message="Your role, support, may only read.")


def require_owner(call: Call) -> None:
    """Refuse everybody but owners, who alone say who operates the service. Raises `FORBIDDEN`."""
    if call.caller.role != "owner":
        raise FORBIDDEN.with_reason(
            "not an owner", message=f"Your role, {call.caller.role}, may not do this; an owner may."
        )


async def record(
    call: Call, tx: Transaction, action: str, subject: str, *, before: Any = None, after: Any = None
) -> None:
    """Write down the change. `before` and `after` must carry no secret."""
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
    """Write down what somebody did, wherever from. `before` and `after` must carry no secret."""
    entry_id = ids.ulid(now_ms)
    await store.audit(
        tx, store.Entry(entry_id, operator_id, action, subject, address, _json(before), _json(after), now_ms)
    )


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
