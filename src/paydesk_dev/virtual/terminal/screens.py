"""The screens of a virtual terminal: a row for each, with its text, what it takes, how it looks, and when it ends.

Pure: `of` makes the screens between orders, `OrderScreens` those of one order; nothing is shown here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from paydesk.core.money import spelled
from paydesk.engine.terminals.schemas import Kind
from paydesk_dev.virtual.terminal.receipts import NOTHING_CHARGED, REASONS, Receipt, described

CARD_ACTIONS = ("tap", "insert", "swipe", "phone")
TRIES_MAX = 3
"""Wrong PINs until the card is blocked."""
INSTALLMENTS = (1, 2, 3, 6, 12)
NO_PAPER = "No paper"


class Row(msgspec.Struct, frozen=True):
    """What all screens of a name have in common."""

    lines: tuple[str, ...]
    """The text. What differs from screen to screen is named in braces; a line that is empty then is left out."""
    stage: Literal["between", "open", "outcome", "end", "printing"]
    """Between orders, during an order, its outcome, its end without a payment, or while paper is printed."""
    tone: Literal["plain", "ok", "bad", "look", "off", "dark"] = "plain"
    """Colours the glass."""
    art: str = ""
    """A drawing in `art.html`."""
    lights: Literal["none", "waits", "tapped", "works", "done", "failed"] = "none"
    hint: str = ""
    """For the person in front of the page."""
    refuses: str = ""
    """Why it takes no card or key."""
    actions: tuple[str, ...] = ()
    """What it takes besides what every screen takes (`actions.py`)."""
    seconds: float | None = None
    """How long it is shown before what is shown between orders, if it ends so."""
    is_brief: bool = False
    """Whether another screen follows in a moment: without JavaScript the page reloads."""
    counts: str = ""
    """The words for the time left, if the page counts it."""
    counts_from: int = 3_600
    """The seconds left from which on it is counted."""
    pill: tuple[str, str, str] = ("", "", "")
    """Its pill in the console: colour, icon, words."""
    detail: str | None = None
    """The `status_detail` of the order, if all screens of the row have the same."""
    name: str = ""
    """The name of the screen, if that is another row's: this row has only another text."""


_TAKES_CARDS = (*CARD_ACTIONS, "scan", "press_cancel", "press")
_PRESENT = "Press a card, or drag it: top taps, bottom inserts, right edge swipes."
_CHOOSE = "The buyer chooses: press a button, or its digits on the keypad."
_TAKES_CHOICES = ("choose", "press_cancel", "press")

