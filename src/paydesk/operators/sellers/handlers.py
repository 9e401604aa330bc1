"""Sellers. Password hashing is slow by design, so it runs before the transaction begins."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from paydesk.core.errors import SELLER_NOT_FOUND, Refusal
from paydesk.core.response import Closed, Time
from paydesk.engine.oauth import authorizations
from paydesk.engine.sellers import passwords
from paydesk.engine.sellers import store as sellers
from paydesk.engine.sellers.sessions import SELLERS
from paydesk.engine.sellers.store import Seller
from paydesk.operators import audit, lists
from paydesk.operators.accounts.credentials import new_password, refuse_common_password, refuse_own_words
from paydesk.operators.deletion import in_use, uses
from paydesk.operators.errors import EMAIL_TAKEN
from paydesk.operators.sellers.fields import PasswordRequest, SellerChange, SellerRequest
from paydesk.operators.subject import Subject, plain
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction

LIST = """
SELECT seller_id, email, name, country, currency, suspended_ms, created_ms
FROM sellers WHERE seller_id > $1 ORDER BY seller_id LIMIT $2"""


class _Seller(Closed, frozen=True):
    user_id: int
    email: str
    name: str
    country: str
    currency: str
    created_date: Time


class SellerDocument(_Seller, frozen=True):
    """A seller."""

    suspended_date: Time | None = None


class NewSeller(_Seller, frozen=True):
    """A new seller with the password if it was generated."""

    password: str | None = None


class NewPassword(SellerDocument, frozen=True, kw_only=True):
    """A seller whose password was replaced, with the password if it was generated."""

    authorizations: Annotated[
        int, Meta(description="The number of authorizations of the seller that are not withdrawn.")
    ]
    withdrawn: Annotated[int, Meta(description="The number of authorizations that `withdraw_all` withdrew.")] | None = (
        None
    )
    password: str | None = None


async def create(call: Call) -> Answer:
    """Register a seller; a generated password is in the response."""
    body: SellerRequest = call.body
    if body.password:
        refuse_own_words(body.password, body.email)
    password, password_hash = await _hashed(body.password)

    async def work(tx: Transaction) -> NewSeller:
        about = body.model_dump(exclude={"password"})
        seller = await sellers.create(tx, **about, password_hash=password_hash, now_ms=call.now_ms)
        if seller is None:
            raise _email_taken()
        document = _present(seller)
        await audit.record(call, tx, "sellers.create", str(seller.seller_id), after=document)
        return NewSeller.of(document, password=None if body.password else password)

    return Answer(201, await call.database.write(work))


async def get(call: Call) -> Answer:
    """Get a seller."""
    seller = await sellers.get(call.tx, lists.id_in_path(call.path))
    if seller is None:
        raise _unknown()
    return Answer(200, _present(seller))


async def change(call: Call) -> Answer:
    """Change a seller: only the fields that were sent, so that concurrent changes of different ones take effect."""
    body: SellerChange = call.body

    async def work(seller: Seller) -> None:
        email, name = body.email or seller.email, body.name or seller.name
        if not await sellers.change(call.tx, seller.seller_id, email=email, name=name):
            raise _email_taken()

    return await _SELLER.change(call, "sellers.change", work)


async def set_password(call: Call) -> Answer:
    """Replace a seller's password; a generated one is in the response.

    The sessions of the seller end; with `withdraw_all` all authorizations are withdrawn too.
    """
    body: PasswordRequest = call.body
    password, password_hash = await _hashed(body.password)

    async def work(tx: Transaction) -> NewPassword:
        seller = await _SELLER.locked(call, tx)
        if body.password:
            refuse_own_words(body.password, seller.email)
        await SELLERS.set_password(tx, seller.seller_id, password_hash, call.now_ms)
        ended: list[str] | None = None
        if body.withdraw_all:
            ended = await authorizations.withdraw_all(tx, seller_id=seller.seller_id, now_ms=call.now_ms)
        # With their ids as the operator interface writes them.
        after = None if ended is None else {"withdrawn": [f"{one}-{seller.seller_id}" for one in ended]}
        await audit.record(call, tx, "sellers.password", str(seller.seller_id), after=after)
        return NewPassword.of(
            _present(seller),
            authorizations=await authorizations.count(tx, seller.seller_id),
            withdrawn=None if ended is None else len(ended),
            password=None if body.password else password,
        )

    return Answer(200, await call.database.write(work))


async def delete(call: Call) -> Answer:
    """Delete a seller that nothing uses. Raises `IN_USE` with what does: stores, terminals, orders, authorizations."""
    tx = call.tx

    async def work(seller: Seller) -> None:
        seller_id = seller.seller_id
        await uses.end_sessions(tx, seller_id)
        in_use.refuse(
            ("terminals", await uses.ids(tx, uses.SELLER_TERMINALS, seller_id), "delete these first"),
            ("stores", await uses.ids(tx, uses.SELLER_STORES, seller_id), "delete these first"),
            ("grants", await uses.ids(tx, uses.SELLER_AUTHORIZATIONS, seller_id), "withdraw these first"),
            (
                "pending notifications",
                await uses.ids(tx, uses.SELLER_DELIVERIES, seller_id),
                "wait until these are delivered, or suspend the seller instead",
            ),
            ("orders", await uses.ids(tx, uses.SELLER_ORDERS, seller_id), "these stay, so suspend the seller instead"),
        )
        await uses.delete_belongings(tx, seller_id)
        await sellers.delete(tx, seller_id)

    return await _SELLER.delete(call, "sellers.delete", work)


async def suspend(call: Call) -> Answer:
    """Suspend a seller: applications get no tokens, existing tokens are refused, and all sessions end."""

    async def work(seller: Seller) -> None:
        await sellers.suspend(call.tx, seller.seller_id, call.now_ms)
        await SELLERS.end_all(call.tx, seller.seller_id, call.now_ms)

    return await _SELLER.change(call, "sellers.suspend", work)


async def resume(call: Call) -> Answer:
    """Resume a suspended seller: the tokens that applications had are accepted again."""
    return await _SELLER.change(call, "sellers.resume", lambda seller: sellers.resume(call.tx, seller.seller_id))


async def _hashed(given: str | None) -> tuple[str, str]:
    """Return the given or a generated password with its hash. Raises `PROPERTY_VALUE` for a common one."""
    if given:
        await refuse_common_password(given)
    password = given or new_password()
    return password, await passwords.hash_password(password)


def _present(seller: Seller) -> SellerDocument:
    return SellerDocument.of(seller, user_id=seller.seller_id)


def _unknown() -> Refusal:
    return SELLER_NOT_FOUND.with_reason("unknown seller")


def _email_taken() -> Refusal:
    return EMAIL_TAKEN.with_reason("e-mail address is taken", "'$.email' - must not be another seller's")


PAGES = lists.pages(SellerDocument, LIST, lambda row: _present(Seller(*row)), (0,))
_SELLER: Subject[Seller] = Subject(
    lock=lambda tx, call: sellers.lock(tx, lists.id_in_path(call.path)),
    read=lambda tx, seller: sellers.get(tx, seller.seller_id),
    show=plain(_present),
    id_of=lambda seller: seller.seller_id,
    unknown=_unknown,
)
