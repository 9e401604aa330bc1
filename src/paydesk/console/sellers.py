"""The screens of the sellers: all of them, and one with its stores, points of sale and last changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from paydesk.console import audit_trail, authorizations
from paydesk.console.api import Document, first_of
from paydesk.console.lists import ListScreen
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, render, screen
from paydesk.console.terminal_looks import TerminalRow, row_of
from paydesk.console.terminals import REFRESH_SECONDS
from paydesk.core.ids import NUMBER_PATTERN
from paydesk.operation import Answer, Query
from paydesk.operators.sellers import operations
from paydesk.operators.stores.fields import name_of
from paydesk.web.statuses import Look

HERE, SECTION = f"{PATH}/sellers", "sellers"
READ_MAX, READ_ROWS = 2000, 200
"""So many stores, points of sale and terminals of a seller are read each at most, and so many with one request."""
PLACES_MAX = 60
"""So many stores and points of sale are on one page, so that it stays light."""
LIVE_MAX = 20
"""Of more stores, points of sale or terminals than this, a page is fetched again when any one changes."""
START = Query("start", {"type": "string"}, "How many stores and points of sale are on the pages before.")
STORE = Query("store", {"type": "string"}, "The id of a store: without `start`, the page that has it is shown.")
POS = Query("pos", {"type": "string"}, "The id of a point of sale: without `start`, the page that has it is shown.")


@dataclass(frozen=True, slots=True)
class SellerRow:
    """One seller."""

    id: int
    name: str
    email: str
    country: str
    currency: str
    look: Look
    suspended_date: str | None
    created_date: str
    href: str


@dataclass(frozen=True, slots=True)
class PosRow:
    """A point of sale with the terminals at it. `href` is the path that its forms begin with."""

    id: int
    name: str
    external_id: str
    terminals: Sequence[TerminalRow]
    href: str


@dataclass(frozen=True, slots=True)
class StoreRow:
    """A store. `href` is the path that its forms begin with."""

    id: int
    name: str
    points: Sequence[PosRow]
    is_continued: bool
    """Whether the first of its points of sale are on the page before."""
    href: str


@dataclass(frozen=True, slots=True)
class Places:
    """A page of the stores of a seller. `before` and `more` are the addresses of its neighbors, or empty."""

    stores: Sequence[StoreRow]
    before: str
    more: str
    cut: Collection[str]
    """Of `stores`, `pos` and `terminals`: those of which there are more than `READ_MAX`, and only the first shown."""

    @property
    def live_on(self) -> list[str]:
        """The hints that concern the stores, points of sale and terminals of the page."""
        points = [pos for store in self.stores for pos in store.points]
        terminals = [terminal for pos in points for terminal in pos.terminals]
        return [
            *_hints("stores", [store.id for store in self.stores]),
            *_hints("pos", [pos.id for pos in points]),
            *_hints("terminals", [terminal.id for terminal in terminals]),
        ]


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
    row = seller_row(await request.api.get("sellers/{}", request.path))
    places = await _places(request, row)
    return render(
        request,
        "seller.html",
        section=SECTION,
        title=row.name,
        live_on=" ".join((f"sellers:{row.id}", *places.live_on, "pairings", "grants", "codes")),
        live_every=REFRESH_SECONDS,
        here=row.href,
        sellers_path=HERE,
        row=row,
        places=places,
        read_max=READ_MAX,
        authorizations=await authorizations.page_of(request, row.href, seller=row.id),
        **await audit_trail.newest(request, {str(row.id): row.name}, subject=row.id),
        trail=f"{PATH}/audit?subject={row.id}",
    )


def seller_row(seller: Document) -> SellerRow:
    """Return the row of a seller."""
    is_suspended = "suspended_date" in seller
    return SellerRow(
        id=seller["user_id"],
        name=seller["name"],
        email=seller["email"],
        country=seller["country"],
        currency=seller["currency"],
        look=Look("off", "dash", "Suspended") if is_suspended else Look("ok", "check", "Active"),
        suspended_date=seller.get("suspended_date"),
        created_date=seller["created_date"],
        href=f"{HERE}/{seller['user_id']}",
    )


async def _places(request: ConsoleRequest, seller: SellerRow) -> Places:
    """Return the page of stores that the address names."""
    api, of = request.api, {"seller": seller.id, "limit": READ_ROWS}
    cut: dict[str, bool] = {}
    stores, cut["stores"] = await first_of(lambda after: api.get("stores", after=after, **of), READ_MAX)
    points, cut["pos"] = await first_of(lambda after: api.get("pos", after=after, **of), READ_MAX)
    terminals, cut["terminals"] = await first_of(lambda after: api.get("terminals", after=after, **of), READ_MAX)
    at: defaultdict[int, list[TerminalRow]] = defaultdict(list)
    for terminal in terminals:
        at[terminal["pos_id"]].append(row_of(terminal))
    within: defaultdict[int, list[PosRow]] = defaultdict(list)
    for pos in points:
        within[pos["store_id"]].append(_pos_row(pos, at[pos["pos_id"]], seller.href))
    # A line is a store, or a point of sale of the store of the last line.
    lines: list[tuple[Document, PosRow | None]] = []
    for store in sorted(stores, key=lambda one: one["name"].casefold()):
        lines.append((store, None))
        lines += [(store, pos) for pos in sorted(within[store["store_id"]], key=lambda one: one.name.casefold())]
    start = _start(request, lines)
    end = start + PLACES_MAX
    return Places(
        stores=_regrouped(lines[start:end], seller.href),
        before=_address(seller.href, max(start - PLACES_MAX, 0)) if start else "",
        more=_address(seller.href, end) if end < len(lines) else "",
        cut=[kind for kind, is_cut in cut.items() if is_cut],
    )


def _hints(noun: str, ids: Sequence[int | str]) -> list[str]:
    """Return the hints that concern these objects: of many, any hint with their noun."""
    return [noun] if len(ids) > LIVE_MAX else [f"{noun}:{one}" for one in ids]


def _pos_row(pos: Document, terminals: Sequence[TerminalRow], seller: str) -> PosRow:
    return PosRow(pos["pos_id"], name_of(pos), pos["external_pos_id"], terminals, f"{seller}/pos/{pos['pos_id']}")


def _regrouped(lines: Sequence[tuple[Document, PosRow | None]], seller: str) -> list[StoreRow]:
    """Return the stores of these lines with their points of sale."""
    found: dict[int, tuple[Document, list[PosRow], bool]] = {}
    for store, pos in lines:
        _, points, _ = found.setdefault(store["store_id"], (store, [], pos is not None))
        if pos is not None:
            points.append(pos)
    return [
        StoreRow(store_id, store["name"], points, is_continued, f"{seller}/stores/{store_id}")
        for store_id, (store, points, is_continued) in found.items()
    ]


def _start(request: ConsoleRequest, lines: Sequence[tuple[Document, PosRow | None]]) -> int:
    """Return how many lines are on the pages before; 0 for an address with no such page, store or point of sale."""
    text = request.query.get(START.name, "")
    if text:
        start = int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else 0
        return start if start < len(lines) else 0
    store_id, pos_id = (request.query.get(one.name, "") for one in (STORE, POS))
    for number, (store, pos) in enumerate(lines):
        if (str(store["store_id"]) == store_id) if pos is None else (str(pos.id) == pos_id):
            return number - number % PLACES_MAX
    return 0


def _address(seller: str, start: int) -> str:
    return f"{seller}?{START.name}={start}" if start else seller


OPERATIONS = (
    LIST.page(),
    page(
        "/sellers/{user_id}",
        "seller",
        "Show a seller",
        show_one,
        path_pattern=NUMBER_PATTERN,
        query=(START, STORE, POS, *authorizations.QUERY),
    ),
)
