"""The documentation: links resolve, and generated pages are up to date."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest
from tools.docs import generated, lifecycles, settings

from every_operation import API, DOCUMENTED
from markdown_files import FILES as PAGES
from markdown_files import ROOT
from paydesk.core.errors import GONE
from paydesk.engine.events import readers
from paydesk.engine.events.readers import WAITING_PER_TOKEN_MAX
from paydesk.engine.orders import status
from paydesk.platform.http.openapi import document as openapi
from paydesk.platform.settings import Settings
from tables import each

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges make them."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    """Every link within the project names a file that exists, and a heading that is in it."""
    for link in _LINK.findall(_FENCE.sub("", page.read_text())):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_named_sources_exist(page: Path) -> None:
    """Every source file that the page names with its folder."""
    named = re.findall(r"`((?:\w+/)+\w+\.py)\b", page.read_text())
    assert [
        name
        for name in named
        if not any((folder / name).exists() for folder in (ROOT, ROOT / "src", ROOT / "src/paydesk"))
    ] == []


@each("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_write_into_one_folder_that_git_ignores(page: Path) -> None:
    """What they print may be secret. `.paydesk` is ignored, and only its user can read it."""
    code = "".join(re.findall(r"^ *```(?:sh|text)\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL))
    written: list[str] = re.findall(r"(?:(?<![-=<>&])>{1,2}|\btee |-keystore )([\w./-]+)", code)
    assert [name for name in written if not name.startswith((".paydesk/examples/", "/dev/"))] == []
    assert "/.paydesk/" in (ROOT / ".gitignore").read_text().splitlines()


def test_every_picture_is_shown_and_small() -> None:
    """Every picture exists, has a text, is used and is below 100 kB."""
    shown = {
        (page.parent / name).resolve(): text
        for page in PAGES
        for text, name in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", page.read_text())
    }
    assert all(picture.exists() and text for picture, text in shown.items())
    pictures = set((ROOT / "docs" / "images").iterdir())
    assert pictures
    assert pictures <= set(shown)
    for picture in pictures:
        assert picture.read_bytes().startswith(b"\x89PNG"), picture
        assert picture.stat().st_size < 100_000, picture


def test_generated_pages_are_up_to_date() -> None:
    """What `make check` refuses, a test refuses too."""
    assert generated.stale() == {}


def test_a_stale_page_is_named_with_the_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed or missing page is reported with its diff."""
    # The others take seconds; that all are up to date is the test above.
    pages = {name: generated.PAGES[name] for name in ("errors.md", "limits.md", "settings.md")}
    monkeypatch.setattr(generated, "PAGES", pages)
    generated.write(tmp_path)
    assert generated.stale(tmp_path) == {}
    changed = tmp_path / "settings.md"
    changed.write_text(changed.read_text().replace("# Settings", "# Knobs"))
    (tmp_path / "errors.md").unlink()
    differences = generated.stale(tmp_path)
    assert set(differences) == {"settings.md", "errors.md"}
    assert "-# Knobs\n+# Settings" in differences["settings.md"]


def test_the_lifecycle_has_every_state_and_move() -> None:
    """The page has every row of the table."""
    page = lifecycles.page_of_orders()
    assert all(f"`{state.payment_detail}`" in page for state in status.STATES)
    assert all(f"| `{move.name}` |" in page for move in status.MOVES)


def test_every_setting_is_described() -> None:
    """Each setting has a row with a description."""
    page = settings.page_of_settings()
    for name, field in Settings.model_fields.items():
        assert f"\n| `{name}` |" in page
        assert field.description, name


def test_the_limits_have_the_values_of_settings_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions are described by their settings; the number of waiting requests is that of the code."""
    page = settings.page_of_limits()
    for name in ("session_hours", "session_idle_minutes"):
        default = Settings.model_fields[name].default
        assert re.search(rf"`{name}`[^`]*\(default {default}\)", page)
    assert f"at most {WAITING_PER_TOKEN_MAX} requests wait" in page
    monkeypatch.setattr(readers, "WAITING_PER_TOKEN_MAX", 17)
    assert "at most 17 requests wait" in importlib.reload(settings).page_of_limits()
    monkeypatch.undo()
    importlib.reload(settings)


def test_every_error_comes_with_advice() -> None:
    """Each that an operation declares has advice."""
    declared = {kind for row in DOCUMENTED for kind in openapi.errors_in_order(row)}
    assert [kind.code for kind in (*declared, GONE) if not kind.advice] == []


def test_the_document_is_json() -> None:
    """The committed OpenAPI document is one that can be parsed."""
    assert json.loads(API.openapi_json())["openapi"] == "3.1.0"
