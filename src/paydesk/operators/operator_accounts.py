"""Who operates the service. Owners alone add and revoke others; a token is in the answer that makes it, once."""

from __future__ import annotations

from typing import Any

from paydesk.core.clock import rfc3339
from paydesk.core.secrets import Secret
from paydesk.operation import Answer, Call
from paydesk.operators import audit, lists, store, tokens
from paydesk.operators.errors import OPERATOR_NOT_FOUND
from paydesk.operators.schemas import OperatorRequest
from paydesk.operators.store import Person
from paydesk.storage.database import Transaction

HERE = "local"
"""The address, in the audit trail, of who works on the database itself."""


async def create(call: Call) -> Answer:
    """Let somebody else operate the service."""
    audit.require_owner(call)
    body: OperatorRequest = call.body
    answer, token = await _add(call.tx, body.name, body.role, call.now_ms)
    await audit.record(call, call.tx, "operators.create", answer["operator_id"], after=answer)
    return Answer(201, {**answer, "token": token.reveal()})


async def create_here(tx: Transaction, *, name: str, role: str, now_ms: int) -> dict[str, Any]:
    """An operator, made without a service, with the token. Nobody is known to have done it but they themselves."""
    answer, token = await _add(tx, name, role, now_ms)
    operator_id: str = answer["operator_id"]
    await audit.write(
        tx,
        operator_id=operator_id,
        action="operators.create",
        subject=operator_id,
        address=HERE,
        after=answer,
        now_ms=now_ms,
    )
    return {**answer, "token": token.reveal()}


async def find_all(call: Call) -> Answer:
    """List the operators."""
    return await lists.page(call.tx, call, store.LIST, ("",), lambda row: shown(Person(*row)))


async def revoke(call: Call) -> Answer:
    """End an operator's token, also one's own: where nobody is left, `paydesk operators create` makes the next."""
    audit.require_owner(call)
    before = await store.person(call.tx, call.path)
    if before is None:
        raise OPERATOR_NOT_FOUND.with_reason("unknown operator")
    changed = await store.revoke(call.tx, call.path, call.now_ms)
    after = await store.person(call.tx, call.path)
    assert after is not None, "operators are never deleted"
    if changed:
        await audit.record(call, call.tx, "operators.revoke", call.path, before=shown(before), after=shown(after))
    return Answer(200, shown(after))


async def _add(tx: Transaction, name: str, role: str, now_ms: int) -> tuple[dict[str, Any], Secret]:
    token = tokens.new()
    operator_id = await tokens.issue(tx, token, name, role, now_ms)
    return shown(Person(operator_id, name, role, now_ms, None)), token


def shown(person: Person) -> dict[str, Any]:
    """The operator without the token."""
    document = {
        "operator_id": person.operator_id,
        "name": person.name,
        "role": person.role,
        "created_date": rfc3339(person.created_ms),
    }
    return document if person.revoked_ms is None else {**document, "revoked_date": rfc3339(person.revoked_ms)}
