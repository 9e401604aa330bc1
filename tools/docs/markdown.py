"""Pages and tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tools.docs.glossary import linked


def page(*parts: str) -> str:
    """Return the page of these blocks: headings, texts, tables; its terms lead to the glossary."""
    return linked("\n\n".join(parts) + "\n")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table."""
    first, *others = (
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in (head, *rows)
    )
    return "\n".join((first, f"|{'---|' * len(head)}", *others))
