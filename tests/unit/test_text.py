"""Forbidden characters: the function and the pattern for JSON Schema agree on every character of Unicode."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator

import jsonschema_rs
import pytest

from paydesk.core.text import characters as text

JOINERS = {"\u200c", "\u200d"}
HANGUL_FILLERS = {"\u115f", "\u1160", "\u3164", "\uffa0"}
"""They are letters, and invisible."""


def every_character() -> Iterator[str]:
    """Yield every character of Unicode."""
    return (chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point <= 0xDFFF)


def test_control_format_and_separator_characters_are_forbidden() -> None:
    """Categories Cc, Cf, Zl and Zp without the two joiners, and the fillers of Hangul.

    Characters new to this interpreter are not compared.
    """
    for character in every_character():
        category = unicodedata.category(character)
        if category != "Cn":
            expected = (
                category in ("Cc", "Cf", "Zl", "Zp") and character not in JOINERS
            ) or character in HANGUL_FILLERS
            assert text.has_forbidden(character) is expected, hex(ord(character))


def test_the_pattern_of_the_documents_forbids_the_same_characters() -> None:
    """A JSON Schema validator accepts exactly the same characters."""
    validator = jsonschema_rs.validator_for({"type": "string", "pattern": text.PATTERN})
    for character in every_character():
        assert validator.is_valid(f"a{character}b") is not text.has_forbidden(character), hex(ord(character))


@pytest.mark.parametrize(
    ("written", "blank"),
    [("", True), (" \u2003\u3000", True), ("\u200d \u200c", True), ("a", False), (" \u0301", False)],
)
def test_a_text_without_a_visible_character_is_blank(written: str, blank: bool) -> None:  # noqa: FBT001
    """White space of any kind and joiners are invisible."""
    assert text.is_blank(written) is blank
