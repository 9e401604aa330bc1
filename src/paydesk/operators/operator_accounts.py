"""Operator accounts. Only owners add, change and remove them; the response to `create` contains the token, once.

At least one valid owner stays. A request locks the rows of all valid owners before it may reduce their number.
"""

from __future__ import annotations

from paydesk import audit
from paydesk.core.clock import rfc3339
from paydesk.core.errors import FORBIDDEN, IN_USE, MINIMUM_PROPERTIES, Refusal
from paydesk.core.response import Closed, Time, time_or_none
from paydesk.core.secrets import Secret
from paydesk.operation import Answer, Call
from paydesk.operators import credentials, in_use, store, uses
from paydesk.operators.errors import LAST_OWNER, OPERATOR_NOT_FOUND
from paydesk.operators.lists import pages
from paydesk.operators.schemas import OperatorChange, OperatorRequest, Role
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


async def get(call: Call) -> Answer:
    """Return an operator."""
    found = await store.account(call.tx, call.path)
    if found is None:
        raise _unknown()
    return Answer(200, _present(found))


async def change(call: Call) -> Answer:
    """Change only the fields that were sent. The last valid owner keeps the role: raises `LAST_OWNER`."""
    before, body = await _locked(call), call.body
    assert isinstance(body, OperatorChange)
    if not body.model_fields_set:
        raise MINIMUM_PROPERTIES.with_reason("nothing to change", "'$' - must have one of name, role")
    role = body.role or before.role
    if role != before.role:
        await _refuse_last_owner(call, before, "demoted")
    await store.change(call.tx, before.operator_id, body.name or before.name, role)
    return await _changed(call, "operators.change", before)


async def revoke(call: Call) -> Answer:
    """Revoke an operator's token, also one's own unless it is that of the last valid owner. Raises `LAST_OWNER`."""
    before = await _locked(call)
    await _refuse_last_owner(call, before, "revoked")
    await store.revoke(call.tx, before.operator_id, call.now_ms)
    return await _changed(call, "operators.revoke", before)


async def delete(call: Call) -> Answer:
    """Delete an operator who has made no change that is in the audit trail.

    Raises `LAST_OWNER`, and `IN_USE`: such an operator can be revoked instead.
    """
    before = await _locked(call)
    await _refuse_last_owner(call, before, "deleted")
    entries = await uses.ids(call.tx, uses.OPERATOR_CHANGES, before.operator_id)
    if before.operator_id == call.caller.operator_id and not entries:
        raise IN_USE.with_reason("is the caller", "the audit trail will name this operator; revoke the token instead")
    in_use.refuse(("audit entries", entries, "these stay, so revoke the operator instead"))
    await store.delete(call.tx, before.operator_id)
    await audit.record(call, call.tx, "operators.delete", before.operator_id, before=before)
    return Answer(204)


async def _locked(call: Call) -> OperatorDocument:
    """Lock the valid owners and the operator of the path, and return the latter.

    Raises `FORBIDDEN`, also if the caller is no owner any more, and `OPERATOR_NOT_FOUND`.
    """
    audit.require_owner(call)
    if call.caller.operator_id not in await store.lock_owners(call.tx):
        raise FORBIDDEN.with_reason("no owner any more", message="You are no owner any more; an owner may do this.")
    found = await store.lock(call.tx, call.path)
    if found is None:
        raise _unknown()
    return _present(found)


async def _refuse_last_owner(call: Call, operator: OperatorDocument, what: str) -> None:
    if await store.lock_owners(call.tx) == [operator.operator_id]:
        raise LAST_OWNER.with_reason(f"the last owner would be {what}")


async def _changed(call: Call, action: str, before: OperatorDocument) -> Answer:
    """Return the operator; record the change in the audit trail unless nothing changed."""
    found = await store.account(call.tx, before.operator_id)
    assert found is not None, "the row is locked until the commit"
    after = _present(found)
    if after != before:
        await audit.record(call, call.tx, action, before.operator_id, before=before, after=after)
    return Answer(200, after)


def _unknown() -> Refusal:
    return OPERATOR_NOT_FOUND.with_reason("unknown operator")


async def _add(tx: Transaction, request: OperatorRequest, now_ms: int) -> tuple[OperatorDocument, Secret]:
    token = credentials.new_token()
    operator_id = await credentials.add_operator(tx, token, request.name, request.role, now_ms)
    return OperatorDocument(operator_id, request.name, request.role, rfc3339(now_ms)), token


def _present(row: Row) -> OperatorDocument:
    operator_id, name, role, created_ms, revoked_ms = row
    return OperatorDocument(operator_id, name, role, rfc3339(created_ms), time_or_none(revoked_ms))


PAGES = pages(OperatorDocument, store.LIST, _present, ("",))
