"""ARCHITECTURE.md and CONTRIBUTING.md: the packages are those of the import contract, and the files exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "paydesk"
PACKAGES = ROOT / "src"
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
_FILE = re.compile(r"`((?:[\w.-]+/)*[\w.*-]+\.(?:py|toml|md))\b")


def test_the_packages_are_the_layers_of_the_import_contract() -> None:
    """In the same order: what is above imports from what is below."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [set(layer.split(" | ")) for layer in contracts[0]["layers"]]
    page = (ROOT / "ARCHITECTURE.md").read_text()
    drawn = page.partition("## Packages")[2].partition("```text\n")[2].partition("```")[0]
    shown: list[set[str]] = []
    for line in drawn.splitlines():
        names = set(re.split(r" · ", line[:32].strip(" ·")))
        if line.startswith(" "):
            shown[-1] |= names
        else:
            shown.append(names)
    assert shown == layers


@pytest.mark.parametrize("page", PAGES)
def test_every_named_file_exists(page: str) -> None:
    """Files are named from the project's root, from `src` or `src/paydesk`, or by a name that several packages have."""
    names = set(_FILE.findall((ROOT / page).read_text()))
    assert names or page == "SECURITY.md"
    missing = [
        name
        for name in names
        if not any(list(folder.glob(name)) for folder in (ROOT, SOURCES, PACKAGES))
        and not ("/" not in name and list(PACKAGES.rglob(name)))
    ]
    assert missing == []
