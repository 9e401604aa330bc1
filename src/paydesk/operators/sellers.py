"""Sellers as operators see them. A password is hashed before the transaction begins: slow on purpose."""

from __future__ import annotations

from typing import Any

from paydesk.clock import rfc3339
from paydesk.oauth import passwords, sellers
from paydesk.oauth.sellers import Seller
from paydesk.operation import Answer, Call
from paydesk.operators import audit, lists
from paydesk.operators.errors import EMAIL_TAKEN
from paydesk.operators.passwords import new_password
from paydesk.operators.schemas import SellerRequest
from paydesk.storage.database import Transaction

LIST = """
SELECT seller_id, email, name, country, currency, suspended_ms, created_ms
FROM sellers WHERE seller_id > $1 ORDER BY seller_id LIMIT $2"""


async def create(call: Call) -> Answer:
    """Register a seller; a password that was made up here is in the answer, this once."""
    audit.require_change(call)
    body: SellerRequest = call.body
    password = body.password or new_password()
    password_hash = await passwords.hash_password(password)

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
            raise EMAIL_TAKEN.because("e-mail address is taken", "'$.email' - must not be another seller's")
        answer = shown(seller)
        await audit.record(call, tx, "sellers.create", str(seller.seller_id), after=answer)
        return answer

    answer = await call.database.write(work)
    return Answer(201, answer if body.password else {**answer, "password": password})


async def find_all(call: Call) -> Answer:
    """List the sellers."""
    return await lists.page(call.tx, call, LIST, (0,), lambda row: shown(Seller(*row)))


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