# fmt: off
ROWS: Mapping[str, Row] = {
    "pairing": Row(
        ("Type this code in the console", "{code}"), "between", counts="{} left",
        pill=("wait", "clock", "Shows a pairing code"),
        hint="An operator types this code, and the terminal belongs to a seller.",
    ),
    "idle": Row(
        ("Ready", "{seller}", "Waiting for an order"), "between", art="ready", pill=("ok", "check", "Idle"),
        refuses="The terminal waits for an order. Create one first.",
    ),
    "amount": Row(
        ("{sum}", "New order", "{seller}"), "open", "plain", "waves", "waits", hint=_PRESENT,
        actions=_TAKES_CARDS, counts="{} left", is_brief=True, pill=("wait", "card", "Waits for a card"),
    ),
    "tip": Row(
        ("Add a tip?", "{sum}", "{offered} or no tip"), "open", hint=_CHOOSE,
        actions=_TAKES_CHOICES, pill=("wait", "person", "Waits for the tip"),
    ),
    "installments": Row(
        ("How many installments?", "{sum}", "1, 2, 3, 6 or 12"), "open", hint=_CHOOSE,
        actions=_TAKES_CHOICES, pill=("wait", "person", "Waits for the installments"),
    ),
    "present_card": Row(
        ("{sum}", "{tip}", "{asked}", "{seller}"), "open", "plain", "waves", "waits", hint=_PRESENT,
        actions=_TAKES_CARDS, counts="{} left", counts_from=30, pill=("wait", "card", "Waits for a card"),
    ),
    "pin": Row(
        ("{sum}", "{again}", "Enter your PIN, then the green key", "{entered}"), "open", lights="works",
        actions=("pin", "press", "press_cancel", "remove_card"), pill=("wait", "keyboard", "Waits for the PIN"),
        hint="Any four to six digits are right, then the green key. Press the card to take it out.",
        refuses="The terminal asks for a PIN: type it on the keypad, then press the green key.",
    ),
    "authorizing": Row(
        ("{sum}", "Authorizing", "{hold}"), "open", "plain", "spinner", "works", actions=("remove_card",),
        is_brief=True, pill=("wait", "clock", "Authorizing"),
        hint="The terminal has the permit and asks the acquirer. Pull the plug to see how it ends.",
        refuses="The acquirer is being asked. Wait for its answer.",
    ),
    "approved": Row(
        ("Approved", "{paid}", "{card}", "{paper}"), "outcome", "ok", "check", "done", seconds=5, is_brief=True,
        detail="accredited", pill=("ok", "check", "Approved"),
        hint="The order is processed. The webhook is on its way.",
    ),
    "declined": Row(
        ("Declined", "{reason}", NOTHING_CHARGED, "{paper}"), "outcome", "bad", "cross", "failed", seconds=5,
        is_brief=True,
        pill=("bad", "cross", "Declined"),
        hint="The order has failed, with this reason as its detail.",
    ),
    "remove_card": Row(
        ("Remove the card",), "outcome", "ok", "check", "done", actions=("remove_card",),
        pill=("look", "card", "Waits until the card is removed"),
        hint="Press the card in the terminal to remove it.",
        refuses="Remove the card from the slot first.",
    ),
    "unknown": Row(
        ("Outcome not known", "Do not charge again", "Paydesk asks the bank what happened"), "open",
        "look", "triangle", "failed", actions=("remove_card",), seconds=300, detail="check_on_terminal",
        pill=("look", "triangle", "Outcome unknown"),
        hint="The order is at check_on_terminal until the acquirer answers.",
        refuses="The outcome is not known yet: do not charge again.",
    ),
    "printing": Row(
        ("Printing", "Please take the receipt"), "printing", "plain", "printer", "works",
        actions=("remove_card",), is_brief=True, pill=("wait", "printer", "Prints"),
    ),
    "canceled": Row(
        ("Canceled", NOTHING_CHARGED), "end", "off", "dash", seconds=4, is_brief=True, pill=("off", "dash", "Canceled"),
        hint="The order is canceled, and the terminal is free again.",
    ),
    "expired": Row(
        ("Too late", "The order expired before the payment", NOTHING_CHARGED), "end", "off", "clock",
        seconds=4, is_brief=True, detail="expired", pill=("off", "clock", "Expired"),
        hint="The order has expired, and the terminal is free again.",
    ),
    "offline": Row(
        ("No connection", "{reason}", "It tries again by itself"), "between", "off", "offline",
        counts="Next try in {}", is_brief=True, pill=("bad", "wifi-off", "No network"),
        hint="No message leaves or arrives. Orders wait until the network is back.",
        refuses="The terminal has no network.",
    ),
    "off": Row(
        ("Switched off",), "between", "dark", actions=("power_on",), pill=("off", "plug", "Switched off"),
        hint="Plug it in: it continues from its journal.",
        refuses="The terminal is switched off. Plug it in first.",
    ),
    "rebooting": Row(
        ("Paydesk", "Starting", "{journal}"), "between", "off", "logo", counts="{} left", is_brief=True,
        pill=("wait", "restart", "Restarts"),
        hint="It starts again from its journal, as after a power cut.",
        refuses="The terminal is starting. Wait a few seconds.",
    ),
    "standalone": Row(
        ("{mode}", "{seller}", "This terminal takes no orders. Set its mode to PDV."), "between",
        pill=("off", "dash", "Standalone"),
        hint="In this mode a terminal takes no orders. An application sets it to PDV.",
        refuses="In this mode the terminal takes no orders.",
    ),
    "card_read": Row(("{sum}", "Card read", "{hold}"), "open", name="present_card"),
    "code_scanned": Row(("{sum}", "Code scanned", "{hold}"), "open", name="present_card"),
    "pin_entered": Row(("{sum}", "PIN entered", "{hold}"), "open", actions=("remove_card",), name="pin"),
    "canceled_at_till": Row(
        ("Canceled by the cashier", NOTHING_CHARGED), "end", detail="canceled_by_api", name="canceled",
    ),
    "canceled_on_terminal": Row(
        ("Canceled on the terminal", NOTHING_CHARGED), "end", detail="canceled_on_terminal", name="canceled",
    ),
    "undone": Row(("Declined", "The sale was undone", NOTHING_CHARGED), "outcome", name="declined"),
    "session_ended": Row(("{reason}",), "between", name="offline"),
    "print_action": Row(("Printing", "Please take the paper"), "printing", name="printing"),
    "not_printed": Row((NO_PAPER, "Nothing is printed", "Load a roll, then print again"), "printing", name="printing"),
}
# fmt: on

# The API lists the names in its document.
if TYPE_CHECKING:
    ScreenName = str
else:
    ScreenName = Literal[tuple(name for name, row in ROWS.items() if not row.name)]


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
    entry: str = ""
    """The action that presented it. An inserted card stays in the terminal until `remove_card`."""
    ends_ms: int | None = None
    """When the screen ends by itself, by the machine's clock in milliseconds, if that is known."""
    actions: tuple[str, ...] = ()
    """The names of the actions that it takes (`actions.py`), without those that every screen takes."""


