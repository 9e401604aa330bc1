"""Pages and tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def page(*parts: str) -> str:
    """Return the page of these blocks: headings, texts, tables."""
    return "\n\n".join(parts) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
