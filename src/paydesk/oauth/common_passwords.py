"""Common passwords, by a list of passwords and names that ships with the package (from zxcvbn, MIT)."""

from __future__ import annotations

import gzip
import string
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

CORE_LENGTH_MIN = 4
"""What is left of a password without the digits and signs around it must be longer than what a guess tries first."""

_AROUND = string.digits + string.punctuation + string.whitespace
_LETTERS = str.maketrans("@430!15$7+", "aaeoiisstt")
_ROWS = ("abcdefghijklmnopqrstuvwxyz", "qwertyuiopasdfghjklzxcvbnm", "qazwsxedcrfvtgbyhnujmikolp")


def is_common(password: str) -> bool:
    """Return whether the password is on the list, as it is or beneath what people add to a word to make it longer.

    Those are digits and signs around it, digits in place of letters, accents, and the word repeated. The first call
    takes about 10 ms, a later one about 1 ms: call it in a thread.
    """
    return any(_is_guessed_first(core) for core in _cores(_without_accents(password.lower())))


def _without_accents(text: str) -> str:
    return "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))


def _cores(text: str) -> Iterator[str]:
    """Yield the words that the password may have been made from."""
    for written in (text, text.rstrip(_AROUND), text.strip(_AROUND)):
        yield _unit(written)
        yield _unit(written.translate(_LETTERS))


def _unit(text: str) -> str:
    """Return the shortest text that gives this one when it is repeated."""
    return text[: (text + text).find(text, 1)]


def _is_guessed_first(core: str) -> bool:
    if len(core) < CORE_LENGTH_MIN or any(core in row or core[::-1] in row for row in _ROWS):
        return True
    return f"\n{core}\n".encode("utf-8", "replace") in _listed()


@cache
def _listed() -> bytes:
    """Return the list, one entry a line: a search of it takes 50 µs, and a set of it would take 4 MB."""
    return b"\n" + gzip.decompress(files("paydesk.oauth").joinpath("words", "common.txt.gz").read_bytes())
