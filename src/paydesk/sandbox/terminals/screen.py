"""What a virtual terminal shows to the people in front of it: its screen, its paper, and the messages it exchanged.

The engine changes a `Display`; the page and the API of virtual terminals read it. It is kept in memory across restarts
of the terminal, not of the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from paydesk.core import runtime
from paydesk.core.changes import Changes

ScreenName = Literal[
    "pairing",
    "idle",
    "amount",
    "tip",
    "installments",
    "present_card",
    "pin",
    "authorizing",
    "approved",
    "declined",
    "remove_card",
    "unknown",
    "printing",
    "canceled",
    "expired",
    "offline",
    "off",
    "rebooting",
    "standalone",
]
MESSAGES_MAX = 50
RECEIPT_CHARACTERS = 32
"""The width of a receipt's lines."""


class Receipt(msgspec.Struct, frozen=True):
    """The two copies of a receipt: lines of at most `RECEIPT_CHARACTERS` characters."""

    seller: list[str]
    buyer: list[str]


class Screen(msgspec.Struct, frozen=True):
    """A screen. `lines` is its text, line by line, complete for a person who sees nothing else."""

    name: ScreenName
    lines: tuple[str, ...] = ()
    order_id: str | None = None
    status_detail: str | None = None
    receipt: Receipt | None = None
    amount: str = ""
    currency: str = ""
    choices: tuple[int, ...] = ()
    """Percentages on `tip`, where 0 is no tip; numbers on `installments`."""
    digits: int = 0
    """The number of PIN digits entered on `pin`; the digits themselves are nowhere."""
    card: str = ""
    """The name of the test card that was presented (`simulator/cards.py`)."""
    entry: Literal["", "tap", "insert", "swipe", "phone", "scan"] = ""
    """How it was presented. An inserted card stays in the terminal until `remove_card`."""
    ends_ms: int | None = None
    """When the screen ends by itself, by the machine's clock in milliseconds, if that is known."""
    actions: tuple[str, ...] = ()
    """The names of the actions that it takes (`actions.py`), without those that every screen takes."""


class Paper(msgspec.Struct, frozen=True):
    """What the terminal printed last: a receipt, or the content of a print action."""

    number: int
    """Counts what this terminal printed, from 1."""
    receipt: Receipt | None = None
    text: str = ""
    """The content of a custom print, with its tags."""
    image: bytes = b""
    """A PNG or a JPEG."""


class Exchanged(msgspec.Struct, frozen=True):
    """A message between the terminal and the service, as the page lists it."""

    number: int
    sent: bool
    """Whether the terminal sent it; otherwise it received it."""
    text: str
    """A short line such as `progress authorizing` or `order`, without card data or PIN."""
    at_ms: int


class Display(Changes):
    """What one virtual terminal shows."""

    def __init__(self) -> None:
        super().__init__()
        self.screen = Screen("off", ("Switched off",))
        self.paper: Paper | None = None
        self.is_paper_taken = False
        """Whether another order began since the last print, which counts as taken then."""
        self.order_id: str | None = None
        """The last order that it showed."""
        self.permitted_order_id: str | None = None
        """The last order for which it had the authorization permit."""
        self.messages: deque[Exchanged] = deque(maxlen=MESSAGES_MAX)
        """The newest last."""
        self.is_online = False
        """Whether the terminal has a session and its network is up."""
        self.waiting = 0
        """Requests that wait for a screen."""
        self.on_show: Callable[[], None] | None = None
        """Called after each change of the screen."""
        self._exchanged = 0

    @property
    def is_permitted(self) -> bool:
        """Whether the order on the screen has the authorization permit."""
        return self.screen.order_id is not None and self.screen.order_id == self.permitted_order_id

    def show(self, screen: Screen) -> None:
        """Show another screen."""
        if screen.order_id not in (None, self.screen.order_id):
            self.is_paper_taken = True
        self.order_id = screen.order_id or self.order_id
        self.screen = screen
        self.notify()
        if self.on_show is not None:
            self.on_show()

    def print(self, *, receipt: Receipt | None = None, text: str = "", image: bytes = b"") -> None:
        """Print a receipt or the content of a print action."""
        number = 1 if self.paper is None else self.paper.number + 1
        self.paper, self.is_paper_taken = Paper(number, receipt, text, image), False
        self.notify()

    def exchanged(self, text: str, *, sent: bool) -> None:
        """List a message."""
        self._exchanged += 1
        self.messages.append(Exchanged(self._exchanged, sent, text, runtime.wall_ns() // 1_000_000))
        self.notify()

    def set_online(self, *, is_online: bool) -> None:
        """Set whether the terminal is connected."""
        if is_online != self.is_online:
            self.is_online = is_online
            self.notify()
