"""The screens of the sellers: all of them, and one with its stores, points of sale and last changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from paydesk.console.api import Document, first_of
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, render, screen
from paydesk.core.ids import NUMBER_PATTERN
from paydesk.operators.audit_trail import page as audit_trail
from paydesk.operators.authorizations import page as authorizations
from paydesk.operators.list_pages import ListScreen, address
from paydesk.operators.sellers import operations
from paydesk.operators.stores.fields import name_of
from paydesk.operators.terminals.page import REFRESH_SECONDS
from paydesk.platform.operation import Answer, Query

HERE, SECTION = f"{PATH}/sellers", "sellers"
READ_MAX, READ_ROWS = 2000, 200
"""Maximum rows of each kind (stores, points of sale, terminals) read for a seller, and the rows of each request."""
PLACES_MAX = 60
"""Maximum of stores and points of sale on a page, so that it stays light."""
LIVE_MAX = 20
"""The number of stores, points of sale or terminals above which a page is fetched again when any of them changes."""
START = Query("start", {"type": "string"}, "How many stores and points of sale are on the pages before.")
STORE = Query("store", {"type": "string"}, "The id of a store: without `start`, the page that has it is shown.")
POS = Query("pos", {"type": "string"}, "The id of a point of sale: without `start`, the page that has it is shown.")


Line = tuple[Document, Document | None]
"""A store, and None or one of its points of sale. The line without one is first."""

LIST = ListScreen(
    operations.LIST,
    lead="the merchants whose terminals take the orders",
    empty=(
        "No seller yet. Add one here, or with the command:",
        "paydesk sellers create --email ana@shop.example --name 'Corner shop' --country BRA --currency BRL",
    ),
    adds=(operations.ADD,),
    sheet="sellers.css",
    table="sellers",
    sort=lambda seller: ("suspended_date" in seller, seller["name"].casefold()),
)


@screen
async def show_one(request: ConsoleRequest) -> Answer:
    """Show a seller."""
    seller = await request.api.get("sellers/{}", request.path)
    seller_id, here = seller["user_id"], f"{HERE}/{seller['user_id']}"
    lines, terminals, cut = await _places(request, seller_id)
    start = _start(request, lines)
    end = start + PLACES_MAX
    shown = lines[start:end]
    listed = [pos["pos_id"] for _, pos in shown if pos is not None]
    hints = (
        *_hints("stores", list({store["store_id"]: store for store, _ in shown})),
        *_hints("pos", listed),
        *_hints("terminals", [terminal["id"] for pos_id in listed for terminal in terminals[pos_id]]),
    )
    return render(
        request,
        "sellers/page.html",
        section=SECTION,
        title=seller["name"],
        live_on=" ".join((f"sellers:{seller_id}", *hints, "pairings", "grants", "codes")),
        live_every=REFRESH_SECONDS,
        here=here,
        sellers_path=HERE,
        seller=seller,
        stores=[(store, [pos for _, pos in of if pos]) for store, of in groupby(shown, key=itemgetter(0))],
        is_continued=bool(shown) and shown[0][1] is not None,
        terminals=terminals,
        name_of=name_of,
        cut=cut,
        before=address(here, {START.name: str(start - PLACES_MAX) if start > PLACES_MAX else ""}) if start else "",
        more=address(here, {START.name: str(end)}) if end < len(lines) else "",
        read_max=READ_MAX,
        authorizations=await authorizations.page_of(request, here, seller=seller_id),
        **await audit_trail.newest(request, {str(seller_id): seller["name"]}, subject=seller_id),
        trail=f"{PATH}/audit?subject={seller_id}",
    )


async def _places(
    request: ConsoleRequest, seller_id: int
) -> tuple[Sequence[Line], Mapping[int, Sequence[Document]], Collection[str]]:
    """Return the lines of a seller's stores by name, the terminals by point of sale, and what is read in part only.

    That is `stores`, `pos` or `terminals`, if there are more than `READ_MAX` of them.
    """
    api, of = request.api, {"seller": seller_id, "limit": READ_ROWS}
    cut: dict[str, bool] = {}
    stores, cut["stores"] = await first_of(lambda after: api.get("stores", after=after, **of), READ_MAX)
    points, cut["pos"] = await first_of(lambda after: api.get("pos", after=after, **of), READ_MAX)
    terminals, cut["terminals"] = await first_of(lambda after: api.get("terminals", after=after, **of), READ_MAX)
    at, within = defaultdict[int, list[Document]](list), defaultdict[int, list[Document]](list)
    for terminal in terminals:
        at[terminal["pos_id"]].append(terminal)
    for pos in sorted(points, key=lambda one: name_of(one).casefold()):
        within[pos["store_id"]].append(pos)
    lines = [
        (store, pos)
        for store in sorted(stores, key=lambda one: one["name"].casefold())
        for pos in (None, *within[store["store_id"]])
    ]
    return lines, at, [kind for kind, is_cut in cut.items() if is_cut]


def _hints(noun: str, ids: Sequence[int | str]) -> list[str]:
    """Return the hints that concern these objects: of many, any hint with their noun."""
    return [noun] if len(ids) > LIVE_MAX else [f"{noun}:{one}" for one in ids]


def _start(request: ConsoleRequest, lines: Sequence[Line]) -> int:
    """Return how many lines are on the pages before; 0 for an address with no such page, store or point of sale."""
    text = request.query.get(START.name, "")
    if text:
        start = int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else 0
        return start if start < len(lines) else 0
    store_id, pos_id = (request.query.get(one.name, "") for one in (STORE, POS))
    for number, (store, pos) in enumerate(lines):
        if (str(store["store_id"]) == store_id) if pos is None else (str(pos["pos_id"]) == pos_id):
            return number - number % PLACES_MAX
    return 0


OPERATIONS = (
    LIST.page(),
    page("/sellers/{user_id}", show_one, path_pattern=NUMBER_PATTERN, query=(START, STORE, POS, *authorizations.QUERY)),
)
