"""The live parts of the page as HTML, made from what the terminal shows."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from paydesk.sandbox.terminals.screen import Exchanged, Screen
from paydesk.sandbox.virtual.looks import CARD_COLOURS, Look, look_of
from paydesk.sandbox.virtual.paper import Sheet, sheet_of
from paydesk.web.html import environment

if TYPE_CHECKING:
    from markupsafe import Markup

    from paydesk.sandbox.virtual.page_access import Access

PACKAGE = "paydesk.sandbox.virtual"
PARTS = (
    "status", "hint", "paper", "copies", "lights", "glass", "slot", "faults", "messages", "played", "say",
)  # fmt: skip
"""The names of the live parts, in the order of their fingerprints."""
MESSAGES_SHOWN = 30
COUNTED_SECONDS = 30
"""The time left to present a card is counted from here on."""
WORDS = {"pairing": "{} left", "present_card": "{} left", "amount": "{} left", "offline": "Trying again in {}"}
"""The screens that count the time to their end, with the words for it."""


class View(msgspec.Struct, frozen=True):
    """What a terminal shows at a moment, as the templates need it."""

    terminal_id: str
    screen: Screen
    look: Look
    paper: Sheet | None
    messages: list[Line]
    is_online: bool
    script: str

    @property
    def command(self) -> str:
        """The command that creates an order for this terminal."""
        return f"paydesk pay 24.90 --terminal {self.terminal_id}"

    @property
    def clock(self) -> str:
        """The time on the terminal's screen, until the browser's own clock replaces it."""
        return "--:--"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The lines of the screen with their kinds: the first is its title, unless it is the amount."""
        shown, amount = [], f"{self.screen.amount} {self.screen.currency}".strip()
        has_title = False
        for line in self.screen.lines:
            if amount and line == amount:
                shown.append(("amount", line))
            elif self.screen.name == "pairing" and "-" in line and line.isupper():
                shown.append(("code", line))
            else:
                shown.append(("text" if has_title else "title", line))
                has_title = True
        return shown

    @property
    def inserted(self) -> str:
        """The colour of the card in the slot, or an empty text."""
        is_in = self.screen.entry == "insert" and self.screen.name in ("pin", "authorizing", "remove_card", "unknown")
        return CARD_COLOURS.get(self.screen.card, "grey") if is_in else ""

    @property
    def counts_from(self) -> int:
        """The seconds from which on the time left is counted; 0 for a screen that does not count."""
        if self.screen.name not in WORDS:
            return 0
        return COUNTED_SECONDS if self.screen.name in ("amount", "present_card") else 3600

    @property
    def count_words(self) -> str:
        """The words for the time left."""
        return WORDS[self.screen.name]

    def choice(self, value: int) -> str:
        """Return the words for a tip or a number of installments."""
        if self.screen.name == "tip":
            return f"{value} %" if value else "No tip"
        return f"{value} payments" if value > 1 else "1 payment"


class Line(msgspec.Struct, frozen=True):
    """A message in the list."""

    number: int
    sent: bool
    text: str
    time: str
    iso: str


def parts(access: Access) -> dict[str, Markup]:
    """Return the live parts of the page by the ids of their elements."""
    display = access.display
    paper = display.paper
    view = View(
        terminal_id=access.terminal_id,
        screen=display.screen,
        look=look_of(display.screen),
        paper=sheet_of(paper, access.image(paper.number)) if paper is not None else None,
        messages=[_line(message) for message in list(display.messages)[: -MESSAGES_SHOWN - 1 : -1]],
        is_online=display.is_online,
        script=access.script,
    )
    macros = _macros()
    return {name: getattr(macros, name)(view) for name in PARTS}


def refused(message: str) -> dict[str, Markup]:
    """Return the parts of the page that show and say why an action was refused."""
    macros = _macros()
    return {"hint": macros.refused(message), "say": macros.said(message)}


def _macros() -> Any:
    return environment(PACKAGE).get_template("parts.html").module


def _line(message: Exchanged) -> Line:
    at = datetime.fromtimestamp(message.at_ms / 1000).astimezone()
    text = f"{at:%H:%M:%S}.{message.at_ms % 1000:03}"
    return Line(message.number, message.sent, message.text, text, at.isoformat())
