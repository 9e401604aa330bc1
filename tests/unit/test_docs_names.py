"""What Markdown files name exists: commands and their options, settings, and the terms of the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.docs import glossary

from markdown_files import FILES, ROOT
from paydesk.commands import cli
from paydesk.platform.settings import CLIENT_VARIABLES, PREFIX, Settings
from tables import each

_CODE = re.compile(r"^ *```(?:sh|text|console)\n(.*?)^ *```$|(?<!`)`([^`\n]+)`(?!`)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(
    r"(?:^|[|;&(]\s*|\$ |\b(?:until|do|then|run|while|exec|wsl) +|\b[A-Z_]+=\S* +|/bin/)paydesk +([^|;&()<>#\n]*)",
    re.MULTILINE,
)
_VARIABLE = re.compile(rf"\b{PREFIX}(?!VIRTUAL)([A-Z_]*[A-Z])\b")
_SETTING = re.compile(r"\[`(\w+)`\]\([^)]*settings\.md[^)]*\)|\bthe setting `(\w+)`")
PAGES = [page for page in FILES if page.name != "CHANGELOG.md" and ROOT / "tests" not in page.parents]
"""Without the changelog, with names of earlier versions, and the pages of tests, with variables of their own."""


def _commands(text: str) -> Iterator[list[str]]:
    """Yield the words after each `paydesk` of the code of a page."""
    for block, span in _CODE.findall(text):
        for line in _COMMAND.findall((block or span).replace("\\\n", " ")):
            yield line.split()


def _unknown(words: list[str]) -> str:
    """Return the first word that is no command, or no option of the command; empty if all are known."""
    node: Any = cli.tree()
    options = {"--help", "--version", "--install-completion"}
    if words[:1] == ["ready"]:
        return ""  # The first line of `paydesk dev`.
    for word in words:
        commands = getattr(node, "commands", None)
        if commands is not None and re.fullmatch(r"[a-z][a-z-]*", word):
            if word not in commands:
                return word
            node = commands[word]
            options |= {name for param in node.params for name in (*param.opts, *param.secondary_opts)}
        elif re.match(r"--[a-z]", word) and word.partition("=")[0].rstrip("`,.") not in options:
            return word
        elif commands is not None and not word.startswith("-"):
            return ""  # A placeholder, such as COMMAND.
    return ""


@each("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_exists(page: Path) -> None:
    """In blocks and in prose."""
    unknown = {" ".join(words): word for words in _commands(page.read_text()) if (word := _unknown(words))}
    assert unknown == {}


@each("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_setting_exists(page: Path) -> None:
    """Each variable, and each name that is called a setting or leads to the page of settings."""
    text = page.read_text()
    named = {name.lower() for name in _VARIABLE.findall(text) if f"{PREFIX}{name}" not in CLIENT_VARIABLES}
    named |= {name for pair in _SETTING.findall(text) for name in pair if name}
    assert named - Settings.model_fields.keys() == set()


def test_commands_of_a_page_are_found() -> None:
    """In a block, in a pipe, in a variable, behind another variable, and in prose."""
    block = "X=$(paydesk env | head)\nA=1 paydesk dev --tls \\\n  --nope # x\n.venv/bin/paydesk no such\n"
    text = f"`paydesk pay`\n```sh\n{block}```\n"
    assert [" ".join(words) for words in _commands(text)] == ["pay", "env", "dev --tls --nope", "no such"]
    assert [_unknown(words) for words in _commands(text)] == ["", "", "--nope", "no"]


@each("page", glossary.pages(), ids=lambda page: page.name)
def test_terms_are_linked_where_they_are_first_used(page: Path) -> None:
    """`python -m tools.docs.glossary` links them."""
    text = page.read_text()
    assert glossary.linked(text) == text


def test_every_term_is_in_the_glossary_once() -> None:
    """And the glossary has no other."""
    headings = re.findall(r"^## (.+)$", (glossary.DOCS / glossary.GLOSSARY).read_text(), re.MULTILINE)
    *terms, last = (heading.lower().replace(" ", "-") for heading in headings)
    assert terms == sorted(glossary.TERMS)
    assert last == "three-things-called-test"


def test_a_term_is_linked_once_and_not_in_code_or_tables() -> None:
    """At its first use in a sentence."""
    text = "# A lease\n\n| lease |\n|---|\n\n`lease` and [a lease](x.md), leases, a lease, a grant type.\n"
    expected = text.replace(", leases", ", [leases](glossary.md#lease)")
    assert glossary.linked(text) == expected
    assert glossary.linked(expected) == expected
