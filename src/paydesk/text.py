r"""The characters that a text in a request must not have, as a function and as a pattern of the documents.

They are control characters, line and paragraph separators, and the invisible and bidirectional format characters
(categories Cc, Zl, Zp and Cf of Unicode), with which one text can look like another. U+200C and U+200D are allowed:
Persian, the scripts of India and emoji are written with them.
"""

from __future__ import annotations

import re

FORBIDDEN_CLASS = (
    r"\x00-\x1f\x7f-\x9f"
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064"
    "\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
"""As of Unicode 16, for a class of a regular expression. The characters themselves, for the dialects that read the
patterns of the documents differ in their escapes, and Python's knows no categories."""

CHARACTER = f"[^{FORBIDDEN_CLASS}]"
VISIBLE = f"[^\\s\u200c\u200d{FORBIDDEN_CLASS}]"
PATTERN = f"^{CHARACTER}*$"
RULE = "must not contain control characters or invisible characters"

_FORBIDDEN = re.compile(f"[{FORBIDDEN_CLASS}]")
_JOINERS = re.compile("[\u200c\u200d]")


def has_forbidden(text: str) -> bool:
    """Whether the text has a character that it must not have."""
    # What is printable is quickly seen; white space beyond ASCII and joiners are not, and yet allowed.
    return not text.isprintable() and _FORBIDDEN.search(text) is not None


def is_blank(text: str) -> bool:
    """Whether nothing of the text can be seen: it has white space and joiners alone."""
    return not _JOINERS.sub("", text).strip()
