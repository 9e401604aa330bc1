"""What the terminal printed, as HTML: both copies of a receipt, or the content of a print action.

Everything printed comes from applications, so it is only ever shown as text, as drawn codes, or as an image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from paydesk.sandbox.terminals.screen import Paper
from paydesk.web.html import environment

if TYPE_CHECKING:
    from markupsafe import Markup

PACKAGE = "paydesk.sandbox.virtual"


class Sheet(msgspec.Struct, frozen=True):
    """A print: its number, what is seen of it at the terminal, and each copy under its title."""

    number: int
    buyer: Markup
    copies: list[tuple[str, Markup]]


def sheet_of(paper: Paper, image_url: str) -> Sheet:
    """Return the print as HTML."""
    macros: Any = environment(PACKAGE).get_template("print.html").module
    if paper.receipt is not None:
        buyer, seller = macros.lines(paper.receipt.buyer), macros.lines(paper.receipt.seller)
        return Sheet(paper.number, buyer, [("Copy of the buyer", buyer), ("Copy of the seller", seller)])
    content = macros.image(image_url) if paper.image else macros.tagged(paper.text)
    return Sheet(paper.number, content, [("Print", content)])
