"""The list of terminals, and the creation of virtual ones (development only)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from paydesk.core.clock import rfc3339
from paydesk.core.secrets import Secret
from paydesk.oauth.consent import sellers
from paydesk.operation import Answer, Call
from paydesk.operators import audit, lists
from paydesk.operators.errors import POS_NOT_FOUND, POS_TAKEN, SELLER_NOT_FOUND
from paydesk.operators.schemas import TerminalRequest
from paydesk.storage.database import Transaction
from paydesk.terminals import store, stores
from paydesk.terminals.store import Terminal
from paydesk.terminals.stores import Pos

LIST = f"""
SELECT {", ".join(field.name for field in fields(Terminal))} FROM terminals
WHERE (seller_id, terminal_id) > ($1, $2) AND seller_id <= $4 ORDER BY seller_id, terminal_id LIMIT $3"""


async def create(call: Call) -> Answer:
    """Add a virtual terminal. It is started after the commit; the response is sent once it is connected."""
    audit.require_change(call)

    async def work(tx: Transaction) -> tuple[Terminal, Secret]:
        terminal = await _create(tx, call.body, call.now_ms)
        await audit.record(call, tx, "terminals.create", terminal.terminal_id, after=_present_new(terminal))
        return terminal, await store.mint_token(tx, terminal.seller_id, terminal.terminal_id, call.now_ms)

    terminal, token = await call.database.write(work)
    fleet, script = call.shared.fleet, terminal.script
    assert fleet is not None, "only `paydesk dev` has this endpoint"
    assert script is not None, "a virtual terminal has a script"
    await fleet.add(terminal.terminal_id, token.reveal(), script)
    return Answer(201, _present_new(terminal))


async def find_all(call: Call) -> Answer:
    """List the terminals."""
    first, last = lists.sellers(call.query)
    return await lists.page(call.tx, call, LIST, (first, ""), lambda row: _present(Terminal(*row)), last)


def _present(terminal: Terminal) -> dict[str, Any]:
    document = {
        "id": terminal.terminal_id,
        "operating_mode": terminal.operating_mode,
        "seller_id": terminal.seller_id,
        "store_id": terminal.store_id,
        "pos_id": terminal.pos_id,
        "live_mode": bool(terminal.live),
        "created_date": rfc3339(terminal.created_ms),
    }
    if terminal.script is not None:
        document["script"] = terminal.script
    if terminal.last_seen_ms is not None:
        document["last_seen_date"] = rfc3339(terminal.last_seen_ms)
    return document


async def _create(tx: Transaction, body: TerminalRequest, now_ms: int) -> Terminal:
    terminal_id, seller_id = store.virtual_id(), await _seller(tx, body)
    pos = await _pos(tx, seller_id, body, terminal_id, now_ms)
    if body.operating_mode == "PDV" and (other := await store.in_pdv(tx, seller_id, pos.pos_id, live=False)):
        raise POS_TAKEN.with_reason("another terminal in PDV", f"{other[0]} at this point of sale is in mode PDV")
    terminal = await store.create(
        tx,
        seller_id=seller_id,
        pos_id=pos.pos_id,
        terminal_id=terminal_id,
        live=False,
        now_ms=now_ms,
        is_virtual=True,
        operating_mode=body.operating_mode,
        script=body.script,
    )
    assert terminal is not None, "the id is new, and the point of sale was found in this transaction"
    return terminal


async def _seller(tx: Transaction, body: TerminalRequest) -> int:
    """Return the seller of the request, or the first one. Raises `SELLER_NOT_FOUND`."""
    if body.seller_id is None:
        existing = await sellers.find_all(tx)
        if existing:
            return existing[0].seller_id
    elif await sellers.get(tx, body.seller_id) is not None:
        return body.seller_id
    raise SELLER_NOT_FOUND.with_reason("unknown seller")


async def _pos(tx: Transaction, seller_id: int, body: TerminalRequest, terminal_id: str, now_ms: int) -> Pos:
    """Return the point of sale of the request, or a new one in the seller's first store, created if needed."""
    if body.pos_id is not None:
        pos = await stores.find_pos(tx, seller_id, body.pos_id)
        if pos is None:
            raise POS_NOT_FOUND.with_reason("not a point of sale of this seller")
        return pos
    of_seller = await stores.stores(tx, seller_id) or [await stores.create_store(tx, seller_id, "Store", now_ms)]
    name = terminal_id.rpartition("_")[2]
    pos = await stores.create_pos(tx, seller_id, of_seller[0].store_id, f"VIRTUAL-{name}", f"Virtual {name}", now_ms)
    assert pos is not None, "its name contains the new terminal's id"
    return pos


def _present_new(terminal: Terminal) -> dict[str, Any]:
    return {
        "id": terminal.terminal_id,
        "operating_mode": terminal.operating_mode,
        "script": terminal.script,
        "seller_id": terminal.seller_id,
        "store_id": terminal.store_id,
        "pos_id": terminal.pos_id,
    }
