"""The assets and templates of the pages: pinned scripts, nothing inline, nothing that the policy blocks."""

from __future__ import annotations

import gzip
import re
import tomllib
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import paydesk
from every_operation import OPERATIONS
from paydesk.core.errors import NOT_FOUND
from paydesk.platform.docs import site
from paydesk.platform.web import assets, html, language
from tables import each

SOURCES = Path(paydesk.__file__).parents[1]
VENDOR = SOURCES / "paydesk" / "platform" / "web" / "static" / "vendor"
TEMPLATES = sorted(SOURCES.rglob("*.html"))
SHEETS = sorted(SOURCES.rglob("static/*.css"))
SYMBOL = re.compile(r'<symbol id="([a-z-]+)" viewBox="0 0 16 16">')
ICON = re.compile(r'\bicon\("([a-z-]+)"')
JINJA = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)


def test_vendored_scripts_are_those_that_are_pinned() -> None:
    """Every file has its hash in `vendored.toml`, and there are no others."""
    packages = tomllib.loads((VENDOR / "vendored.toml").read_text()).values()
    pinned = {name: digest for package in packages for name, digest in package["sha256"].items()}
    assert {path.name: sha256(path.read_bytes()).hexdigest() for path in VENDOR.glob("*.js")} == pinned
    assert {path.name for path in VENDOR.iterdir()} - pinned.keys() == {
        "vendored.toml",
        *(package["license_file"] for package in packages),
    }


class _Markup(HTMLParser):
    """Collects what the policy of the pages blocks, or what leaves this service."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "style" or (tag == "script" and "src" not in given):
            self.faults.append(f"inline <{tag}>")
        for name, value in given.items():
            if name == "style" or name.startswith(("on", "hx-on", "hx-live", "data-hx-on", "data-hx-live")):
                self.faults.append(name)
            if "js:" in value or "javascript:" in value or (name.endswith("hx-trigger") and "[" in value):
                self.faults.append(f"{name}={value}")
            if name in {"href", "src", "action"} and re.match(r"[a-z]+:|//", value):
                self.faults.append(f"another host: {value}")


@each("template", TEMPLATES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_templates_have_nothing_that_the_policy_blocks(template: Path) -> None:
    """No inline script or style, no expression that htmx would evaluate, no other host."""
    markup = _Markup()
    markup.feed(JINJA.sub("", template.read_text()))
    assert markup.faults == []


@each(
    "text",
    ["<script>x</script>", "<style>x</style>", '<p style="x">', '<p onclick="x">', '<p hx-on:click="x">',
     '<p hx-live="x">', '<p hx-vals="js:{x}">', '<p hx-trigger="click[x]">',
     '<script src="https://cdn.example/x.js"></script>', '<img src="//cdn.example/x.png">'],
)  # fmt: skip
def test_the_check_of_templates_finds_each_fault(text: str) -> None:
    """One fault is found in each."""
    markup = _Markup()
    markup.feed(text)
    assert len(markup.faults) == 1


@each("sheet", SHEETS)
def test_style_sheets_load_nothing(sheet: Path) -> None:
    """No font, image or sheet of another address; a pattern of the page itself is none."""
    assert not re.search(r"url\((?!\"#)|@import|@font-face", sheet.read_text())


def test_only_the_shared_sheet_has_colours_of_the_tokens() -> None:
    """Other sheets use the custom properties, but for a drawn device: it looks the same in light and dark."""
    shared = SOURCES / "paydesk" / "platform" / "web" / "static" / "paydesk.css"
    tokens = set(re.findall(r"#[0-9a-f]{6}\b", shared.read_text()))
    assert len(tokens) > 40
    for sheet in SHEETS:
        if sheet != shared and sheet.name != "virtual.css":
            assert tokens.isdisjoint(re.findall(r"#[0-9a-f]{6}\b", sheet.read_text())), sheet.name


def test_every_named_icon_exists() -> None:
    """Each name in a template or in code is a symbol of the sprite, and no symbol is there twice."""
    symbols = SYMBOL.findall((SOURCES / "paydesk" / "platform" / "web" / "static" / "icons.svg").read_text())
    assert len(symbols) == len(set(symbols))
    written = "".join(path.read_text() for path in (*TEMPLATES, *SOURCES.rglob("*.py")))
    assert set(ICON.findall(written)) <= set(symbols)
    assert html.icon("check") == (
        f'<svg class="i" aria-hidden="true"><use href="{assets.path_of(assets.SHARED, "icons.svg")}#check"></use></svg>'
    )


def test_the_first_page_is_small() -> None:
    """All shared assets leave more than half of 60 KB to a page; those of the documentation are small too."""
    shared = sum(len(gzip.compress(content)) for content in assets.found(assets.SHARED).values())
    assert shared < 25_000
    assert sum(len(gzip.compress(content)) for content in assets.found(site.PACKAGE).values()) < 6_000


def test_only_pages_with_scripts_may_load_them() -> None:
    """The policy never permits inline scripts or `eval`, and a page without scripts has none."""
    refusal = NOT_FOUND.with_reason("unknown path")
    for scripts in (False, True):
        answer = html.page(
            "error.html", language.texts("en"), scripts=scripts, title="", text="", again="", refusal=refusal
        )
        policy = dict(answer.headers)["content-security-policy"]
        assert "unsafe" not in policy
        assert ("script-src 'self'; connect-src 'self'" in policy) is scripts
        assert (answer.body.count("<script") == 2) is scripts
        assert ('"includeIndicatorCSS": false' in answer.body) is scripts


def test_every_asset_has_one_address() -> None:
    """No two packages have an asset of the same name."""
    paths = [row.path for row in OPERATIONS if row.path.startswith(assets.PATH)]
    assert len(paths) == len(set(paths)) == len(list(SOURCES.rglob("static/*.*"))) + len(list(VENDOR.glob("*.js")))
