"""The list of terminals, and the creation of virtual ones (development only)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import msgspec

from paydesk.core.errors import ErrorKind
from paydesk.core.response import Closed, Time
from paydesk.core.secrets import Secret
from paydesk.oauth.consent import sellers
from paydesk.operation import Answer, Call
from paydesk.operators import audit, lists
from paydesk.operators.errors import POS_NOT_FOUND, POS_TAKEN, SELLER_NOT_FOUND
from paydesk.operators.schemas import TerminalRequest
from paydesk.orders import store as orders
from paydesk.storage.database import Row, Transaction
from paydesk.terminals import action_store, presence, store, stores
from paydesk.terminals.schemas import CurrentOrder, Kind, OperatingMode, Presence, SettableMode
from paydesk.terminals.store import Terminal
from paydesk.terminals.stores import Pos

_TERMINAL = [field.name for field in fields(Terminal)]

_SHOWN = f"""
SELECT {", ".join(f"t.{name}" for name in _TERMINAL)}, {presence.COLUMNS}
FROM terminals t {presence.LIVE_ORDER}"""

FIND = f"{_SHOWN} WHERE t.seller_id = $1 AND t.terminal_id = $2"

LIST = f"""{_SHOWN}
WHERE (t.seller_id, t.terminal_id) > ($1, $2) AND t.seller_id <= $4 ORDER BY t.seller_id, t.terminal_id LIMIT $3"""


class TerminalDocument(Closed, frozen=True):
    """A terminal; only a virtual one has a script."""

    id: str
    operating_mode: OperatingMode
    seller_id: int
    store_id: int
    pos_id: int
    live_mode: bool
    created_date: Time
    kind: Kind
    status: Presence
    script: str | None = None
    tip_percentages: list[int] | None = None
    last_seen_date: Time | None = None
    current_order: CurrentOrder | None = None


class NewTerminal(Closed, frozen=True):
    """A new virtual terminal."""

    id: str
    operating_mode: SettableMode
    script: str
    seller_id: int
    store_id: int
    pos_id: int


async def create(call: Call) -> Answer:
    """Add a virtual terminal. It is started after the commit; the response is sent once it is connected."""
    audit.require_change(call)

    async def work(tx: Transaction) -> tuple[NewTerminal, Secret]:
        terminal = await _create(tx, call.body, call.now_ms)
        answer = NewTerminal.of(terminal, id=terminal.terminal_id)
        await audit.record(call, tx, "terminals.create", answer.id, after=answer)
        return answer, await store.mint_token(tx, terminal.seller_id, terminal.terminal_id, call.now_ms)

    answer, token = await call.database.write(work)
    fleet = call.shared.fleet
    assert fleet is not None, "only `paydesk dev` has this endpoint"
    assert answer.script is not None, "a virtual terminal has a script"
    await fleet.add(answer.id, token.reveal(), answer.script)
    return Answer(201, answer)


async def refuse_occupied(tx: Transaction, seller_id: int, terminal_id: str, kind: ErrorKind, what: str) -> None:
    """Raise an error of this kind that names the terminal's live order or open print action, if it has one."""
    order = await orders.live_on_terminal(tx, seller_id, terminal_id)
    action = await action_store.open_on_terminal(tx, seller_id, terminal_id)
    if order is not None:
        holder = f"the live order {order.order_id} ({order.status})"
    elif action is not None:
        holder = f"the print action {action.action_id} ({action.status})"
    else:
        return
    raise kind.with_reason(
        "its slot is taken",
        f"{terminal_id} has {holder}; wait for its end, or cancel it (`paydesk terminals release`), before you {what}",
    )


async def find_all(call: Call) -> Answer:
    """List the terminals by seller and id."""
    first, last = lists.sellers(call.query)
    return await lists.page(call, LIST, (first, ""), partial(_present, call.shared.labels.of_status), last)


def audited(terminal: Terminal) -> dict[str, Any]:
    """Return what the audit trail shows of a terminal: what operators set, as `TerminalDocument` names it."""
    return {
        "id": terminal.terminal_id,
        "operating_mode": terminal.operating_mode,
        "seller_id": terminal.seller_id,
        "store_id": terminal.store_id,
        "pos_id": terminal.pos_id,
        "live_mode": bool(terminal.live),
        "kind": terminal.kind,
        "script": terminal.script,
        "tip_percentages": _tips(terminal),
    }


async def document_of(call: Call, tx: Transaction, terminal: Terminal) -> TerminalDocument:
    """Return the terminal as the list shows it."""
    row = await tx.one(FIND, terminal.seller_id, terminal.terminal_id)
    assert row is not None, "the terminal's row is locked until the commit"
    return _present(call.shared.labels.of_status, row)


def _present(label: Callable[[str, str], str], row: Row) -> TerminalDocument:
    terminal = Terminal(*row[: len(_TERMINAL)])
    seen = presence.shown(row[len(_TERMINAL) :], label)
    return TerminalDocument.of(
        terminal,
        id=terminal.terminal_id,
        live_mode=bool(terminal.live),
        tip_percentages=_tips(terminal),
        **seen,
    )


def _tips(terminal: Terminal) -> list[int] | None:
    return None if terminal.tip_percentages is None else msgspec.json.decode(terminal.tip_percentages, type=list[int])


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
    if terminal is None:
        raise POS_NOT_FOUND.with_reason("the point of sale was deleted meanwhile")
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


PAGES = lists.Pages(lists.Page[TerminalDocument], find_all, (lists.OF_SELLER, *lists.paging(lists.BY_SELLER)))
