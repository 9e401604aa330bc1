"""Operator accounts. Only owners add and revoke them; the response to `create` contains the token, once."""

from __future__ import annotations

from typing import Any

from paydesk.core.clock import rfc3339
from paydesk.core.secrets import Secret
from paydesk.operation import Answer, Call
from paydesk.operators import audit, credentials, lists, store
from paydesk.operators.errors import OPERATOR_NOT_FOUND
from paydesk.operators.schemas import OperatorRequest
from paydesk.operators.store import OperatorAccount
from paydesk.storage.database import Transaction

LOCAL_ADDRESS = "local"
"""The address in the audit trail of changes made directly in the database."""


async def create(call: Call) -> Answer:
    """Add an operator."""
    audit.require_owner(call)
    body: OperatorRequest = call.body
    document, token = await _add(call.tx, body.name, body.role, call.now_ms)
    await audit.record(call, call.tx, "operators.create", document["operator_id"], after=document)
    return Answer(201, {**document, "token": token.reveal()})


async def create_local(tx: Transaction, *, name: str, role: str, now_ms: int) -> dict[str, Any]:
    """Add an operator without a running service; the audit trail names the new operator as the author."""
    document, token = await _add(tx, name, role, now_ms)
    operator_id: str = document["operator_id"]
    await audit.write(
        tx,
        operator_id=operator_id,
        action="operators.create",
        subject=operator_id,
        address=LOCAL_ADDRESS,
        after=document,
        now_ms=now_ms,
    )
    return {**document, "token": token.reveal()}


async def find_all(call: Call) -> Answer:
    """List the operators."""
    return await lists.page(call.tx, call, store.LIST, ("",), lambda row: _present(OperatorAccount(*row)))


async def revoke(call: Call) -> Answer:
    """Revoke an operator's token, also one's own: `paydesk operators create` can always add another owner."""
    audit.require_owner(call)
    before = await store.account(call.tx, call.path)
    if before is None:
        raise OPERATOR_NOT_FOUND.with_reason("unknown operator")
    changed = await store.revoke(call.tx, call.path, call.now_ms)
    after = await store.account(call.tx, call.path)
    assert after is not None, "operators are never deleted"
    if changed:
        await audit.record(call, call.tx, "operators.revoke", call.path, before=_present(before), after=_present(after))
    return Answer(200, _present(after))


async def _add(tx: Transaction, name: str, role: str, now_ms: int) -> tuple[dict[str, Any], Secret]:
    token = credentials.new_token()
    operator_id = await credentials.add_operator(tx, token, name, role, now_ms)
    return _present(OperatorAccount(operator_id, name, role, now_ms, None)), token


def _present(account: OperatorAccount) -> dict[str, Any]:
    document = {
        "operator_id": account.operator_id,
        "name": account.name,
        "role": account.role,
        "created_date": rfc3339(account.created_ms),
    }
    return document if account.revoked_ms is None else {**document, "revoked_date": rfc3339(account.revoked_ms)}
