"""The Markdown files of the project."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "examples", "tests", "bench", "deploy")
FILES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md")))
    if "node_modules" not in page.parts
)
