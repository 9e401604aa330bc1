"""Writes the list of common passwords and names, refused as sellers' passwords, from the lists of zxcvbn."""

from __future__ import annotations

import gzip
from importlib.metadata import distribution
from pathlib import Path

from zxcvbn.frequency_lists import FREQUENCY_LISTS

FOLDER = Path(__file__).parents[1] / "src" / "paydesk" / "engine" / "sellers" / "words"
LISTS = ("passwords", "female_names", "male_names", "surnames")


def main() -> None:
    """Write the words, one per line, and their licence."""
    words = {word for name in LISTS for word in FREQUENCY_LISTS[name]}
    text = "".join(f"{word}\n" for word in sorted(words))
    (FOLDER / "common.txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    licence = distribution("zxcvbn").read_text("LICENSE.txt")
    assert licence, "the package contains its licence"
    (FOLDER / "LICENSE.txt").write_text(f"common.txt.gz is made of the word lists of zxcvbn.\n\n{licence}")


if __name__ == "__main__":
    main()
