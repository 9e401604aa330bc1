"""The front of a virtual terminal, which stays the same across its restarts: its screen, its paper, its messages.

Screens that end by themselves do so by one timer. What the terminal shows between orders follows from its state. The
page and the API of virtual terminals read it. It is kept in memory, so a restart of the process loses it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paydesk.core import runtime
from paydesk.engine.terminals.modes import ORDER_MODES
from paydesk.engine.terminals.schemas import Kind
from paydesk.platform.web.changes import Changes
from paydesk_dev.virtual.terminal import screens
from paydesk_dev.virtual.terminal.network import Link
from paydesk_dev.virtual.terminal.receipts import Paper, Receipt
from paydesk_dev.virtual.terminal.screens import ROWS, OrderScreens, Screen

UNPRINTED_SECONDS = 1.0
"""How long the outcome is shown before its receipt is printed: the buyer hears first that it was approved."""
PRINTING_SECONDS = 0.9
QUICK_SECONDS = 0.1
"""Both, of a terminal that makes no pauses for eyes."""
REMINDER_SECONDS = 15.0
MESSAGES_MAX = 50


class Exchanged(msgspec.Struct, frozen=True):
    """A message between the terminal and the service, as the page lists it."""

    number: int
    sent: bool
    """Whether the terminal sent it; otherwise it received it."""
    text: str
    """A short line such as `progress authorizing` or `order`, without card data or PIN."""
    at_ms: int


class Panel(Changes):
    """The front of a terminal: what it shows, and the network connection that a person can cut.

    A `hidden` one shows no orders and prints nothing: thousands of terminals without a page do not pay for it. One that
    `is_quick` makes no pauses for eyes.
    """

    def __init__(self, kind: Kind = "terminal", *, hidden: bool = False, is_quick: bool = False) -> None:
        super().__init__()
        self._paper_seconds = (QUICK_SECONDS, QUICK_SECONDS) if is_quick else (UNPRINTED_SECONDS, PRINTING_SECONDS)
        self.hidden, self.link, self._kind = hidden, Link(), kind
        self.screen = self._resting = screens.of("off")
        self.order: OrderScreens | None = None
        """The screens of the order in progress, or of the last one."""
        self.order_id: str | None = None
        """The last order that was shown."""
        self.permitted_order_id: str | None = None
        """The last order for which the terminal had the authorization permit."""
        self.authorizing_since = 0.0
        """When `authorizing` was shown last, by the monotonic clock."""
        self.seller_name, self.operating_mode = "", ""
        self.is_online = False
        """Whether the terminal has a session and its network is up."""
        self.paper: Paper | None = None
        self.is_paper_taken = False
        """Whether another order began since the last print, which counts as taken then."""
        self.has_paper = True
        self.messages: deque[Exchanged] = deque(maxlen=MESSAGES_MAX)
        """The newest last."""
        self.waiting = 0
        """Requests that wait for a screen."""
        self.on_show: Callable[[], None] | None = None
        """Called after each change of the screen."""
        self._exchanged = 0
        self._timer: asyncio.TimerHandle | None = None
        self._unprinted: Receipt | None = None
        """A receipt that is printed in a moment."""

    @property
    def stage(self) -> str:
        """The stage of the screen (`screens.Row`)."""
        return ROWS[self.screen.name].stage

    def is_permitted(self, screen: Screen) -> bool:
        """Return whether the order on the screen has the authorization permit."""
        return screen.order_id is not None and screen.order_id == self.permitted_order_id

    def exchanged(self, text: str, *, sent: bool) -> None:
        """List a message."""
        self._exchanged += 1
        self.messages.append(Exchanged(self._exchanged, sent, text, _now_ms()))
        self.notify()

    async def until(self, is_met: Callable[[], bool], seconds: float, pause_seconds_max: float = 60) -> None:
        """Wait until `is_met` returns true, at most `seconds`; it is called after each change and each pause."""
        deadline = runtime.monotonic() + seconds
        while not is_met() and (left := deadline - runtime.monotonic()) > 0:
            await self.changed(self.revision, min(left, pause_seconds_max))

    # Between orders

    def switch_off(self) -> None:
        """Show nothing, at once."""
        self.order = self._unprinted = None
        self._rest(screens.of("off"), is_forced=True)

    def start(self, orders: int, seconds: float | None = None) -> None:
        """Show that the terminal starts, with `orders` in its journal. `seconds`: until it is switched on."""
        self.order = None
        journal = "The journal is empty" if not orders else f"The journal has {orders} order{'s' if orders > 1 else ''}"
        self._rest(screens.of("rebooting", ends_ms=_ends_ms(seconds), journal=journal), is_forced=True)

    def reset(self) -> None:
        """Show what is shown between orders, whatever the order on the screen is."""
        self.order = self.order_id = self._unprinted = None
        self.has_paper = True
        self._show_resting()

    def set_mode(self, operating_mode: str) -> None:
        """Show the state between orders in this mode of a connected terminal, unless an order is shown."""
        self.operating_mode = operating_mode
        mode = operating_mode.capitalize() if operating_mode != "UNDEFINED" else "No operating mode"
        row = "idle" if operating_mode in ORDER_MODES else "standalone"
        self._rest(screens.of(row, seller=self.seller_name, mode=mode), is_online=True)

    def disconnected(self, reason: str, next_try_seconds: float | None) -> None:
        """Show that there is no connection, unless an order is shown; None: there is no next try."""
        is_ended = next_try_seconds is None
        row = "session_ended" if is_ended else "offline"
        self._rest(screens.of(row, ends_ms=_ends_ms(next_try_seconds), reason=reason), is_forced=is_ended)

    def _rest(self, screen: Screen, *, is_online: bool = False, is_forced: bool = False) -> None:
        """Change what is shown between orders; show it now if no order is shown, or it `is_forced`."""
        self._resting = screen
        if is_online != self.is_online:
            self.is_online = is_online
            self.notify()
        if is_forced or self.stage == "between":
            self._show_resting()

    def _show_resting(self) -> None:
        screen = self._resting
        if not self.has_paper and screen.name in ("idle", "standalone"):
            screen = msgspec.structs.replace(screen, lines=(*screen.lines, screens.NO_PAPER))
        if self.screen != screen:
            self.show(screen)

    # Orders

    def begin(self, order: Mapping[str, Any], expires_ms: int | None = None) -> None:
        """Take another order; its first screen comes with the acknowledgement."""
        if not self.hidden:
            self.order = OrderScreens(order, self.seller_name, self._kind, expires_ms)

    def show(self, screen: Screen, seconds: float | None = None, then: Callable[[], None] | None = None) -> None:
        """Show the screen until the next one, or for these seconds and `then` what is shown between orders."""
        if self._timer is not None:
            self._timer.cancel()
        if seconds is not None:
            screen = msgspec.structs.replace(screen, ends_ms=_ends_ms(seconds))
            self._timer = asyncio.get_running_loop().call_later(seconds, then or self._show_resting)
        if screen.order_id not in (None, self.screen.order_id):
            self.is_paper_taken = True
        self.order_id = screen.order_id or self.order_id
        self.screen = screen
        self.notify()
        if self.on_show is not None:
            self.on_show()

    def show_authorizing(self) -> None:
        """Show that the order, which has the permit, is authorized."""
        if self.order is not None:
            self.authorizing_since, self.permitted_order_id = runtime.monotonic(), self.order.order_id
            self.show(self.order.screen("authorizing"))

    def end(self, screen: Screen) -> None:
        """Show how an order ended: for the seconds of its row, or until the card is removed."""
        self.show(screen, ROWS[screen.name].seconds)
        if screen.name == "remove_card":
            reminder = msgspec.structs.replace(screen, lines=(*screen.lines[:-1], "Please remove the card now"))
            self._timer = asyncio.get_running_loop().call_later(REMINDER_SECONDS, self.show, reminder)

    def drop(self, order_id: str | None, *, is_expired: bool = False) -> None:
        """Show that the order was canceled or has expired, if it is in progress."""
        if self.order is not None and self._is_open(order_id):
            self.end(self.order.screen("expired" if is_expired else "canceled_at_till"))

    def is_unknown(self, order_id: str | None) -> bool:
        """Return whether the panel shows that the outcome of this order is not known."""
        return self.screen.name == "unknown" and self.screen.order_id == order_id

    def warn(self, order_id: str | None) -> bool:
        """Show that the outcome of the order is not known, if it is shown; return whether it is."""
        if self.order is None or not self._is_open(order_id):
            return False
        if self.screen.name != "unknown":
            self.end(self.order.screen("unknown"))
        return True

    def resolve(self, order_id: str | None, status: str, paid: Mapping[str, Any]) -> None:
        """Show the outcome of an order that was not known, by its status; `paid` is what an approval consists of."""
        if self.order is None or not self.is_unknown(order_id):
            return
        if status in ("processed", "refunded"):
            self.end(self.order.outcome({"outcome": "approved", **paid}))
        elif status == "failed":
            self.end(self.order.outcome({"outcome": "declined", "status_detail": ""}))
        else:
            self.end(self.order.screen("canceled"))

    def remove_card(self) -> None:
        """Take the inserted card out of the terminal."""
        assert self.order is not None, "a card is inserted for an order"
        self.order.entry = ""
        if self.screen.name == "unknown":
            self.end(self.order.screen("unknown"))
        elif self.stage == "open":
            self.order.is_card_out = True
            self.show(self.order.screen("pin_entered" if self.screen.name == "pin" else self.screen.name))
        else:
            self._show_resting()

    @property
    def is_card_out(self) -> bool:
        """Whether the card was taken out before the terminal had finished with it."""
        return self.order is not None and self.order.is_card_out

    def keep_card(self) -> bool:
        """Let no card be taken out until the outcome is shown; return whether it is out already."""
        if self.screen.name == "authorizing" and self.screen.actions:
            self.show(msgspec.structs.replace(self.screen, actions=()))
        return self.is_card_out

    def _is_open(self, order_id: str | None) -> bool:
        return self.screen.order_id == order_id and self.stage == "open"

    # Paper

    def change_paper(self, *, has_paper: bool) -> None:
        """Take the roll out or put one in. What was not printed meanwhile is not printed later."""
        self.has_paper, self._unprinted = has_paper, None
        if self.stage == "between":
            self._show_resting()
        self.notify()

    def print(self, *, receipt: Receipt | None = None, text: str = "", image: bytes = b"") -> None:
        """Print a receipt or the content of a print action."""
        number = 1 if self.paper is None else self.paper.number + 1
        self.paper, self.is_paper_taken = Paper(number, receipt, text, image), False
        self.notify()

    def show_printing(self, seconds: float) -> None:
        """Show that a print action is printed or lacks paper, unless an order or its card needs the screen."""
        if self.stage != "open" and self.screen.name != "remove_card":
            self.show(screens.of("print_action" if self.has_paper else "not_printed"), seconds)

    def print_receipt(self, receipt: Receipt) -> None:
        """Print the receipt, in a moment if its outcome is shown. Its screen returns afterwards."""
        if self._unprinted is not None:
            self.print(receipt=self._unprinted)
        if self.order is not None and self._shows_outcome():
            self._unprinted = receipt
            asyncio.get_running_loop().call_later(self._paper_seconds[0], self._print_shown, receipt, self.order)
        else:
            self._unprinted = None
            self.print(receipt=receipt)

    def _print_shown(self, receipt: Receipt, order: OrderScreens) -> None:
        """Print the receipt of the outcome that is shown, and show the outcome again afterwards."""
        if self._unprinted is not receipt:
            return
        self._unprinted = None
        self.print(receipt=receipt)
        shown = self.screen

        def show_again() -> None:
            if shown.name == "remove_card" and order.entry != "insert":
                self._show_resting()
            else:
                self.end(shown)

        if order is self.order and self._shows_outcome():
            self.show(order.screen("printing", receipt=receipt), self._paper_seconds[1], show_again)

    def _shows_outcome(self) -> bool:
        return self.order is not None and self.stage == "outcome" and self.screen.order_id == self.order.order_id


def _now_ms() -> int:
    return runtime.wall_ns() // 1_000_000


def _ends_ms(seconds: float | None) -> int | None:
    return None if seconds is None else _now_ms() + int(seconds * 1000)
