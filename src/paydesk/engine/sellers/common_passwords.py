"""Common passwords, by a list of passwords and names in the package (from zxcvbn, MIT)."""

from __future__ import annotations

import gzip
import string
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

LETTERS_MIN = 4
"""A password with fewer letters between digits and signs is guessed as fast as a listed word."""

SERVICE_NAME = "paydesk"

_AROUND = string.digits + string.punctuation + string.whitespace
_LETTERS = str.maketrans("@430!15$7+", "aaeoiisstt")
_ROWS = ("abcdefghijklmnopqrstuvwxyz", "qwertyuiopasdfghjklzxcvbnm", "qazwsxedcrfvtgbyhnujmikolp")


def is_common(password: str) -> bool:
    """Return whether the password is on the list, as it is or after the usual ways to lengthen a word are undone.

    Those are digits and signs around it, digits in place of letters, accents, and repetition. A password whose letters
    only repeat the name of the service is common too. The first call takes about 20 ms, a later one about 1 ms: call it
    in a thread.
    """
    signs = unicodedata.normalize("NFKD", password.lower())
    plain = "".join(sign for sign in signs if not unicodedata.combining(sign))
    for core in _cores(plain):
        letters = "".join(sign for sign in core if sign.isalpha())
        repeats_name = letters != "" and not letters.replace(SERVICE_NAME, "")
        if repeats_name or len(core) < LETTERS_MIN or any(core in row or core[::-1] in row for row in _ROWS):
            return True
        if f"\n{core}\n".encode("utf-8", "replace") in _word_list():
            return True
    return False


def has_few_letters(password: str) -> bool:
    """Return whether the password has fewer than `LETTERS_MIN` characters beside digits, signs and white space."""
    return sum(character not in _AROUND for character in password) < LETTERS_MIN


def _cores(text: str) -> Iterator[str]:
    """Yield the words that the password may have been made from."""
    unit = _unit(text)
    stripped = unit.strip(_AROUND)
    for written in (unit, unit.rstrip(_AROUND), stripped, _unit(stripped).strip(_AROUND)):
        yield _unit(written)
        yield _unit(written.translate(_LETTERS))


def _unit(text: str) -> str:
    """Return the shortest text of which this text is a repetition; the last may lack its trailing signs."""
    for length in range(1, len(text)):
        left = len(text) % length
        if left in (0, len(text[:length].rstrip(_AROUND))) and text.startswith(text[length:]):
            return text[:length]
    return text


@cache
def _word_list() -> bytes:
    """Return the list, one entry a line: a search of it takes 50 µs, and a set of it would take 4 MB."""
    words = files("paydesk.engine.sellers").joinpath("words", "common.txt.gz")
    return b"\n" + gzip.decompress(words.read_bytes())
