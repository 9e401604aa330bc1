"""The live parts of the page as HTML, made from what the terminal shows and printed.

Everything printed comes from applications, so it is only ever shown as text, as drawn codes, or as an image.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import segno

from paydesk.core import runtime
from paydesk.core.clock import MovableClock
from paydesk.core.errors import Refusal
from paydesk.engine.terminals.print_actions import content as print_content
from paydesk.engine.terminals.print_actions.content import InvalidContent, Piece
from paydesk.platform.web.html import environment
from paydesk_dev.virtual.page.access import Access
from paydesk_dev.virtual.page.looks import CARD_COLOURS
from paydesk_dev.virtual.terminal.panel import Exchanged, Panel
from paydesk_dev.virtual.terminal.receipts import Paper
from paydesk_dev.virtual.terminal.screens import ROWS, Row, Screen

if TYPE_CHECKING:
    from markupsafe import Markup

PACKAGE = "paydesk_dev.virtual.page"
PARTS = (
    "status", "hint", "paper", "copies", "lights", "glass", "slot", "faults", "messages", "played", "say",
)  # fmt: skip
"""The names of the live parts, in the order of their fingerprints."""
MESSAGES_SHOWN = 30
PRINTS_KEPT = 64
"""Drawing a code takes longer than all the rest of the page."""
CODES_DRAWN_MAX = 10
"""In one print: all that fit into a text would take seconds and hundreds of kilobytes. The others are shown as text."""
CODE_CHARACTERS_MAX = 1_000
CONTACTLESS, STUBBORN_CARD = ("tap", "phone"), "wrong_pin"
_USER_CODE = re.compile("[A-Z]{4}-[A-Z]{4}")


def parts(access: Access) -> dict[str, Markup]:
    """Return the live parts of the page by the ids of their elements."""
    panel, now_ms = access.panel, access.clock.now_ms()
    screen, paper = panel.screen, panel.paper
    local = datetime.fromtimestamp(now_ms / 1000).astimezone()
    zone, moved_ms = local.utcoffset() or timedelta(), now_ms - runtime.wall_ns() // 1_000_000
    is_frozen = isinstance(access.clock, MovableClock) and access.clock.frozen_ms is not None
    has_digits = screen.name == "pin" and screen.digits
    view = {
        "terminal_id": access.terminal_id,
        "screen": screen,
        "look": look_of(screen),
        "lines": _lines(screen),
        # What a screen reader says when the screen appears.
        "said": screen.lines[-1] if has_digits else ". ".join(screen.lines),
        # The colour of the card in the slot.
        "inserted": CARD_COLOURS.get(screen.card, "grey") if screen.entry == "insert" else "",
        "paper": _sheet(paper, access.address(f"/paper/{paper.number}")) if paper is not None else None,
        "is_paper_out": paper is not None and _is_out(paper, panel),
        "messages": [_line(message) for message in list(panel.messages)[: -MESSAGES_SHOWN - 1 : -1]],
        "is_online": panel.is_online,
        "has_paper": panel.has_paper,
        "script": access.script,
        "order_id": panel.order_id,
        # The time on the glass where it stands still, as that of the receipts.
        "clock": f"{local:%H:%M}" if is_frozen else "",
        # What it is ahead of UTC by the machine's clock, in whole seconds.
        "clock_ahead_ms": (round(moved_ms / 1000) + int(zone.total_seconds())) * 1000,
    }
    macros = _macros("parts.html")
    return {name: getattr(macros, name)(view) for name in PARTS}


def look_of(screen: Screen) -> Row:
    """Return the row of the screen as it looks now."""
    look = ROWS[screen.name]
    if screen.name == "authorizing" and screen.entry in CONTACTLESS:
        return msgspec.structs.replace(look, lights="tapped")
    if screen.name == "remove_card" and screen.status_detail not in (None, "accredited"):
        return msgspec.structs.replace(look, tone="bad", art="cross", lights="failed")
    if screen.name in ("present_card", "pin") and not {"press", "press_cancel"} & set(screen.actions):
        return msgspec.structs.replace(look, art="spinner", lights="works", hint="The terminal asks for the permit.")
    if screen.name == "pin" and screen.card == STUBBORN_CARD:
        return msgspec.structs.replace(look, hint="This card refuses every PIN: after the third it is blocked.")
    return look


def refused(refusal: Refusal, *, is_order: bool = False) -> dict[str, Markup]:
    """Return the parts of the page that show and say why an action, or the order in its form, was refused."""
    macros, message = _macros("parts.html"), refusal.public_message
    shown = {"order-refused": macros.order_refused(message)} if is_order else {}
    return {**(shown or {"hint": macros.refused(message, refusal.kind.code)}), "say": macros.said(message)}


def _lines(screen: Screen) -> list[tuple[str, str]]:
    """Return the lines that the page shows with their kinds: `amount`, `code`, one `title`, `text`.

    Lines that it draws instead, such as choices and the dots of a PIN, are left out.
    """
    shown, title = list[tuple[str, str]](), ""
    for line in screen.lines:
        if line == f"{screen.amount} {screen.currency}":
            shown.append(("amount", line))
        elif screen.name == "pairing" and _USER_CODE.fullmatch(line):
            shown.append(("code", line))
        elif title and (screen.choices or screen.name == "pin"):
            continue
        elif title or (screen.name == "present_card" and line.startswith("with a tip")):
            shown.append(("text", line))
        else:
            title = line
            shown.append(("title", line))
    return shown


def _is_out(paper: Paper, panel: Panel) -> bool:
    """Return whether the print is still in the terminal: the next order finds it taken."""
    screen = panel.screen
    if panel.stage == "outcome" or screen.receipt is not None:
        return paper.receipt is not None and paper.receipt == screen.receipt
    return panel.stage != "open" and screen.name != "pairing" and not panel.is_paper_taken


def _sheet(paper: Paper, image_url: str) -> dict[str, Any]:
    """Return the print: its number, what is seen of it at the terminal, and each copy under its title."""
    if paper.receipt is not None:
        macros = _macros("print.html")
        visible, seller = macros.lines(paper.receipt.buyer), macros.lines(paper.receipt.seller)
        copies = [("Copy of the buyer", visible), ("Copy of the seller", seller)]
    else:
        visible = _macros("print.html").image(image_url) if paper.image else tagged(paper.text)
        copies = [("Print", visible)]
    return {"number": paper.number, "visible": visible, "copies": copies}


@lru_cache(PRINTS_KEPT)
def tagged(text: str) -> Markup:
    """Return a text with the tags of print actions as HTML; one with invalid tags as it is."""
    try:
        pieces = print_content.parse(text)
    except InvalidContent:
        pieces = [Piece("text", text)]
    return _macros("print.html").tagged(_tagged_lines(pieces))  # type: ignore[no-any-return]  # a template's macro


def _tagged_lines(pieces: list[Piece]) -> list[list[tuple[Piece, Markup | None]]]:
    """Return the pieces of each line, each with its drawn code. A code has a line of its own."""
    from markupsafe import Markup

    lines, drawn, is_ended = list[list[tuple[Piece, Markup | None]]](), 0, True
    for piece in pieces:
        if is_ended or piece.kind != "text":
            lines.append([])
        is_ended, drawing = piece.kind in ("qr", "pdf417"), None
        if piece.kind == "qr" and drawn < CODES_DRAWN_MAX:
            # The payload of a code is in the drawing alone, which has no text.
            drawn, drawing = drawn + 1, Markup(svg_of(piece.text))  # noqa: S704
        lines[-1].append((piece, drawing))
    return lines


def svg_of(text: str) -> str:
    """Return the QR code of a text as an SVG element, which the page sizes: black on white whatever its colours."""
    assert 0 < len(text) <= CODE_CHARACTERS_MAX, "a QR code has room for about 2,900 bytes"
    code = segno.make_qr(text, error="m")
    return code.svg_inline(border=4, dark="#000", light="#fff", svgclass="qr", lineclass=None, omitsize=True)


def _macros(template: str) -> Any:
    return environment(PACKAGE).get_template(template).module


def _line(message: Exchanged) -> dict[str, object]:
    at = datetime.fromtimestamp(message.at_ms / 1000).astimezone()
    time = f"{at:%H:%M:%S}.{message.at_ms % 1000:03}"
    return {**msgspec.structs.asdict(message), "time": time, "iso": at.isoformat()}
