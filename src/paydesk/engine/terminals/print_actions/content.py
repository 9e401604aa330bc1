"""The text of a print action with its tags, such as `{center}{b}Coupon{/b}{/center}{br}{qr}https://…{/qr}`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from paydesk.core.text import card_numbers

Kind = Literal["text", "break", "qr", "pdf417"]
Align = Literal["left", "center"]

CODE_BYTES_MAX: dict[str, int] = {"qr": 1_000, "pdf417": 800}
"""The most that fits into a code that a receipt printer of 58 mm prints legibly, in UTF-8."""
STYLES = ("b", "w", "s")
ALIGNMENTS: tuple[Align, ...] = ("left", "center")
TAGS = ("br", *STYLES, *ALIGNMENTS, *CODE_BYTES_MAX)
_NAME_CHARACTERS_MAX = 20


class InvalidContent(ValueError):
    """The text has a tag that is unknown, not closed or not open. The message names it and its position."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the printed text. `text` is that of a `text`, or the payload of a `qr` or `pdf417` code."""

    kind: Kind
    text: str = ""
    bold: bool = False
    wide: bool = False
    small: bool = False
    align: Align = "left"


@dataclass(frozen=True, slots=True)
class _Tag:
    name: str
    at: int

    def fault(self, problem: str) -> InvalidContent:
        return InvalidContent(f"the tag {{{self.name}}} at character {self.at + 1} {problem}")


def parse(text: str) -> list[Piece]:
    """Return the parts of the text in their order. Raises `InvalidContent`.

    Tags are closed in the reverse order of their opening. Between `{qr}` and `{/qr}`, and likewise for `{pdf417}`,
    there are no tags: the text is the code's payload.
    """
    pieces: list[Piece] = []
    open_tags: list[_Tag] = []
    end = 0
    while (start := text.find("{", end)) >= 0:
        if start > end:
            pieces.append(_piece("text", text[end:start], open_tags))
        tag, end = _tag_at(text, start)
        if tag.name == "br":
            pieces.append(_piece("break", "", open_tags))
        elif tag.name in CODE_BYTES_MAX:
            payload, end = _payload(text, tag, end)
            pieces.append(_piece("qr" if tag.name == "qr" else "pdf417", payload, open_tags))
        elif tag.name.startswith("/"):
            if not open_tags or open_tags[-1].name != tag.name[1:]:
                latest = f"; {{{open_tags[-1].name}}} is to be closed first" if open_tags else ""
                raise tag.fault(f"closes no open tag{latest}")
            open_tags.pop()
        else:
            open_tags.append(tag)
    if end < len(text):
        pieces.append(_piece("text", text[end:], open_tags))
    if open_tags:
        raise open_tags[-1].fault("is not closed")
    return pieces


def printed_text(pieces: Iterable[Piece]) -> str:
    """Return what is printed without tags: a break is a space, and codes are between spaces."""
    return "".join(piece.text if piece.kind == "text" else f" {piece.text} " for piece in pieces)


def _piece(kind: Kind, text: str, open_tags: list[_Tag]) -> Piece:
    names = {tag.name for tag in open_tags}
    align = next((name for tag in reversed(open_tags) for name in ALIGNMENTS if tag.name == name), ALIGNMENTS[0])
    return Piece(kind, text, bold="b" in names, wide="w" in names, small="s" in names, align=align)


def _tag_at(text: str, start: int) -> tuple[_Tag, int]:
    """Return the tag that begins there, and where it ends."""
    end = text.find("}", start, start + _NAME_CHARACTERS_MAX + 2)
    if end < 0:
        raise InvalidContent(f"the {{ at character {start + 1} begins no tag; the tags are {_listed()}")
    tag = _Tag(text[start + 1 : end], start)
    if tag.name not in TAGS and (tag.name == "/br" or tag.name.removeprefix("/") not in TAGS):
        # Its name is shown, and may be anything that was sent.
        raise _Tag(card_numbers.masked(tag.name), start).fault(f"is unknown; the tags are {_listed()}")
    return tag, end + 1


def _listed() -> str:
    return " ".join(f"{{{name}}}" for name in TAGS)


def _payload(text: str, tag: _Tag, start: int) -> tuple[str, int]:
    """Return the payload of a code, and where its closing tag ends."""
    closing = f"{{/{tag.name}}}"
    end = text.find(closing, start)
    if end < 0:
        raise tag.fault("is not closed")
    payload, bytes_max = text[start:end], CODE_BYTES_MAX[tag.name]
    if not payload:
        raise tag.fault("has no content")
    if len(payload.encode()) > bytes_max:
        raise tag.fault(f"has more than {bytes_max} bytes")
    return payload, end + len(closing)
