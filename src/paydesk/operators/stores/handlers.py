"""Stores and points of sale of sellers; one that is in use can't be deleted.

Their ids are unique per seller. `?seller=` chooses the seller where several have the same id.
"""

from __future__ import annotations

from dataclasses import fields

from paydesk import audit
from paydesk.core.errors import MINIMUM_PROPERTIES, PROPERTY_VALUE, SELLER_NOT_FOUND, Refusal
from paydesk.core.response import Closed, Time
from paydesk.filters import Filters
from paydesk.oauth.consent import sellers
from paydesk.operation import Answer, Call
from paydesk.operators import in_use, lists
from paydesk.operators.errors import EXTERNAL_POS_ID_TAKEN, POS_NOT_FOUND, STORE_NOT_FOUND
from paydesk.operators.stores.fields import PosChange, PosRequest, StoreChange, StoreRequest
from paydesk.terminals import stores
from paydesk.terminals.stores import Pos, Store

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
            raise EXTERNAL_POS_ID_TAKEN.with_reason("external_pos_id is taken", "'$.external_pos_id' - is taken")
        raise STORE_NOT_FOUND.with_reason("not a store of this seller")
    document = PosDocument.of(pos)
    await audit.record(call, call.tx, "pos.create", str(pos.pos_id), after=document)
    return Answer(201, document)


async def change_store(call: Call) -> Answer:
    """Rename a store."""
    before, body = await _locked_store(call), call.body
    assert isinstance(body, StoreChange)
    if not body.model_fields_set:
        raise _nothing_to_change("name")
    name = body.name or before.name
    await stores.change_store(call.tx, before.seller_id, before.store_id, name=name)
    after = await stores.lock_store(call.tx, before.seller_id, before.store_id)
    assert after is not None, "the row is locked until the commit"
    old, new = StoreDocument.of(before), StoreDocument.of(after)
    if old != new:
        await audit.record(call, call.tx, "stores.change", str(after.store_id), before=old, after=new)
    return Answer(200, new)


async def delete_store(call: Call) -> Answer:
    """Delete a store without points of sale."""
    store = await _locked_store(call)
    used_by = await stores.points_of_sale_in(call.tx, store.seller_id, store.store_id)
    in_use.refuse(("points of sale", used_by, "delete these first"))
    await stores.delete_store(call.tx, store.seller_id, store.store_id)
    await audit.record(call, call.tx, "stores.delete", str(store.store_id), before=StoreDocument.of(store))
    return Answer(204)


async def change_pos(call: Call) -> Answer:
    """Change a point of sale: its name or its external id."""
    before, body = await _locked_pos(call), call.body
    assert isinstance(body, PosChange)
    if not body.model_fields_set:
        raise _nothing_to_change("external_pos_id, name")
    name, external_id = body.name or before.name, body.external_pos_id or before.external_pos_id
    if not await stores.change_pos(call.tx, before, name=name, external_pos_id=external_id):
        raise EXTERNAL_POS_ID_TAKEN.with_reason("external_pos_id is taken", "'$.external_pos_id' - is taken")
    after = await stores.find_pos(call.tx, before.seller_id, before.pos_id)
    assert after is not None, "the row is locked until the commit"
    old, new = PosDocument.of(before), PosDocument.of(after)
    if old != new:
        await audit.record(call, call.tx, "pos.change", str(after.pos_id), before=old, after=new)
    return Answer(200, new)


async def delete_pos(call: Call) -> Answer:
    """Delete a point of sale without terminals."""
    pos = await _locked_pos(call)
    used_by = await stores.terminals_on(call.tx, pos.seller_id, pos.pos_id)
    in_use.refuse(("terminals", used_by, "move or delete these first"))
    await stores.delete_pos(call.tx, pos.seller_id, pos.pos_id)
    await audit.record(call, call.tx, "pos.delete", str(pos.pos_id), before=PosDocument.of(pos))
    return Answer(204)


async def _locked_store(call: Call) -> Store:
    """Lock and return the store of the path. Raises `STORE_NOT_FOUND`."""
    store_id = lists.id_in_path(call.path)
    owner = await _owner(call, SELLERS_OF_STORE, store_id)
    store = None if owner is None else await stores.lock_store(call.tx, owner, store_id)
    if store is None:
        raise STORE_NOT_FOUND.with_reason("no seller has this store")
    return store


async def _locked_pos(call: Call) -> Pos:
    """Lock and return the point of sale of the path. Raises `POS_NOT_FOUND`."""
    pos_id = lists.id_in_path(call.path)
    owner = await _owner(call, SELLERS_OF_POS, pos_id)
    pos = None if owner is None else await stores.lock_pos(call.tx, owner, pos_id)
    if pos is None:
        raise POS_NOT_FOUND.with_reason("no seller has this point of sale")
    return pos


async def _owner(call: Call, sql: str, number: int) -> int | None:
    """Return the one seller with a row of this id, or None. Raises `PROPERTY_VALUE` if several have one."""
    filters = Filters((lists.OF_SELLER,), call.query)
    filters.refuse_faults()
    rows = await call.tx.all(sql, *lists.sellers(filters), number)
    if len(rows) > 1:
        raise PROPERTY_VALUE.with_reason("several sellers", "'seller' - is needed: several sellers have this id")
    return int(rows[0][0]) if rows else None


def _nothing_to_change(names: str) -> Refusal:
    return MINIMUM_PROPERTIES.with_reason("nothing to change", f"'$' - must have one of {names}")


STORE_PAGES = lists.pages(StoreDocument, STORES, lambda row: StoreDocument.of(Store(*row)), (0, 0))
POS_PAGES = lists.pages(PosDocument, POINTS_OF_SALE, lambda row: PosDocument.of(Pos(*row)), (0, 0))
