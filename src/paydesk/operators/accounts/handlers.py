"""Operator accounts: people, who sign in with an e-mail address and a password, and programs, which have a token.

Only owners add, change and remove them. The response to `create` contains the token, or the link with which a person
sets the password, once. At least one valid owner with a token or a password stays. A request locks the rows of all
valid owners before it may reduce their number, or give an e-mail address to an operator.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Annotated

from msgspec import Meta

from paydesk.console import sessions
from paydesk.core.clock import rfc3339
from paydesk.core.errors import FORBIDDEN, IN_USE, Refusal
from paydesk.core.response import Closed, Time, named, time_or_none
from paydesk.core.text.characters import canonical_email
from paydesk.operators import audit, lists
from paydesk.operators.accounts import credentials, links, store
from paydesk.operators.accounts.fields import OperatorChange, OperatorRequest
from paydesk.operators.deletion import in_use, uses
from paydesk.operators.errors import CANNOT_SIGN_IN, LAST_OWNER, OPERATOR_NOT_FOUND
from paydesk.operators.schemas import Role
from paydesk.operators.subject import Subject, plain
from paydesk.platform import operator_events
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.storage.database import Row, Transaction

_ACCOUNT = "operator_id name role email has_token has_password created_ms revoked_ms"
LOCAL_ADDRESS = "local"
"""The address in the audit trail of changes made directly in the database."""

_Url = Annotated[str, Meta(description="The page where the person sets the password, once. It is not shown again.")]


class OperatorDocument(Closed, frozen=True, kw_only=True):
    """An operator."""

    operator_id: str
    name: str
    role: Role
    email: Annotated[str, Meta(description="Of a person, who can sign in.")] | None = None
    has_token: bool
    has_password: bool
    created_date: Time
    revoked_date: Time | None = None


class ShownOperator(OperatorDocument, frozen=True, kw_only=True):
    """An operator, with what the audit trail does not record."""

    link_expires_date: (
        Annotated[Time, Meta(description="Until when the link to set a password is valid; absent without one.")] | None
    ) = None
    last_used_date: (
        Annotated[Time, Meta(description="The last use of the console, to the minute, if it is still stored.")] | None
    ) = None


class NewOperator(OperatorDocument, frozen=True, kw_only=True):
    """A new operator with the token of a program, or the link of a person."""

    token: str | None = None
    password_url: _Url | None = None
    password_expires_date: Time | None = None


class PasswordLink(Closed, frozen=True):
    """A link with which an operator sets a password."""

    url: _Url
    expires_date: Time


async def create(call: Call) -> Answer:
    """Add an operator. Raises `EMAIL_TAKEN`."""
    await _require_owner(call)
    document, created = await _add(call.tx, call.body, call.settings.operator_url, call.now_ms)
    await audit.record(call, call.tx, "operators.create", document.operator_id, after=document)
    events = _events(document, call.caller.operator_id, call.address)
    call.alert = await _recorded(call.tx, events, call.now_ms)
    return Answer(201, created)


async def create_local(tx: Transaction, request: OperatorRequest, base_url: str, now_ms: int) -> NewOperator:
    """Add an operator without a running service; the audit trail names the new operator as the author."""
    await store.lock_owners(tx)
    document, created = await _add(tx, request, base_url, now_ms)
    await audit.write(
        tx,
        operator_id=document.operator_id,
        action="operators.create",
        subject=document.operator_id,
        address=LOCAL_ADDRESS,
        after=document,
        now_ms=now_ms,
    )
    await _recorded(tx, _events(document, document.operator_id, LOCAL_ADDRESS), now_ms)
    return created


async def get(call: Call) -> Answer:
    """Get an operator."""
    return Answer(200, await _find(call, call.path))


async def find(call: Call, filters: Filters) -> Answer:
    """List the operators by id, revoked ones included."""
    return await lists.page(call, filters, store.LIST, ("",), partial(_shown, call))


async def change(call: Call) -> Answer:
    """Change an operator: only the fields that were sent. Raises `LAST_OWNER` for the role, `EMAIL_TAKEN`."""
    body: OperatorChange = call.body

    async def work(before: OperatorDocument) -> None:
        role = body.role or before.role
        if role != before.role:
            await _refuse_last_owner(call, before, "demoted")
        email = before.email if body.email is None else canonical_email(body.email)
        if not await store.change(call.tx, before.operator_id, body.name or before.name, role, email):
            raise credentials.email_taken()
        if email != before.email:
            # The link may have gone to the person with the earlier address.
            await links.end_all(call.tx, before.operator_id, call.now_ms)
        if role == "owner" != before.role and before.revoked_date is None:
            added = _owner_added(before.operator_id, call.caller.operator_id, call.address)
            call.alert = await _recorded(call.tx, [added], call.now_ms)

    return await _OPERATOR.change(call, "operators.change", work)


async def revoke(call: Call) -> Answer:
    """Revoke an operator: token, sessions and links are refused at once.

    Also oneself, unless no other owner can authenticate. Raises `LAST_OWNER`.
    """

    async def work(operator: OperatorDocument) -> None:
        await _refuse_last_owner(call, operator, "revoked")
        await store.revoke(call.tx, operator.operator_id, call.now_ms)
        await sessions.OPERATORS.end_all(call.tx, operator.operator_id, call.now_ms)
        await links.end_all(call.tx, operator.operator_id, call.now_ms)

    return await _OPERATOR.change(call, "operators.revoke", work)


async def delete(call: Call) -> Answer:
    """Delete an operator without changes in the audit trail.

    Raises `LAST_OWNER`, and `IN_USE`: such an operator can be revoked instead.
    """

    async def work(operator: OperatorDocument) -> None:
        operator_id = operator.operator_id
        await _refuse_last_owner(call, operator, "deleted")
        entries = await uses.ids(call.tx, uses.OPERATOR_CHANGES, operator_id)
        if operator_id == call.caller.operator_id and not entries:
            raise IN_USE.with_reason(
                "is the caller", "the audit trail will name this operator; revoke the token instead"
            )
        in_use.refuse(("audit entries", entries, "these stay, so revoke the operator instead"))
        await sessions.delete_all(call.tx, operator_id)
        await call.tx.run(links.DELETE_ALL, operator_id)
        await call.tx.run(store.DELETE, operator_id)

    return await _OPERATOR.delete(call, "operators.delete", work)


async def create_link(call: Call) -> Answer:
    """Create a link with which an operator sets a password; it replaces earlier ones. Raises `CANNOT_SIGN_IN`."""
    operator = await _OPERATOR.locked(call)
    if operator.revoked_date is not None:
        raise CANNOT_SIGN_IN.with_reason("revoked", "the operator is revoked; add another one instead")
    if operator.email is None:
        raise CANNOT_SIGN_IN.with_reason("no e-mail address", "the operator has no `email`; set one with PATCH first")
    link = await links.create(call.tx, operator.operator_id, call.now_ms)
    await audit.record(call, call.tx, "operators.password_link", operator.operator_id)
    return Answer(201, PasswordLink(link.url(call.settings.operator_url), rfc3339(link.expires_ms)))


async def _require_owner(call: Call) -> None:
    """Lock the valid owners. Raises `FORBIDDEN` if the caller is no longer an owner."""
    if call.caller.operator_id not in await store.lock_owners(call.tx):
        raise FORBIDDEN.with_reason("no owner any more", message="You are no owner any more; an owner may do this.")


async def _lock(tx: Transaction, call: Call) -> OperatorDocument | None:
    """Lock the valid owners and the operator of the path, and return the latter. Raises `FORBIDDEN`."""
    await _require_owner(call)
    return await _document(tx.one(store.LOCK, call.path))


async def _document(reading: Awaitable[Row | None]) -> OperatorDocument | None:
    row = await reading
    return None if row is None else _present(row)


async def _find(call: Call, operator_id: str) -> ShownOperator:
    """Return the operator with what the audit trail does not record. Raises `OPERATOR_NOT_FOUND`."""
    row = await call.tx.one(store.SHOWN, operator_id)
    if row is None:
        raise _unknown()
    return _shown(call, row)


async def _refuse_last_owner(call: Call, operator: OperatorDocument, what: str) -> None:
    """Raise `LAST_OWNER` if no other owner has a token or a password."""
    owners = await store.lock_owners(call.tx)
    if owners.pop(operator.operator_id, None) is not None and not any(owners.values()):
        raise LAST_OWNER.with_reason(f"the last owner with a token or a password would be {what}")


def _events(added: OperatorDocument, author_id: str, address: str) -> list[OperatorEvent]:
    """Return the events of a new operator: an owner, and a token."""
    events = [_owner_added(added.operator_id, author_id, address)] if added.role == "owner" else []
    if added.has_token:
        facts = {"address": address, "operator_id": author_id, "role": added.role}
        message = f"A token was created for a new operator of role {added.role}."
        events.append(OperatorEvent("operator_token_created", added.operator_id, message, None, facts))
    return events


def _owner_added(operator_id: str, author_id: str, address: str) -> OperatorEvent:
    facts = {"address": address, "operator_id": author_id}
    return OperatorEvent("owner_added", operator_id, "An operator has become an owner.", None, facts)


async def _recorded(tx: Transaction, events: list[OperatorEvent], now_ms: int) -> OperatorEvent | None:
    """Record the events, and return the first one, for the log."""
    for event in events:
        await operator_events.record(tx, event, now_ms)
    return events[0] if events else None


def _unknown() -> Refusal:
    return OPERATOR_NOT_FOUND.with_reason("unknown operator")


async def _add(
    tx: Transaction, request: OperatorRequest, base_url: str, now_ms: int
) -> tuple[OperatorDocument, NewOperator]:
    """Add a person, who gets a link, or a program, which gets a token. Raises `EMAIL_TAKEN`."""
    token = credentials.new_token() if request.email is None else None
    operator_id = await credentials.add_operator(tx, token, request.name, request.role, now_ms, email=request.email)
    document = await _document(tx.one(store.ACCOUNT, operator_id))
    assert document is not None, "it was added in this transaction"
    if token is not None:
        return document, NewOperator.of(document, token=token.reveal())
    link = await links.create(tx, operator_id, now_ms)
    url, expires = link.url(base_url), rfc3339(link.expires_ms)
    return document, NewOperator.of(document, password_url=url, password_expires_date=expires)


def _present(row: Row) -> OperatorDocument:
    one = named(_ACCOUNT, row)
    return OperatorDocument.of(one, has_token=bool(one.has_token), has_password=bool(one.has_password))


def _shown(call: Call, row: Row) -> ShownOperator:
    *account, link_ms, used_ms = row
    return ShownOperator.of(
        _present(account),
        link_expires_date=None if link_ms is None or link_ms <= call.now_ms else rfc3339(link_ms),
        last_used_date=time_or_none(used_ms),
    )


PAGES = lists.Pages(lists.Page[ShownOperator], find, lists.paging(("",)), "By id.")
_OPERATOR: Subject[OperatorDocument] = Subject(
    lock=_lock,
    read=lambda tx, operator: _document(tx.one(store.ACCOUNT, operator.operator_id)),
    show=plain(lambda operator: operator),
    id_of=lambda operator: operator.operator_id,
    unknown=_unknown,
    answer=lambda call, operator: _find(call, operator.operator_id),
)
