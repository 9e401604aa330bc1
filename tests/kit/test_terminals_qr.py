"""QR codes of what print actions have."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from paydesk_dev.virtual.page.view import svg_of

ADDRESS = "https://pay.example/console/pair?code=BCDFGHJK"


def test_svg_is_one_element_with_a_quiet_zone() -> None:
    """A page can include it as it is: it has no declaration, no script and no address."""
    text = svg_of(ADDRESS)
    root = ET.fromstring(text)  # noqa: S314 - our own text
    assert root.tag == "svg"
    side = 33 + 2 * 4
    assert root.attrib["viewBox"] == f"0 0 {side} {side}"
    assert not root.attrib.keys() & {"width", "height"}, "it is as large as the page draws it"
    assert "http" not in text
    assert svg_of(ADDRESS) == text != svg_of(ADDRESS.replace("BCDF", "ZZZZ"))


def test_empty_text_is_refused() -> None:
    """Nothing to show is a defect of the caller."""
    with pytest.raises(AssertionError):
        svg_of("")
