"""ARCHITECTURE.md and CONTRIBUTING.md: the floors are those of the import contract, and the files exist."""

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


def test_the_picture_has_the_floors_of_the_import_contract() -> None:
    """In the same order: what is above imports from what is below."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    page = (ROOT / "ARCHITECTURE.md").read_text()
    drawn = page.partition("## The floors")[2].partition("```mermaid\n")[2].partition("```")[0]
    (arrows,) = re.findall(r"^ +(\w+(?: --> \w+)+)$", drawn, re.MULTILINE)
    assert arrows.split(" --> ") == contracts[0]["layers"]
    assert re.findall(r'^ +(\w+)\["<b>\1</b>', drawn, re.MULTILINE) == contracts[0]["layers"]


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


def test_a_way_names_as_many_files_as_its_heading_says() -> None:
    """The highest number of a heading, such as "7 files, 10 with its terminal", is that of the files below it."""
    ways = re.findall(r"^### (.*)\n((?:.+\n)+)", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert ways
    said = {heading: max(map(int, re.findall(r"\d+", heading))) for heading, _ in ways}
    assert said == {heading: len(_FILE.findall(files)) for heading, files in ways}


def test_every_package_is_a_room() -> None:
    """The table has each folder of the floors, and no other; those of the nouns and below are one room."""
    rooms = re.findall(r"^\| (`.*?) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    named = {name for room in rooms for name in re.findall(r"`(?:\w+/)*?(\w+)/`", room)}
    folders = {
        file.parent.name
        for floor in (*SOURCES.iterdir(), PACKAGES / "paydesk_dev")
        if floor.name != "operators"
        for file in floor.glob("*/__init__.py")
    }
    assert folders <= named
    assert named <= {folder.name for folder in PACKAGES.rglob("*") if folder.is_dir()}
