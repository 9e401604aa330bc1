"""The screen of `paydesk dev`: create an order, move the clock, see virtual terminals, webhook faults and the inbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from paydesk.console import development_actions, development_terminals, webhooks
from paydesk.console.api import ApiRefused
from paydesk.console.development_actions import DEFAULT_AMOUNT, MOVES, due_words
from paydesk.console.development_cards import DECKS
from paydesk.console.development_terminals import FAULTS, PATH, SECTION
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import form, page, render, screen
from paydesk.operation import Answer
from paydesk.operators.properties import every
from paydesk.sandbox.terminals.scripts import MANUAL
from paydesk.sandbox.virtual.looks import SCRIPTS

TERMINALS_SHOWN, NOTIFICATIONS_SHOWN = 12, 5
Document = dict[str, Any]

SCREENS: Mapping[str, tuple[str, str, str]] = {
    "pairing": ("wait", "clock", "Shows a pairing code"),
    "idle": ("ok", "check", "Idle"),
    "standalone": ("off", "dash", "Standalone"),
    "amount": ("wait", "card", "Waits for a card"),
    "tip": ("wait", "person", "Waits for the tip"),
    "installments": ("wait", "person", "Waits for the installments"),
    "present_card": ("wait", "card", "Waits for a card"),
    "pin": ("wait", "keyboard", "Waits for the PIN"),
    "authorizing": ("wait", "clock", "Authorizing"),
    "approved": ("ok", "check", "Approved"),
    "declined": ("bad", "cross", "Declined"),
    "remove_card": ("look", "card", "Waits until the card is removed"),
    "unknown": ("look", "triangle", "Outcome unknown"),
    "printing": ("wait", "printer", "Prints"),
    "canceled": ("off", "dash", "Canceled"),
    "expired": ("off", "clock", "Expired"),
    "offline": ("bad", "wifi-off", "No network"),
    "off": ("off", "plug", "Switched off"),
    "rebooting": ("wait", "restart", "Restarts"),
}
"""The pill of each screen: colour, icon, words."""
PLAYED_BY = {**dict(SCRIPTS), MANUAL: "you"}


class Shown(NamedTuple):
    """A virtual terminal with its screen; None if it cannot be read."""

    terminal: Document
    screen: Document | None

    @property
    def played_by(self) -> str:
        """Who operates it: you, or a script."""
        script: str = self.terminal["script"]
        return PLAYED_BY.get(script, f"Script: {script}").removeprefix("Script: ")

    @property
    def page(self) -> str:
        """The path of its page with the key; empty for roles that may only read."""
        return development_terminals.page_of(self.terminal)

    @property
    def pill(self) -> tuple[str, str, str]:
        """The pill of its screen."""
        return SCREENS[self.screen["screen"]] if self.screen is not None else ("off", "info", "Not known")

    @property
    def name(self) -> str:
        """The name of the screen in the interface."""
        return str(self.screen["screen"]) if self.screen is not None else ""

    @property
    def takes_orders(self) -> bool:
        """Whether an order can be created for it."""
        return bool(self.terminal["operating_mode"] == "PDV")


@screen
async def show(request: ConsoleRequest) -> Answer:
    """Show the tools of `paydesk dev`."""
    shown, has_more = await _terminals(request)
    clock = await request.api.get("/dev/clock")
    return render(
        request,
        "development.html",
        section=SECTION,
        title="Development",
        live_on="terminal screen clock inbox subscription webhooks",
        here=PATH,
        clock=clock,
        due=due_words(clock.get("next")),
        moves=MOVES,
        ahead=ahead(clock["offset_seconds"]),
        shown=shown,
        has_more=has_more,
        notifications=await _notifications(request),
        faults=await _faults(request),
        cards=DECKS,
        amount=DEFAULT_AMOUNT,
        disturbing=FAULTS,
    )


def ahead(seconds: float) -> str:
    """Return how far the clock is ahead of the machine's in its two largest units; empty for less than a second."""
    left, words = int(abs(seconds)), list[str]()
    for name, size in (("days", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            words.append(f"{count} {name if count > 1 or name != 'days' else 'day'}")
    return " ".join(words[:2])


async def _terminals(request: ConsoleRequest) -> tuple[list[Shown], bool]:
    """Return the first virtual terminals, those that a person plays before others, and whether there are more."""
    found, has_more = await development_terminals.virtual(request)
    shown = []
    for terminal in found[:TERMINALS_SHOWN]:
        try:
            one = await request.api.get("/virtual/v1/terminals/{}/screen", terminal["id"])
        except ApiRefused:
            one = None
        shown.append(Shown(terminal, one))
    return shown, has_more or len(found) > TERMINALS_SHOWN


async def _notifications(request: ConsoleRequest) -> list[Document] | None:
    """Return the last notifications in the demo inbox, newest first; None if it may not be read from here."""
    try:
        received = await request.api.get("/demo/inbox", limit=NOTIFICATIONS_SHOWN)
    except ApiRefused:
        return None
    found: list[Document] = received["data"]
    return found[::-1]


async def _faults(request: ConsoleRequest) -> list[Document]:
    """Return the subscriptions whose notifications are disturbed, with the names of their applications."""
    found = await every(request.api, "subscriptions")
    disturbed = [one for one in found if "fault" in one]
    names = await webhooks.names(request, {one["client_id"] for one in disturbed})
    return [{**one, "application": names.get(one["client_id"], one["client_id"])} for one in disturbed]


OPERATIONS = (
    page("/development", show, development=True),
    *form(
        "/development/order",
        development_actions.create_order,
        development=True,
    ),
    *form("/development/clock", development_actions.clock, development=True),
    *form("/development/reset", development_actions.reset, development=True),
    *development_terminals.OPERATIONS,
)
