r"""The characters that a string in a request must not contain, as a function and as a pattern for JSON Schema.

They are control characters, line and paragraph separators, the invisible and bidirectional format characters
(categories Cc, Zl, Zp and Cf of Unicode), and the fillers of Hangul, with which one text can look like another. U+200C
and U+200D are allowed: Persian, the scripts of India and emoji are written with them.
"""

from __future__ import annotations

import re
import unicodedata

CONTROL_CLASS = r"\x00-\x1f\x7f-\x9f"
FORBIDDEN_CLASS = (
    f"{CONTROL_CLASS}"
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064"
    "\u2066-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
"""The content of a character class, as of Unicode 16. It has the characters themselves: the dialects of regular
expressions differ in their escapes, and Python's has no categories."""

_BASIC_CLASS = FORBIDDEN_CLASS[: FORBIDDEN_CLASS.index("\U000110bd")].replace("\u2028-\u202e", "\u202a-\u202e")

CHARACTER = f"[^{FORBIDDEN_CLASS}]"
VISIBLE = f"[^\\s\u200c\u200d{FORBIDDEN_CLASS}]"
PATTERN = f"^{CHARACTER}*$"
VISIBLE_PATTERN = f"^{CHARACTER}*{VISIBLE}{CHARACTER}*$"
RULE = "must not contain control characters or invisible characters"

_CONTROL = re.compile(f"[{CONTROL_CLASS}]")
_FORBIDDEN = re.compile(f"[{FORBIDDEN_CLASS}]")
_JOINERS = re.compile("[\u200c\u200d]")


def has_forbidden(text: str) -> bool:
    """Return whether the text contains a forbidden character."""
    # Most texts are ASCII, which is quick to check.
    return not text.isprintable() if text.isascii() else _FORBIDDEN.search(text) is not None


def ascii_pattern(pattern: str) -> str:
    """Return the pattern with escapes that all dialects know. It forbids no characters above U+FFFF: they have none.

    Generators write an escape of U+2028 as the character, which ends a line of their code. It is no `.` of ECMAScript.
    """
    basic = pattern.replace(FORBIDDEN_CLASS, _BASIC_CLASS)
    if basic != pattern:
        basic = f"^(?=.*$){basic.removeprefix('^')}"
    return "".join(one if one.isascii() else f"\\u{ord(one):04x}" for one in basic)


def visible(text: str) -> str:
    """Return the text on one line, with a space for each forbidden character, so that it cannot control a terminal."""
    return _FORBIDDEN.sub(" ", text) if has_forbidden(text) else text


def has_control(text: str) -> bool:
    """Return whether the text contains a control character (category Cc of Unicode)."""
    return _CONTROL.search(text) is not None


def canonical_email(text: str) -> str:
    """Return an e-mail address as it is stored and compared: without case, and composed, however it was typed (NFC)."""
    return unicodedata.normalize("NFC", text.strip().lower())


def is_blank(text: str) -> bool:
    """Return whether the text is invisible: empty, or white space and joiners only."""
    return not _JOINERS.sub("", text).strip()
