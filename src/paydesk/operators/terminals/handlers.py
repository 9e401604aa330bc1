"""The list of terminals, and one of them."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from paydesk.core.errors import ErrorKind, Refusal
from paydesk.core.response import Closed, Time
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.status_labels import Labels
from paydesk.engine.terminals import presence, registry, store
from paydesk.engine.terminals.errors import TERMINAL_NOT_FOUND
from paydesk.engine.terminals.print_actions import store as action_store
from paydesk.engine.terminals.schemas import CurrentOrder, Kind, OperatingMode, Presence, SettableMode, TerminalStatus
from paydesk.engine.terminals.store import Terminal
from paydesk.operators import lists
from paydesk.operators.errors import POS_TAKEN
from paydesk.operators.terminals.fields import MODES
from paydesk.operators.terminals.virtual import VirtualTerminals
from paydesk.operators.words import Shown
from paydesk.platform import roles
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.storage.database import Row, Transaction

_TERMINAL = [field.name for field in fields(Terminal)]
_NAMES = ("s.name", "h.name", "p.name", "p.external_pos_id", "d.app_version")
"""The seller, the store, the point of sale twice, and the version of the terminal's app as its last hello had it."""

_SHOWN = f"""
SELECT {", ".join(f"t.{name}" for name in _TERMINAL)}, {", ".join(_NAMES)}, {presence.COLUMNS}
  FROM terminals t
  JOIN sellers s ON s.seller_id = t.seller_id
  JOIN stores h ON h.seller_id = t.seller_id AND h.store_id = t.store_id
  JOIN pos p ON p.seller_id = t.seller_id AND p.pos_id = t.pos_id
  LEFT JOIN terminal_sessions d
    ON d.seller_id = t.seller_id AND d.terminal_id = t.terminal_id AND d.session = t.session
  {presence.LIVE_ORDER}"""

FIND = f"{_SHOWN} WHERE t.seller_id = $1 AND t.terminal_id = $2"

ANY = -1
"""The value of the filter `live` that selects test terminals and live terminals."""

# $5 is a presence, $6 a mode, $7 `live`, $8 the pattern of a text, $9 `virtual`, $10 a status. Empty texts and `ANY`
# select all.
LIST = f"""{_SHOWN}
WHERE (t.seller_id, t.terminal_id) > ($1, $2) AND t.seller_id <= $4
  AND ($5 = '' OR {presence.PRESENCE} = $5) AND ($6 = '' OR t.operating_mode = $6)
  AND CAST($7 AS bigint) IN ({ANY}, t.live)
  AND ($8 = '' OR LOWER(t.terminal_id) LIKE $8 ESCAPE '!' OR LOWER(h.name) LIKE $8 ESCAPE '!'
       OR LOWER(p.name) LIKE $8 ESCAPE '!' OR LOWER(p.external_pos_id) LIKE $8 ESCAPE '!')
  AND CAST($9 AS bigint) IN ({ANY}, t.is_virtual)
  AND ($10 = '' OR {presence.STATUS} = $10)
ORDER BY t.seller_id, t.terminal_id LIMIT $3"""

_STATUS = Query(
    "status",
    {"enum": list(get_args(TerminalStatus))},
    "Only terminals with a valid token, or without.",
    shown=Shown("Status", help="active, or inactive: without a valid device token."),
)
_PRESENCE = Query(
    "presence",
    {"enum": list(get_args(Presence))},
    "Only terminals that are online, degraded or offline.",
    shown=Shown(
        "Presence", labels={one: one.capitalize() for one in get_args(Presence)}, help="online, degraded or offline."
    ),
)
_MODE = Query(
    "mode",
    {"enum": [*get_args(SettableMode), "UNDEFINED"]},
    "Only terminals in this mode.",
    shown=Shown(
        "Mode", labels={one: one for one in (*MODES, "UNDEFINED")}, help="PDV, STANDALONE, SELF_SERVICE or UNDEFINED."
    ),
)
_VIRTUAL = Query(
    "virtual",
    {"type": "boolean"},
    "Only virtual terminals (`true`) or only others (`false`).",
    shown=Shown("Virtual", option="--virtual/--physical", help="Only virtual terminals, or only others."),
)
_TEXT = Query(
    "q",
    lists.TEXT,
    "Only terminals with this text in their id, or in the name of their store or point of sale.",
    check=lists.text,
    shown=Shown(
        "Id, store or point of sale",
        option="--text",
        help="Only those with this text in their id, or the name of their store or point of sale.",
    ),
)


