"""Stores and points of sale of sellers; one that is in use can't be deleted.

Their ids are unique per seller. `?seller=` chooses the seller where several have the same id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import fields

from paydesk.core.errors import PROPERTY_VALUE, SELLER_NOT_FOUND, Refusal
from paydesk.core.response import Closed, Time
from paydesk.engine.sellers import store as sellers
from paydesk.engine.terminals import stores
from paydesk.engine.terminals.stores import Pos, Store
from paydesk.operators import audit, lists
from paydesk.operators.deletion import in_use
from paydesk.operators.errors import EXTERNAL_POS_ID_TAKEN, POS_NOT_FOUND, STORE_NOT_FOUND
from paydesk.operators.lists import Item
from paydesk.operators.stores.fields import PosChange, PosRequest, StoreChange, StoreRequest
from paydesk.operators.subject import Subject, plain
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction

STORES = f"""
SELECT {", ".join(field.name for field in fields(Store))} FROM stores
WHERE (seller_id, store_id) > ($1, $2) AND seller_id <= $4 ORDER BY seller_id, store_id LIMIT $3"""

POINTS_OF_SALE = f"""
SELECT {", ".join(field.name for field in fields(Pos))} FROM pos
WHERE (seller_id, pos_id) > ($1, $2) AND seller_id <= $4 ORDER BY seller_id, pos_id LIMIT $3"""

SELLERS_OF_STORE = "SELECT seller_id FROM stores WHERE seller_id BETWEEN $1 AND $2 AND store_id = $3 LIMIT 2"
SELLERS_OF_POS = "SELECT seller_id FROM pos WHERE seller_id BETWEEN $1 AND $2 AND pos_id = $3 LIMIT 2"


class StoreDocument(Closed, frozen=True):
    """A store of a seller."""

    store_id: int
    seller_id: int
    name: str
    created_date: Time


class PosDocument(Closed, frozen=True):
    """A point of sale in a store."""

    pos_id: int
    seller_id: int
    store_id: int
    external_pos_id: str
    name: str
    created_date: Time


async def create_store(call: Call) -> Answer:
    """Add a store."""
    body: StoreRequest = call.body
    if await sellers.lock_shared(call.tx, body.seller_id) is None:
        raise SELLER_NOT_FOUND.with_reason("unknown seller")
    document = StoreDocument.of(await stores.create_store(call.tx, body.seller_id, body.name, call.now_ms))
    await audit.record(call, call.tx, "stores.create", str(document.store_id), after=document)
    return Answer(201, document)


async def create_pos(call: Call) -> Answer:
    """Add a point of sale."""
    body: PosRequest = call.body
    pos = await stores.create_pos(
        call.tx, body.seller_id, body.store_id, body.external_pos_id, body.name or body.external_pos_id, call.now_ms
    )
    if pos is None:
        of_seller = await stores.stores(call.tx, body.seller_id)
        if any(one.store_id == body.store_id for one in of_seller):
            raise _taken()
        raise STORE_NOT_FOUND.with_reason("not a store of this seller")
    document = PosDocument.of(pos)
    await audit.record(call, call.tx, "pos.create", str(pos.pos_id), after=document)
    return Answer(201, document)


async def change_store(call: Call) -> Answer:
    """Rename a store."""
    body: StoreChange = call.body
    return await _STORE.change(
        call,
        "stores.change",
        lambda store: stores.change_store(call.tx, store.seller_id, store.store_id, name=body.name or store.name),
    )


async def delete_store(call: Call) -> Answer:
    """Delete a store without points of sale."""

    async def work(store: Store) -> None:
        used_by = await stores.points_of_sale_in(call.tx, store.seller_id, store.store_id)
        in_use.refuse(("points of sale", used_by, "delete these first"))
        await stores.delete_store(call.tx, store.seller_id, store.store_id)

    return await _STORE.delete(call, "stores.delete", work)


async def change_pos(call: Call) -> Answer:
    """Change a point of sale: its name or its external id."""
    body: PosChange = call.body

    async def work(pos: Pos) -> None:
        name, external_id = body.name or pos.name, body.external_pos_id or pos.external_pos_id
        if not await stores.change_pos(call.tx, pos, name=name, external_pos_id=external_id):
            raise _taken()

    return await _POS.change(call, "pos.change", work)


async def delete_pos(call: Call) -> Answer:
    """Delete a point of sale without terminals."""

    async def work(pos: Pos) -> None:
        used_by = await stores.terminals_on(call.tx, pos.seller_id, pos.pos_id)
        in_use.refuse(("terminals", used_by, "move or delete these first"))
        await stores.delete_pos(call.tx, pos.seller_id, pos.pos_id)

    return await _POS.delete(call, "pos.delete", work)


async def _locked(
    call: Call, sellers_of: str, lock: Callable[[Transaction, int, int], Awaitable[Item | None]]
) -> Item | None:
    """Lock and return what the path names, of the one seller who has it; None if no seller has it.

    Raises `PROPERTY_VALUE` if several have one with this id.
    """
    filters, number = Filters((lists.OF_SELLER,), call.query), lists.id_in_path(call.path)
    filters.refuse_faults()
    rows = await call.tx.all(sellers_of, *lists.sellers(filters), number)
    if len(rows) > 1:
        raise PROPERTY_VALUE.with_reason("several sellers", "'seller' - is needed: several sellers have this id")
    return await lock(call.tx, rows[0][0], number) if rows else None


def _taken() -> Refusal:
    return EXTERNAL_POS_ID_TAKEN.with_reason("external_pos_id is taken", "'$.external_pos_id' - is taken")


STORE_PAGES = lists.pages(StoreDocument, STORES, lambda row: StoreDocument.of(Store(*row)), (0, 0))
POS_PAGES = lists.pages(PosDocument, POINTS_OF_SALE, lambda row: PosDocument.of(Pos(*row)), (0, 0))
_STORE: Subject[Store] = Subject(
    lock=lambda _, call: _locked(call, SELLERS_OF_STORE, stores.lock_store),
    read=lambda tx, store: stores.lock_store(tx, store.seller_id, store.store_id),
    show=plain(StoreDocument.of),
    id_of=lambda store: store.store_id,
    unknown=lambda: STORE_NOT_FOUND.with_reason("no seller has this store"),
)
_POS: Subject[Pos] = Subject(
    lock=lambda _, call: _locked(call, SELLERS_OF_POS, stores.lock_pos),
    read=lambda tx, pos: stores.find_pos(tx, pos.seller_id, pos.pos_id),
    show=plain(PosDocument.of),
    id_of=lambda pos: pos.pos_id,
    unknown=lambda: POS_NOT_FOUND.with_reason("no seller has this point of sale"),
)
