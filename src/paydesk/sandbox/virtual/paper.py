"""What the terminal printed, as HTML: both copies of a receipt, or the content of a print action.

Everything printed comes from applications, so it is only ever shown as text, as drawn codes, or as an image.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from paydesk.sandbox.terminals.receipts import Paper
from paydesk.terminals import print_content, qr
from paydesk.terminals.print_content import InvalidContent, Piece
from paydesk.web.html import environment

if TYPE_CHECKING:
    from markupsafe import Markup

PACKAGE = "paydesk.sandbox.virtual"
PRINTS_KEPT = 64
"""Drawing a code takes longer than all the rest of the page."""
CODES_DRAWN_MAX = 10
"""In one print: all that fit into a text would take seconds and hundreds of kilobytes. The others are shown as text."""


class Sheet(msgspec.Struct, frozen=True):
    """A print: its number, what is seen of it at the terminal, and each copy under its title."""

    number: int
    visible: Markup
    copies: list[tuple[str, Markup]]


def sheet_of(paper: Paper, image_url: str) -> Sheet:
    """Return the print as HTML. `image_url` leads to its image, if it is one."""
    macros = _macros()
    if paper.receipt is not None:
        buyer, seller = macros.lines(paper.receipt.buyer), macros.lines(paper.receipt.seller)
        return Sheet(paper.number, buyer, [("Copy of the buyer", buyer), ("Copy of the seller", seller)])
    content = macros.image(image_url) if paper.image else tagged(paper.text)
    return Sheet(paper.number, content, [("Print", content)])


@lru_cache(PRINTS_KEPT)
def tagged(text: str) -> Markup:
    """Return a text with the tags of print actions as HTML; one with invalid tags as it is."""
    try:
        pieces = print_content.parse(text)
    except InvalidContent:
        pieces = [Piece("text", text)]
    return _macros().tagged(_lines(pieces))  # type: ignore[no-any-return]  # a template's macro


def _lines(pieces: list[Piece]) -> list[list[tuple[Piece, Markup | None]]]:
    """Return the pieces of each line, each with its drawn code. A code has a line of its own."""
    from markupsafe import Markup

    number, numbered = 0, list[tuple[int, Piece]]()
    for piece in pieces:
        if piece.kind != "text":
            number += 1
        numbered.append((number, piece))
        if piece.kind in ("qr", "pdf417"):
            number += 1
    drawn = [piece for piece in pieces if piece.kind == "qr"][:CODES_DRAWN_MAX]
    # The payload of a code is in the drawing alone, which has no text.
    drawings = {id(piece): Markup(qr.svg_of(piece.text)) for piece in drawn}  # noqa: S704
    return [
        [(piece, drawings.get(id(piece))) for _, piece in line]
        for _, line in groupby(numbered, key=lambda item: item[0])
    ]


def _macros() -> Any:
    return environment(PACKAGE).get_template("print.html").module