class RegisteredTerminal(Closed, frozen=True):
    """A terminal; only a virtual one has a script, and only one that this process runs a page."""

    id: str
    operating_mode: OperatingMode
    seller_id: int
    seller_name: str
    store_id: int
    store_name: str
    pos_id: int
    pos_name: str
    external_pos_id: str
    live_mode: bool
    created_date: Time
    kind: Kind
    status: TerminalStatus
    presence: Presence
    script: str | None = None
    tip_percentages: list[int] | None = None
    page_url: str | None = None
    last_seen_date: Time | None = None
    current_order: CurrentOrder | None = None
    current_print: Annotated[str, Meta(description="The id of its open print action.")] | None = None
    app_version: Annotated[str, Meta(description="Of its app, as it reported it at its last start.")] | None = None


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


async def find_all(call: Call, filters: Filters) -> Answer:
    """List the terminals by seller and id."""
    first, last = lists.sellers(filters)
    sought = filters.get("q", "")
    args = (
        filters.get("presence", ""),
        filters.get("mode", ""),
        filters.get("live", ANY),
        lists.containing(sought) if sought else "",
        filters.get("virtual", ANY),
        filters.get("status", ""),
    )
    return await lists.page(call, filters, LIST, (first, ""), partial(_present, call), last, *args)


async def get(call: Call) -> Answer:
    """Get a terminal: as the list shows it. Raises `TERMINAL_NOT_FOUND`."""
    owner = await registry.owner_of(call.tx, call.path)
    row = None if owner is None else await call.tx.one(FIND, owner, call.path)
    if row is None:
        raise unknown()
    return Answer(200, _present(call, row))


def unknown() -> Refusal:
    """Return the refusal of a terminal that no seller has."""
    return TERMINAL_NOT_FOUND.with_reason("no seller has this terminal", message="There is no such terminal.")


def audited(terminal: Terminal) -> dict[str, Any]:
    """Return what the audit trail shows of a terminal: what operators set, as `RegisteredTerminal` names it."""
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


async def document_of(call: Call, tx: Transaction, terminal: Terminal) -> RegisteredTerminal:
    """Return the terminal as the list shows it."""
    row = await tx.one(FIND, terminal.seller_id, terminal.terminal_id)
    assert row is not None, "the terminal's row is locked until the commit"
    return _present(call, row)


def _present(call: Call, row: Row) -> RegisteredTerminal:
    """Return the document of a row for this caller."""
    terminal, virtual = Terminal(*row[: len(_TERMINAL)]), call.shared.objects.get(VirtualTerminals)
    seller, store_name, pos_name, external_pos_id, version = row[len(_TERMINAL) :][: len(_NAMES)]
    page_url = None
    if virtual is not None and virtual.is_running(terminal.terminal_id) and roles.permits(call.caller.role, "change"):
        page_url = virtual.page_url(terminal.terminal_id)
    return RegisteredTerminal.of(
        terminal,
        id=terminal.terminal_id,
        live_mode=bool(terminal.live),
        tip_percentages=_tips(terminal),
        page_url=page_url,
        seller_name=seller,
        store_name=store_name,
        pos_name=pos_name,
        external_pos_id=external_pos_id,
        current_print=terminal.action_id,
        app_version=version,
        **presence.shown(row[len(_TERMINAL) + len(_NAMES) :], call.shared.objects[Labels].of_status),
    )


def _tips(terminal: Terminal) -> list[int] | None:
    return None if terminal.tip_percentages is None else msgspec.json.decode(terminal.tip_percentages, type=list[int])


async def refuse_second_pdv(tx: Transaction, seller_id: int, pos_id: int, terminal_id: str = "", *, live: bool) -> None:
    """Raise `POS_TAKEN` if a terminal at the point of sale other than this one is in mode PDV."""
    others = [one for one in await store.in_pdv(tx, seller_id, pos_id, live=live) if one != terminal_id]
    if others:
        raise POS_TAKEN.with_reason("another terminal in PDV", f"{others[0]} at this point of sale is in mode PDV")


PAGES = lists.Pages(
    lists.Page[RegisteredTerminal],
    find_all,
    (
        _STATUS,
        _PRESENCE,
        _MODE,
        lists.of_live("terminals"),
        _VIRTUAL,
        _TEXT,
        lists.OF_SELLER,
        *lists.paging(lists.BY_SELLER),
    ),
    "By seller and id.",
)
