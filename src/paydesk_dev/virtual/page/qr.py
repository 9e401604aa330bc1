"""QR codes, such as of the address in a print action."""

from __future__ import annotations

import segno

CHARACTERS_MAX = 1_000


def svg_of(text: str) -> str:
    """Return the QR code as an SVG element for a page, which sizes it; black on white whatever the page's colours."""
    assert 0 < len(text) <= CHARACTERS_MAX, "a QR code has room for about 2,900 bytes"
    code = segno.make_qr(text, error="m")
    return code.svg_inline(border=4, dark="#000", light="#fff", svgclass="qr", lineclass=None, omitsize=True)
