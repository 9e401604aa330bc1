"""Stores and points of sale of sellers."""

from __future__ import annotations

from dataclasses import fields

from paydesk import audit
from paydesk.core.errors import SELLER_NOT_FOUND
from paydesk.core.response import Closed, Time
from paydesk.oauth.consent import sellers
from paydesk.operation import Answer, Call
from paydesk.operators.errors import EXTERNAL_POS_ID_TAKEN, STORE_NOT_FOUND
from paydesk.operators.lists import pages
from paydesk.operators.terminal_schemas import PosRequest, StoreRequest
from paydesk.terminals import stores
from paydesk.terminals.stores import Pos, Store

STORES = f"""
SELECT {", ".join(field.name for field in fields(Store))} FROM stores
WHERE (seller_id, store_id) > ($1, $2) AND seller_id <= $4 ORDER BY seller_id, store_id LIMIT $3"""

POINTS_OF_SALE = f"""
SELECT {", ".join(field.name for field in fields(Pos))} FROM pos
WHERE (seller_id, pos_id) > ($1, $2) AND seller_id <= $4 ORDER BY seller_id, pos_id LIMIT $3"""


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
    """Add a store to a seller."""
    body: StoreRequest = call.body
    if await sellers.lock_shared(call.tx, body.seller_id) is None:
        raise SELLER_NOT_FOUND.with_reason("unknown seller")
    document = StoreDocument.of(await stores.create_store(call.tx, body.seller_id, body.name, call.now_ms))
    await audit.record(call, call.tx, "stores.create", str(document.store_id), after=document)
    return Answer(201, document)


async def create_pos(call: Call) -> Answer:
    """Add a point of sale to a store."""
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


STORE_PAGES = pages(StoreDocument, STORES, lambda row: StoreDocument.of(Store(*row)), (0, 0))
POS_PAGES = pages(PosDocument, POINTS_OF_SALE, lambda row: PosDocument.of(Pos(*row)), (0, 0))
