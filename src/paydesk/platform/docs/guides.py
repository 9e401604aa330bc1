"""The guides: the Markdown files of docs/ as parts of pages, with headings, working links and pictures.

They are in the package as it is installed, and beside it in a checkout. Each is rendered once, at its first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

PACKAGED, CHECKOUT = "guides", Path(__file__).parents[4] / "docs"
PATH = "/docs/guides/"
EXAMPLES = "examples"
"""The folder of the programs to which guides link, beside docs/ in a checkout."""
PROGRAMS = (".py", ".mjs", ".mts", ".php", ".rb", ".go", ".java", ".cs", ".sh", ".md")
"""What is served of it: a checkout may have other files there, also secret ones."""
INDEX = "README"
"""The file whose headings and lists are the sidebar."""
FILES = {
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
}
"""What is served as it is."""
DOCUMENTS = {"openapi.json": "/openapi.json"}
"""Files of docs/ that the service answers at another address."""
BEGINNING = "Begin"
"""The heading of the guides that the index names before its first heading."""
UNBROKEN_MAX = 15
LEVELS = ("h1", "h2", "h3", "h4")
_LINK = re.compile(r"([\w./-]*?)(?:#([\w-]+))?", re.ASCII)
_MARKDOWN_LINK = re.compile(r"(?<!!)\[([^\]\n]*(?:\n[^\]\n]+)?)\]\(([^)\s]+)\)")
_BREAK = re.compile(r"(?<=[\w)}][_/.,:=-])(?=\w)|(?<=/)(?=\{)")
_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading with the text of its section, up to the next heading."""

    level: int
    anchor: str
    title: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Guide:
    """A guide: its HTML, and its headings, the title first."""

    name: str
    html: str
    headings: tuple[Heading, ...]

    @property
    def title(self) -> str:
        """The first heading."""
        return self.headings[0].title if self.headings else self.name

    @property
    def url(self) -> str:
        """The address of the page."""
        return PATH + (self.name if self.name != INDEX else "")


@cache
def sources() -> dict[str, Traversable]:
    """Return the files that are served, by their paths below docs/."""
    packaged = files("paydesk.platform.docs").joinpath(PACKAGED)
    folder: Traversable = packaged if packaged.is_dir() else CHECKOUT
    within = [(prefix, folder.joinpath(prefix)) for prefix in ("", "images/")]
    found = {prefix + one.name: one for prefix, where in within if where.is_dir() for one in where.iterdir()}
    served = (path for path in sorted(found) if path.endswith((".md", *FILES)) and path not in DOCUMENTS)
    return {path: found[path] for path in served if found[path].is_file()}


@cache
def examples() -> dict[str, Traversable]:
    """Return the programs to which guides link, by their paths below examples/."""
    packaged = files("paydesk.platform.docs").joinpath(PACKAGED)
    folder: Traversable = packaged.joinpath(EXAMPLES) if packaged.is_dir() else CHECKOUT.with_name(EXAMPLES)
    return dict(_below(folder)) if folder.is_dir() else {}


