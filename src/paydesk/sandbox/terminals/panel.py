"""The front of a virtual terminal, which stays the same across its restarts: its screen, its paper, its connection.

Screens that end by themselves do so by one timer. What the terminal shows between orders follows from its state.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from paydesk.core import runtime
from paydesk.sandbox.terminals import screens
from paydesk.sandbox.terminals.link import Link
from paydesk.sandbox.terminals.screen import Display, Receipt, Screen
from paydesk.sandbox.terminals.screens import OrderScreens
from paydesk.terminals.modes import ORDER_MODES
from paydesk.terminals.schemas import Kind

OUTCOME_SECONDS = 5.0
"""How long `approved` and `declined` are shown."""
END_SECONDS = 4.0
"""How long `canceled` and `expired` are shown."""
UNPRINTED_SECONDS = 1.0
"""How long the outcome is shown before its receipt is printed: the buyer hears first that it was approved."""
PRINTING_SECONDS = 0.9
UNKNOWN_SECONDS = 300.0
REMINDER_SECONDS = 15.0
BETWEEN_ORDERS = ("off", "rebooting", "idle", "standalone", "offline", "pairing")
IN_PROGRESS = ("amount", "tip", "installments", "present_card", "pin", "authorizing", "unknown")
PRINTED_FROM = ("approved", "declined", "remove_card")


class Panel:
    """The front of a terminal: what it shows, and the network connection that a person can cut.

    A `hidden` one shows no orders and prints nothing: thousands of terminals without a page do not pay for it.
    """

    def __init__(self, kind: Kind = "terminal", *, hidden: bool = False) -> None:
        self.hidden = hidden
        self.display, self.link, self._kind = Display(), Link(), kind
        self.order: OrderScreens | None = None
        """The screens of the order in progress, or of the last one."""
        self.authorizing_since = 0.0
        """When `authorizing` was shown last, by the monotonic clock."""
        self.seller_name, self.operating_mode = "", ""
        self._state: Literal["off", "starting", "online", "offline"] = "off"
        self._resting = screens.off()
        self._timer: asyncio.TimerHandle | None = None
        self._printer: asyncio.TimerHandle | None = None
        """The timer of a receipt that is printed in a moment."""
        self._unprinted: Receipt | None = None

    @property
    def screen(self) -> Screen:
        """What is shown."""
        return self.display.screen

    def switch_off(self) -> None:
        """Show nothing, at once."""
        self.order = None
        self._cancel_print()
        self._rest("off", screens.off(), is_forced=True)

    def start(self, orders: int, seconds: float | None = None) -> None:
        """Show that the terminal starts; its journal has so many orders. `seconds`: when it is switched on."""
        self.order = None
        screen = screens.starting(orders)
        ends_ms = None if seconds is None else _now_ms() + int(seconds * 1000)
        self._rest("starting", msgspec.structs.replace(screen, ends_ms=ends_ms), is_forced=True)

    def reset(self) -> None:
        """Show what is shown between orders, whatever the order on the screen is."""
        self.order = self.display.order_id = None
        self._cancel_print()
        self._show_resting()

    def connected(self, operating_mode: str, seller_name: str) -> None:
        """Show the state between orders, unless an order is shown."""
        self.seller_name = seller_name
        self.set_mode(operating_mode)

    def set_mode(self, operating_mode: str) -> None:
        """Take another operating mode."""
        self.operating_mode = operating_mode
        takes_orders = operating_mode in ORDER_MODES
        self._rest("online", screens.between_orders(operating_mode, self.seller_name, takes_orders=takes_orders))

    def disconnected(self, reason: str, next_try_seconds: float | None) -> None:
        """Show that there is no connection, unless an order is shown; None: there is no next try."""
        next_try_ms = None if next_try_seconds is None else _now_ms() + int(next_try_seconds * 1000)
        self._rest("offline", screens.offline(reason, next_try_ms), is_forced=next_try_seconds is None)

    def begin(self, order: Mapping[str, Any]) -> None:
        """Take another order; its first screen comes with the acknowledgement."""
        if not self.hidden:
            self.order = OrderScreens(order, self.seller_name, self._kind)

    def show(self, screen: Screen, seconds: float | None = None, then: Callable[[], None] | None = None) -> None:
        """Show the screen until the next one, or for so many seconds and `then` what is shown between orders."""
        self._cancel_timer()
        if seconds is not None:
            screen = msgspec.structs.replace(screen, ends_ms=_now_ms() + int(seconds * 1000))
            self._timer = asyncio.get_running_loop().call_later(seconds, then or self._show_resting)
        self.display.show(screen)

    def show_authorizing(self) -> None:
        """Show that the order, which has the permit, is authorized."""
        if self.order is not None:
            self.authorizing_since, self.display.permitted_order_id = runtime.monotonic(), self.order.order_id
            self.show(self.order.authorizing())

    def end(self, screen: Screen) -> None:
        """Show how an order ended: for some seconds, or until the card is removed."""
        if screen.name == "remove_card":
            self.show(screen)
            self._timer = asyncio.get_running_loop().call_later(REMINDER_SECONDS, self._remind)
        elif screen.name == "unknown":
            self.show(screen, UNKNOWN_SECONDS)
        else:
            self.show(screen, OUTCOME_SECONDS if screen.name in ("approved", "declined") else END_SECONDS)

    def drop(self, order_id: str | None, *, is_expired: bool = False) -> None:
        """Show that the order was canceled or has expired, if it is in progress."""
        if self.order is None or self.screen.order_id != order_id or self.screen.name not in IN_PROGRESS:
            return
        self.end(self.order.expired() if is_expired else self.order.canceled("by the cashier", "canceled_by_api"))

    def is_unknown(self, order_id: str | None) -> bool:
        """Return whether the panel shows that the outcome of this order is not known."""
        return self.screen.name == "unknown" and self.screen.order_id == order_id

    def warn(self, order_id: str | None) -> bool:
        """Show that the outcome of the order is not known, if it is shown; return whether it is."""
        if self.order is None or self.screen.order_id != order_id or self.screen.name not in IN_PROGRESS:
            return False
        if self.screen.name != "unknown":
            self.end(self.order.unknown())
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
            self.end(self.order.canceled(""))

    def receipt_of(self, order_id: str | None) -> Receipt | None:
        """Return the receipt on the screen of the order, if it is shown."""
        return self.screen.receipt if self.screen.order_id == order_id else None

    def print(self, receipt: Receipt) -> None:
        """Print the receipt, in a moment if its outcome is shown. Its screen returns afterwards."""
        if self._unprinted is not None:
            self.display.print(receipt=self._unprinted)
        self._cancel_print()
        order = self.order
        if order is not None and self._shows_outcome():
            self._unprinted = receipt
            self._printer = asyncio.get_running_loop().call_later(UNPRINTED_SECONDS, self._print, receipt, order)
        else:
            self.display.print(receipt=receipt)

    def show_printing(self, seconds: float) -> None:
        """Show that a print action is printed, unless an order or its card needs the screen."""
        if self.screen.name not in (*IN_PROGRESS, "remove_card"):
            self.show(screens.printing(), seconds)

    def print_content(self, subtype: str, content: str) -> None:
        """Print the content of a print action."""
        if subtype == "image":
            self.display.print(image=base64.b64decode(content))
        else:
            self.display.print(text=content)

    def remove_card(self) -> None:
        """Take the inserted card out of the terminal."""
        assert self.order is not None, "a card is inserted for an order"
        self.order.entry = ""
        if self.screen.name == "unknown":
            self.end(self.order.unknown())
        else:
            self._show_resting()

    def _rest(
        self, state: Literal["off", "starting", "online", "offline"], screen: Screen, *, is_forced: bool = False
    ) -> None:
        """Change what is shown between orders; show it now if no order is shown, or it `is_forced`."""
        self._state, self._resting = state, screen
        self.display.set_online(is_online=state == "online")
        if is_forced or self.screen.name in BETWEEN_ORDERS:
            self._show_resting()

    def _show_resting(self) -> None:
        self._cancel_timer()
        if self.screen != self._resting:
            self.display.show(self._resting)

    def _show_again(self, order: OrderScreens, screen: Screen) -> None:
        """Show the outcome again after its receipt was printed."""
        if screen.name == "remove_card" and order.entry != "insert":
            self._show_resting()
        else:
            self.end(screen)

    def _print(self, receipt: Receipt, order: OrderScreens) -> None:
        self._printer = self._unprinted = None
        self.display.print(receipt=receipt)
        shown = self.screen
        if order is self.order and self._shows_outcome():
            self.show(order.printing(receipt), PRINTING_SECONDS, lambda: self._show_again(order, shown))

    def _shows_outcome(self) -> bool:
        order, shown = self.order, self.screen
        return order is not None and shown.name in PRINTED_FROM and shown.order_id == order.order_id

    def _cancel_print(self) -> None:
        if self._printer is not None:
            self._printer.cancel()
            self._printer = self._unprinted = None

    def _remind(self) -> None:
        screen = self.screen
        self.show(msgspec.structs.replace(screen, lines=(*screen.lines[:-1], "Please remove the card now")))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _now_ms() -> int:
    return runtime.wall_ns() // 1_000_000
