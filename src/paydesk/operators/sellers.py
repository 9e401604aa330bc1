"""Sellers as operators see them. A password is hashed before the transaction begins: slow on purpose."""

from __future__ import annotations

from typing import Any

from paydesk.core.clock import rfc3339
from paydesk.core.errors import MINIMUM_PROPERTIES, Refusal
from paydesk.oauth import authorizations
from paydesk.oauth.consent import passwords, sellers, sessions, withdrawal
from paydesk.oauth.consent.sellers import Seller
from paydesk.operation import Answer, Call
from paydesk.operators import audit, lists
from paydesk.operators.errors import EMAIL_TAKEN, SELLER_NOT_FOUND
from paydesk.operators.passwords import new_password, refuse_common, refuse_email
from paydesk.operators.schemas import PasswordRequest, SellerChange, SellerRequest
from paydesk.storage.database import Transaction

LIST = """
SELECT seller_id, email, name, country, currency, suspended_ms, created_ms
FROM sellers WHERE seller_id > $1 ORDER BY seller_id LIMIT $2"""


async def create(call: Call) -> Answer:
    """Register a seller; a password that was made up here is in the answer, this once."""
    audit.require_change(call)
    body: SellerRequest = call.body
    if body.password:
        refuse_email(body.password, body.email)
    password, password_hash = await _hashed(body.password)

    async def work(tx: Transaction) -> dict[str, Any]:
        seller = await sellers.create(
            tx,
            email=body.email,
            name=body.name,
            country=body.country,
            currency=body.currency,
            password_hash=password_hash,
            now_ms=call.now_ms,
        )
        if seller is None:
            raise _taken()
        answer = shown(seller)
        await audit.record(call, tx, "sellers.create", str(seller.seller_id), after=answer)
        return answer

    answer = await call.database.write(work)
    return Answer(201, answer if body.password else {**answer, "password": password})


async def find_all(call: Call) -> Answer:
    """List the sellers."""
    return await lists.page(call.tx, call, LIST, (0,), lambda row: shown(Seller(*row)))


async def get(call: Call) -> Answer:
    """One seller."""
    seller = await sellers.get(call.tx, lists.id_in_path(call.path))
    if seller is None:
        raise SELLER_NOT_FOUND.with_reason("unknown seller")
    return Answer(200, shown(seller))


async def change(call: Call) -> Answer:
    """Change what was sent, and nothing else: two who change different things at once both get theirs."""
    before, body = await _held(call, call.tx), call.body
    assert isinstance(body, SellerChange)
    if not body.model_fields_set:
        raise MINIMUM_PROPERTIES.with_reason("nothing to change", "'$' - must have one of email, name")
    email, name = body.email or before.email, body.name or before.name
    if not await sellers.change(call.tx, before.seller_id, email=email, name=name):
        raise _taken()
    return await _changed(call, "sellers.change", before)


async def set_password(call: Call) -> Answer:
    """Set another password and end the seller's sessions; with `withdraw_all` their authorizations too.

    A password that was made here is in the answer, this once.
    """
    audit.require_change(call)
    body: PasswordRequest = call.body
    password, password_hash = await _hashed(body.password)

    async def work(tx: Transaction) -> dict[str, Any]:
        seller = await _held(call, tx)
        if body.password:
            refuse_email(body.password, seller.email)
        await sellers.change_password(tx, seller.seller_id, password_hash)
        await sessions.end_all(tx, seller.seller_id, call.now_ms)
        withdrawn = await _withdraw_all(call, tx, seller) if body.withdraw_all else {}
        await audit.record(call, tx, "sellers.password", str(seller.seller_id), after=withdrawn or None)
        left = await authorizations.count(tx, seller.seller_id)
        return {**shown(seller), "authorizations": left, **{name: len(ids) for name, ids in withdrawn.items()}}

    answer = await call.database.write(work)
    return Answer(200, answer if body.password else {**answer, "password": password})


async def _withdraw_all(call: Call, tx: Transaction, seller: Seller) -> dict[str, list[str]]:
    """Withdraw every authorization of the seller; return their ids, as operators know them."""
    ended = await withdrawal.withdraw_all(tx, seller_id=seller.seller_id, now_ms=call.now_ms)
    return {"withdrawn": [f"{authorization_id}-{seller.seller_id}" for authorization_id in ended]}


async def _hashed(given: str | None) -> tuple[str, str]:
    """Return the given password, or a new one, with its hash. Raises `PROPERTY_VALUE` where it is a common one."""
    if given:
        await refuse_common(given)
    password = given or new_password()
    return password, await passwords.hash_password(password)


async def suspend(call: Call) -> Answer:
    """Nobody acts for them any more: no new tokens, those that there are stop working, and nobody is signed in."""
    before = await _held(call, call.tx)
    await sellers.suspend(call.tx, before.seller_id, call.now_ms)
    await sessions.end_all(call.tx, before.seller_id, call.now_ms)
    return await _changed(call, "sellers.suspend", before)


async def resume(call: Call) -> Answer:
    """Applications may act for them again, with the tokens they had."""
    before = await _held(call, call.tx)
    await sellers.resume(call.tx, before.seller_id)
    return await _changed(call, "sellers.resume", before)


def shown(seller: Seller) -> dict[str, Any]:
    """The seller without the password."""
    document = {
        "user_id": seller.seller_id,
        "email": seller.email,
        "name": seller.name,
        "country": seller.country,
        "currency": seller.currency,
        "created_date": rfc3339(seller.created_ms),
    }
    return document if seller.suspended_ms is None else {**document, "suspended_date": rfc3339(seller.suspended_ms)}


async def _held(call: Call, tx: Transaction) -> Seller:
    """The seller of the path, for one who may change them and whom nobody else overtakes."""
    audit.require_change(call)
    seller = await sellers.lock(tx, lists.id_in_path(call.path))
    if seller is None:
        raise SELLER_NOT_FOUND.with_reason("unknown seller")
    return seller


async def _changed(call: Call, action: str, before: Seller) -> Answer:
    """The seller as they are by now; what changed is written down, and where nothing did, nothing."""
    after = await sellers.get(call.tx, before.seller_id)
    assert after is not None, "they are held until the commit"
    if after != before:
        await audit.record(call, call.tx, action, str(after.seller_id), before=shown(before), after=shown(after))
    return Answer(200, shown(after))


def _taken() -> Refusal:
    return EMAIL_TAKEN.with_reason("e-mail address is taken", "'$.email' - must not be another seller's")
