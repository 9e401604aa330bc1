"""The screen of `paydesk dev`: create an order, move the clock, see virtual terminals, webhook faults and the inbox."""

from __future__ import annotations

from collections.abc import Awaitable

from paydesk.console.api import ApiRefused, Document
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import form, page, render, screen
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk.operators.properties import every
from paydesk.operators.webhooks import page as webhooks
from paydesk.platform.operation import Answer
from paydesk.platform.web import assets
from paydesk_dev.console import actions as development_actions
from paydesk_dev.console import terminals as development_terminals
from paydesk_dev.console.actions import DEFAULT_AMOUNT, MOVES, due_words
from paydesk_dev.console.cards import AWKWARD, DECKS
from paydesk_dev.console.terminals import FAULTS, PATH, SECTION
from paydesk_dev.virtual.page.looks import SCRIPTS, TRAY
from paydesk_dev.virtual.scripts.scripts import MANUAL
from paydesk_dev.virtual.terminal.screens import ROWS

TERMINALS_SHOWN, NOTIFICATIONS_SHOWN = 12, 5
PLAYED_BY = {name: words.removeprefix("Script: ") for name, words in SCRIPTS} | {MANUAL: "you"}
"""The operator of a terminal, by its script."""
PACKAGE = "paydesk_dev.console"


@screen
async def show(request: ConsoleRequest) -> Answer:
    """Show the tools of `paydesk dev`."""
    api = request.api
    terminals, has_more = await development_terminals.virtual(request)
    screens: dict[str, Document | None] = {}
    for terminal in terminals[:TERMINALS_SHOWN]:
        screens[terminal["id"]] = await _readable(api.get("/virtual/v1/terminals/{}/screen", terminal["id"]))
    disturbed = [one for one in await every(api, "subscriptions") if "fault" in one]
    inbox = await _readable(api.get("/demo/inbox", limit=NOTIFICATIONS_SHOWN))
    clock = await api.get("/dev/clock")
    return render(
        request,
        "console/page.html",
        sheet=assets.path_of(PACKAGE, "development.css"),
        section=SECTION,
        title="Development",
        live_on="terminal screen clock inbox subscription webhooks",
        here=PATH,
        clock=clock,
        due=due_words(clock["next"]) if "next" in clock else "",
        moves=MOVES,
        ahead=ahead(clock["offset_seconds"]),
        terminals=terminals[:TERMINALS_SHOWN],
        screens=screens,
        looks={name: row.pill for name, row in ROWS.items()},
        played_by=PLAYED_BY,
        has_more=has_more or len(terminals) > TERMINALS_SHOWN,
        inbox=inbox,
        faults=disturbed,
        applications=await webhooks.names(request, {one["client_id"] for one in disturbed}),
        decks=DECKS,
        tray=TRAY,
        digits=CARDS,
        does=AWKWARD,
        amount=DEFAULT_AMOUNT,
        disturbing=FAULTS,
    )


async def _readable(getting: Awaitable[Document]) -> Document | None:
    """Return a document, or None if it cannot be read, or not from here."""
    try:
        return await getting
    except ApiRefused:
        return None


def ahead(seconds: float) -> str:
    """Return how far the clock is ahead of the machine's in its two largest units; empty for less than a second."""
    left, words = int(abs(seconds)), list[str]()
    for name, size in (("days", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            words.append(f"{count} {name if count > 1 or name != 'days' else 'day'}")
    return " ".join(words[:2])


OPERATIONS = (
    *assets.operations(PACKAGE, surface="console", development=True),
    page("/development", show, development=True),
    *form("/development/order", development_actions.create_order, development=True),
    *form("/development/clock", development_actions.clock, development=True),
    *form("/development/reset", development_actions.reset, development=True),
    *development_terminals.OPERATIONS,
)
