"""Who operates the service. Owners alone add and revoke others; a token is in the answer that makes it, once."""

from __future__ import annotations

from typing import Any

from paydesk.clock import rfc3339
from paydesk.operation import Answer, Call
from paydesk.operators import audit, lists, store, tokens
from paydesk.operators.errors import OPERATOR_NOT_FOUND
from paydesk.operators.schemas import OperatorRequest
from paydesk.operators.store import Person


async def create(call: Call) -> Answer:
    """Let somebody else operate the service."""
    audit.require_owner(call)
    body: OperatorRequest = call.body
    token = tokens.new()
    operator_id = await tokens.issue(call.tx, token, body.name, body.role, call.now_ms)
    answer = shown(Person(operator_id, body.name, body.role, call.now_ms, None))
    await audit.record(call, call.tx, "operators.create", operator_id, after=answer)
    return Answer(201, {**answer, "token": token.reveal()})


async def find_all(call: Call) -> Answer:
    """List the operators."""
    return await lists.page(call.tx, call, store.LIST, ("",), lambda row: shown(Person(*row)))


async def revoke(call: Call) -> Answer:
    """End an operator's token, also one's own: where nobody is left, `paydesk operators create` makes the next."""
    audit.require_owner(call)
    before = await store.person(call.tx, call.path)
    if before is None:
        raise OPERATOR_NOT_FOUND.because("unknown operator")
    changed = await store.revoke(call.tx, call.path, call.now_ms)
    after = await store.person(call.tx, call.path)
    assert after is not None, "operators are never deleted"
    if changed:
        await audit.record(call, call.tx, "operators.revoke", call.path, before=shown(before), after=shown(after))
    return Answer(200, shown(after))


def shown(person: Person) -> dict[str, Any]:
    """The operator without the token."""
    document = {
        "operator_id": person.operator_id,
        "name": person.name,
        "role": person.role,
        "created_date": rfc3339(person.created_ms),
    }
    return document if person.revoked_ms is None else {**document, "revoked_date": rfc3339(person.revoked_ms)}