def _below(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for one in folder.iterdir():
        if one.name.startswith((".", "_")):
            continue
        if one.is_dir():
            yield from _below(one, f"{prefix}{one.name}/")
        elif one.name.endswith(PROGRAMS):
            yield prefix + one.name, one


def guide(name: str) -> Guide | None:
    """Return a guide by its name, `README` for the index; None if there is none."""
    return _rendered(name) if f"{name}.md" in sources() else None


@cache
def _rendered(name: str) -> Guide:
    from markdown_it.common.utils import escapeHtml

    source, parser = sources()[f"{name}.md"], _parser()
    tokens = parser.parse(_COMMENT.sub("", source.read_text("utf-8")))
    headings = tuple(_with_anchors(tokens))
    for token in tokens:
        _with_links(token.children or [])
        if token.type == "fence" and token.info == "mermaid":
            token.type, text = "html_block", escapeHtml(token.content)
            token.content = f"<details><summary>Diagram as text</summary><pre><code>{text}</code></pre></details>\n"
    _with_row_ids(tokens)
    return Guide(name, str(parser.renderer.render(tokens, parser.options, {})), headings)


def markdown(name: str) -> str:
    """Return the Markdown of a guide with the addresses that this service answers; another link is its text."""

    def linked(match: re.Match[str]) -> str:
        address = _address(match[2])
        return match[1] if address is None else f"[{match[1]}]({address})"

    return _MARKDOWN_LINK.sub(linked, sources()[f"{name}.md"].read_text("utf-8"))


def every_guide() -> Iterator[Guide]:
    """Yield every guide but the index, by name."""
    for path in sources():
        one = guide(path.removesuffix(".md")) if path.endswith(".md") and path != f"{INDEX}.md" else None
        if one is not None:
            yield one


@cache
def groups() -> Mapping[str, Sequence[tuple[str, str]]]:
    """Return the sidebar: the addresses and titles of guides by the headings of the index; last those it lacks."""
    grouped: dict[str, list[tuple[str, str]]] = {}
    title, listed = BEGINNING, {PATH}
    index = sources().get(f"{INDEX}.md")
    tokens = _parser().parse(index.read_text("utf-8")) if index is not None else []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is not None and before.type == "heading_open":
            title = token.content if before.tag == "h2" else BEGINNING
        for link in token.children or []:
            address = _address(str(link.attrs.get("href", ""))) if link.type == "link_open" else ""
            one = guide(address.removeprefix(PATH)) if address and address.startswith(PATH) else None
            if one is not None and one.url not in listed:
                grouped.setdefault(title, []).append((one.url, one.title))
                listed.add(one.url)
    if others := [(one.url, one.title) for one in every_guide() if one.url not in listed]:
        grouped["More"] = others
    return grouped


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("code_inline", _breakable)
    return parser


def _breakable(_: Any, tokens: Sequence[Token], number: int, *__: Any) -> str:
    """Return inline code that may be broken within names and paths."""
    from markdown_it.common.utils import escapeHtml

    text, own = escapeHtml(tokens[number].content), tokens[number].attrs.get("id")
    opening = f'<code id="{own}">' if own else "<code>"
    return f"{opening}{_BREAK.sub(r'<wbr>', text) if len(text) > UNBROKEN_MAX else text}</code>"


def _with_anchors(tokens: Sequence[Token]) -> Iterator[Heading]:
    """Give each heading the anchor that forges give it, and yield them with the text that follows."""
    seen, heading, text = dict[str, int](), None, list[str]()
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and token.tag in LEVELS and after is not None:
            if heading is not None:
                yield Heading(*heading, " ".join(text))
            title = "".join(one.content for one in after.children or [])
            anchor = _NOT_IN_ANCHORS.sub("", title.lower()).replace(" ", "-")
            seen[anchor] = seen.get(anchor, -1) + 1
            anchor += f"-{seen[anchor]}" if seen[anchor] else ""
            token.attrs["id"] = anchor
            heading, text = (int(token.tag[1:]), anchor, title), []
            after.meta["is_heading"] = True
        elif token.type in ("inline", "fence") and "is_heading" not in token.meta:
            text.append("".join(one.content or " " for one in token.children or [token]))
    if heading is not None:
        yield Heading(*heading, " ".join(text))


def _with_row_ids(tokens: Sequence[Token]) -> None:
    """Give a row of a table the id of the first code that is a cell alone, such as a setting, or each error its id.

    A column without a heading gets a cell there, and a column of numbers a class: the policy blocks styles.
    """
    row: Any = None
    seen = {str(token.attrs["id"]) for token in tokens if "id" in token.attrs}
    for number, token in enumerate(tokens):
        if token.type == "th_open" and not tokens[number + 1].content:
            token.tag = tokens[number + 2].tag = "td"  # A heading without a text is none.
        if token.attrs.pop("style", "") == "text-align:right":
            token.attrs["class"] = "right"
        if token.type == "tr_open":
            row = token
        children = token.children or []
        if row is not None and re.match(r"\d{3} `", token.content):
            for one in (one for one in children if one.type == "code_inline" and one.content not in seen):
                one.attrs["id"] = one.content
                seen.add(one.content)
        elif row is not None and len(children) == 1 and children[0].type == "code_inline":
            name = children[0].content
            if "id" not in row.attrs and name not in seen and re.fullmatch(r"[\w.]+", name):
                row.attrs["id"] = name
                seen.add(name)


def _with_links(children: list[Token]) -> None:
    """Point links and pictures at what this service answers; a link to another file of the repository is its text."""
    opened = list[bool]()
    for token in list(children):
        if token.type == "link_open":
            address = _address(str(token.attrs["href"]))
            opened.append(address is not None)
            if address is None:
                children.remove(token)
            else:
                token.attrs["href"] = address
        elif token.type == "link_close" and not opened.pop():
            children.remove(token)
        elif token.type == "image":
            token.attrs["src"] = PATH + str(token.attrs["src"])


def _address(href: str) -> str | None:
    """Return the address of a link's target; None if the service does not answer it."""
    match = _LINK.fullmatch(href)
    if match is None or href.startswith("/"):
        return href if re.match(r"https?://|/", href) else None
    path, anchor = match[1], f"#{match[2]}" if match[2] else ""
    if not path:
        return anchor
    if path in DOCUMENTS:
        return DOCUMENTS[path]
    example = path.removeprefix(f"../{EXAMPLES}/")
    if example != path:
        return f"{PATH}{EXAMPLES}/{example}" if example in examples() else None
    if path not in sources():
        return None
    return PATH + ("" if path == f"{INDEX}.md" else path.removesuffix(".md")) + anchor