def of(name: str, *, ends_ms: int | None = None, **texts: str) -> Screen:
    """Return the screen of that row, which belongs to no order."""
    row = ROWS[name]
    return Screen(row.name or name, _lines(row, texts), ends_ms=ends_ms, actions=row.actions)


class OrderScreens:
    """The screens of one order. `card` and `entry` are what the buyer presented, once that is known.

    `expires_ms` is when it expires by the machine's clock, if that is known.
    """

    def __init__(
        self, order: Mapping[str, Any], seller_name: str, kind: Kind = "terminal", expires_ms: int | None = None
    ) -> None:
        self.order, self._seller_name, self._kind, self._expires_ms = order, seller_name, kind, expires_ms
        self.order_id: str | None = order.get("id")
        self.card = ""
        self.entry = ""
        self.is_card_out = False
        """Whether the card was taken out after its PIN, before the terminal had finished."""
        self._currency = str(order.get("currency", ""))
        self._amount = spelled(str(order.get("amount", "")), self._currency)

    def screen(self, name: str, texts: Mapping[str, str] | None = None, **fields: Any) -> Screen:
        """Return the screen of that row, with the texts that it names.

        An outcome or an end is `remove_card` while a card is inserted.
        """
        row, is_inserted = ROWS[name], self.entry == "insert"
        hold = "Do not remove the card" if is_inserted else "The card is out" if self.is_card_out else "Please wait"
        known = {"sum": f"{self._amount} {self._currency}", "seller": self._seller_name, "hold": hold, "paper": ""}
        lines = _lines(row, {**known, **(texts or {})})
        about = {"status_detail": row.detail, "amount": self._amount, "card": self.card, "entry": self.entry, **fields}
        if is_inserted and row.stage in ("outcome", "end"):
            name, row, lines = "remove_card", ROWS["remove_card"], (*lines, *ROWS["remove_card"].lines)
        # The service asks the acquirer with a card alone.
        useless = {"scan" if self._kind == "service" else "", "" if is_inserted else "remove_card"}
        actions = tuple(action for action in row.actions if action not in useless)
        return Screen(row.name or name, lines, self.order_id, currency=self._currency, actions=actions, **about)

    def tip(self, percentages: tuple[int, ...]) -> Screen:
        """Return the question for a tip."""
        offered = ", ".join(f"{percent} %" for percent in percentages)
        return self.screen("tip", {"offered": offered}, choices=(0, *percentages))

    def present_card(self, tip: str = "", asked: str = "") -> Screen:
        """Return the request for a card, in these words if there are any, until the order expires."""
        preferred = (self.order.get("payment_method") or {}).get("default_type")
        is_by_qr = preferred == "qr" and self._kind != "service"
        usual = "Scan the QR code, or tap, insert or swipe a card" if is_by_qr else "Tap, insert or swipe a card"
        added = f"with a tip of {spelled(tip, self._currency)}" if tip else ""
        return self.screen("present_card", {"tip": added, "asked": asked or usual}, ends_ms=self._expires_ms)

    def pin(self, digits: int = 0, wrong: int = 0) -> Screen:
        """Return the request for the PIN, after this number of wrong ones."""
        left = TRIES_MAX - wrong
        again = f"Wrong PIN, {left} {'tries' if left > 1 else 'try'} left" if wrong and not digits else ""
        entered = f"{digits} digit{'s' if digits != 1 else ''} entered"
        return self.screen("pin", {"again": again, "entered": entered}, digits=digits)

    def presented(self) -> Screen:
        """Return the screen while the service is asked for the permit: it takes no more actions."""
        return self.screen("pin_entered" if self.entry == "insert" else "card_read" if self.card else "code_scanned")

    def outcome(self, result: Mapping[str, Any], receipt: Receipt | None = None, *, has_paper: bool = True) -> Screen:
        """Return the screen for the result that the terminal reports, or for the outcome of an inquiry."""
        paper = "" if has_paper or receipt is None else f"{NO_PAPER}: no receipt"
        receipt = receipt if has_paper else None
        match result.get("outcome"):
            case "approved":
                paid = spelled(result.get("paid_amount") or self._amount, self._currency)
                method = result.get("payment_method")
                card = described(method, result.get("card")) if method else ""
                texts = {"paid": f"{paid} {self._currency}", "card": card, "paper": paper}
                return self.screen("approved", texts, amount=paid, receipt=receipt)
            case "declined":
                detail = result.get("status_detail", "")
                reason = REASONS.get(detail, REASONS["rejected_other_reason"])
                texts = {"reason": reason, "paper": paper}
                return self.screen("declined", texts, status_detail=detail, receipt=receipt)
            case "canceled":
                return self.screen("canceled_on_terminal")
            case _:
                return self.screen("unknown")


def _lines(row: Row, texts: Mapping[str, str]) -> tuple[str, ...]:
    lines = (line.format_map(texts) for line in row.lines)
    return tuple(line for line in lines if line)
