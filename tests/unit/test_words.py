"""The vocabulary of what people read: plain standard English that names the actor."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUFFIXES = frozenset({".html", ".json", ".md", ".py", ".sql", ".toml"})
SKIPPED = frozenset({"__pycache__", "node_modules", Path(__file__).name})
READ = sorted(
    path
    for folder in ("src", "docs", "tests", "bench", "scripts", "tools", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in SUFFIXES and not SKIPPED & set(path.parts)
)

INSTEAD = {
    r"whoever|whosoever": "the actor: client, worker, node, terminal, acquirer",
    r"nobody|nobody's|somebody|someone|anybody": "the actor, or a passive sentence",
    r"strangers?": "external system, unknown caller, pending connection",
    r"wish|wishes|wished": "request",
    r"tells?|told": "notify, report, return, print",
    r"truth": "outcome, inquiry result",
    r"gives? way|gave way": "release",
    r"stands? in the way|stood in the way": "conflict",
}
"""Each pattern of words with what to write in their place."""
BANNED = re.compile(rf"(?<![\w-])(?:{'|'.join(INSTEAD)})(?![\w-])")
"""Of text in lower case: a search that ignores the case takes three times as long, in ten million characters."""


def test_no_banned_word_in_source_docs_or_tests() -> None:
    """Every sentence names the actor and says what it does."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in (*READ, ROOT / "README.md", ROOT / "CHANGELOG.md")
        for number, line in enumerate(path.read_text("utf-8").lower().splitlines(), 1)
        for match in BANNED.finditer(line)
    ]
    assert found == []


@pytest.mark.parametrize("word", ["whoever", "nobody", "stranger", "wish", "told", "tells", "truth", "gives way"])
def test_the_list_finds(word: str) -> None:
    """The pattern finds a banned word in a sentence and leaves longer words alone."""
    assert BANNED.search(f"It is {word} here.")
    assert BANNED.search(f"un{word}ly") is None
