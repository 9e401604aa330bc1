"""Links the terms of docs/glossary.md where the running text of a page first uses them.

`python -m tools.docs.glossary` links those of the pages that are written by hand.
Generated pages are linked when they are made, by `markdown.page`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
GLOSSARY = "glossary.md"
TERMS = {
    "acquirer": r"[Aa]cquirers?",
    "adapter": r"[Aa]dapters?",
    "audit-trail": r"[Aa]udit trail",
    "confirmation": r"[Cc]onfirmations?",
    "device-token": r"[Dd]evice tokens?",
    "exhausted": r"`exhausted`",
    "grant": r"(?<!code )[Gg]rants?(?! type)",
    "idempotency-key": r"[Ii]dempotency keys?",
    "inquiry": r"[Ii]nquir(?:y|ies)",
    "journal": r"[Jj]ournals?",
    "late-approval": r"[Ll]ate approvals?",
    "lease": r"[Ll]eases?",
    "node": r"nodes?",
    "notification": r"[Nn]otifications?",
    "outbox": r"[Oo]utbox",
    "pairing": r"[Pp]airings?",
    "permit": r"(?:(?<=\ba )|(?<=\b[Tt]he ))permit",
    "presence": r"[Pp]resence",
    "print-action": r"[Pp]rint actions?",
    "provisional-approval": r"[Pp]rovisional approvals?",
    "reversal": r"[Rr]eversals?",
    "server-key": r"[Ss]erver keys?",
    "subscription": r"[Ss]ubscriptions?",
    "superseded": r"`superseded`",
    "switch": r"(?:(?<=\ba )|(?<=\bthe )|(?<=\byour ))switch",
    "test-token": r"[Tt]est tokens?",
    "token-family": r"[Tt]oken famil(?:y|ies)",
    "unknown-outcome": r"[Uu]nknown outcomes?|[Oo]utcome is unknown",
    "verdict": r"[Vv]erdicts?",
    "virtual-terminal": r"[Vv]irtual terminals?",
}
"""By anchor: how a page uses the term."""
_SKIPPED = re.compile(
    r"^ *```.*?^ *```$|<!--.*?-->|^#[^\n]*$|^ *\|[^\n]*$|!?\[[^\]]*\](?:\([^)]*\))?|<[^>\s]*>"
    r"|`(?!exhausted`|superseded`)[^`]*`",
    re.MULTILINE | re.DOTALL,
)
"""What is no running text: code, comments, headings, tables and links."""


def linked(text: str) -> str:
    """Return the page with a link to the glossary at the first use of each term that has none before it."""
    for anchor, use in TERMS.items():
        first = next(_uses(text, use), None)
        link = text.find(f"]({GLOSSARY}#{anchor})")
        if first is not None and not 0 <= link < first.start():
            text = f"{text[: first.start()]}[{first.group()}]({GLOSSARY}#{anchor}){text[first.end() :]}"
    return text


def _uses(text: str, use: str) -> Iterator[re.Match[str]]:
    """Yield the places of running text that use the term."""
    spans = [skipped.span() for skipped in _SKIPPED.finditer(text)]
    words = use.replace(" ", r"\s")
    for found in re.finditer(rf"(?<![\w/-]){words}(?![\w/-])", text):
        if not any(begin <= found.start() < end for begin, end in spans):
            yield found


def pages() -> list[Path]:
    """Return the pages whose terms are linked: all but the glossary, the index and those that programs compare."""
    return [page for page in sorted(DOCS.glob("*.md")) if page.name not in _NOT_LINKED]


_NOT_LINKED = frozenset({GLOSSARY, "README.md", "benchmarks.md", "first-mistakes.md"})


def main() -> None:
    """Link the terms of all pages."""
    for page in pages():
        page.write_text(linked(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
