"""Operator accounts. Only owners add and revoke them; the response to `create` contains the token, once."""

from __future__ import annotations

from paydesk import audit
from paydesk.core.clock import rfc3339
from paydesk.core.response import Closed, Time, time_or_none
from paydesk.core.secrets import Secret
from paydesk.operation import Answer, Call
from paydesk.operators import credentials, store
from paydesk.operators.errors import OPERATOR_NOT_FOUND
from paydesk.operators.lists import pages
from paydesk.operators.schemas import OperatorRequest, Role
from paydesk.storage.database import Row, Transaction

LOCAL_ADDRESS = "local"
"""The address in the audit trail of changes made directly in the database."""


class OperatorDocument(Closed, frozen=True):
    """An operator."""

    operator_id: str
    name: str
    role: Role
    created_date: Time
    revoked_date: Time | None = None


class NewOperator(Closed, frozen=True):
    """A new operator with their token."""

    operator_id: str
    name: str
    role: Role
    created_date: Time
    token: str


async def create(call: Call) -> Answer:
    """Add an operator."""
    audit.require_owner(call)
    document, token = await _add(call.tx, call.body, call.now_ms)
    await audit.record(call, call.tx, "operators.create", document.operator_id, after=document)
    return Answer(201, NewOperator.of(document, token=token.reveal()))


async def create_local(tx: Transaction, request: OperatorRequest, now_ms: int) -> NewOperator:
    """Add an operator without a running service; the audit trail names the new operator as the author."""
    document, token = await _add(tx, request, now_ms)
    await audit.write(
        tx,
        operator_id=document.operator_id,
        action="operators.create",
        subject=document.operator_id,
        address=LOCAL_ADDRESS,
        after=document,
        now_ms=now_ms,
    )
    return NewOperator.of(document, token=token.reveal())


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


async def _add(tx: Transaction, request: OperatorRequest, now_ms: int) -> tuple[OperatorDocument, Secret]:
    token = credentials.new_token()
    operator_id = await credentials.add_operator(tx, token, request.name, request.role, now_ms)
    return OperatorDocument(operator_id, request.name, request.role, rfc3339(now_ms)), token


def _present(row: Row) -> OperatorDocument:
    operator_id, name, role, created_ms, revoked_ms = row
    return OperatorDocument(operator_id, name, role, rfc3339(created_ms), time_or_none(revoked_ms))


PAGES = pages(OperatorDocument, store.LIST, _present, ("",))
