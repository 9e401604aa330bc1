"""QR codes, such as of the address where a person approves a pairing."""

from __future__ import annotations

import io

import segno

CHARACTERS_MAX = 1_000


def svg_of(text: str) -> str:
    """Return the QR code as an SVG element for a page, which sizes it; black on white whatever the page's colours."""
    return _code(text).svg_inline(border=4, dark="#000", light="#fff", svgclass="qr", lineclass=None, omitsize=True)


def terminal_of(text: str) -> str:
    """Return the QR code as lines of block characters, for a text terminal of any background."""
    lines = io.StringIO()
    _code(text).terminal(lines, border=2, compact=True)
    return lines.getvalue()


def _code(text: str) -> segno.QRCode:
    assert 0 < len(text) <= CHARACTERS_MAX, "a QR code has room for about 2,900 bytes"
    return segno.make_qr(text, error="m")
