"""QR codes of the addresses where pairings are approved."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from paydesk_dev.virtual.page import qr

ADDRESS = "https://pay.example/console/pair?code=BCDFGHJK"


def test_svg_is_one_element_with_a_quiet_zone() -> None:
    """A page can include it as it is: it has no declaration, no script and no address."""
    text = qr.svg_of(ADDRESS)
    root = ET.fromstring(text)  # noqa: S314 - our own text
    assert root.tag == "svg"
    side = 33 + 2 * 4
    assert root.attrib["viewBox"] == f"0 0 {side} {side}"
    assert not root.attrib.keys() & {"width", "height"}, "it is as large as the page draws it"
    assert "http" not in text
    assert qr.svg_of(ADDRESS) == text != qr.svg_of(ADDRESS.replace("BCDF", "ZZZZ"))


def test_code_of_a_text_terminal_is_square() -> None:
    """Two modules a character, so a line has as many characters as two lines have modules."""
    lines = qr.terminal_of(ADDRESS).splitlines()
    assert {len(line) for line in lines} == {33 + 2 * 2}
    assert len(lines) == (33 + 2 * 2 + 1) // 2
    assert set("".join(lines)) <= set(" █▀▄")


def test_empty_text_is_refused() -> None:
    """Nothing to show is a defect of the caller."""
    with pytest.raises(AssertionError):
        qr.svg_of("")
