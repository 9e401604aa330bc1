"""The words of operators' actions: each name in braces exists, each change has words in the audit trail."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

import paydesk
from every_operation import OPERATIONS
from paydesk.console.request import PATH
from paydesk.core.text.sentences import First, Lines, When, holding, text_of
from paydesk.operators.documents import Document
from paydesk.operators.noun import BASE, Noun
from paydesk.operators.properties import properties
from paydesk.operators.words import Words
from paydesk.platform.operation import Operation
from paydesk.service.audit_rows import OTHERS, words_of

ROWS = [row for row in OPERATIONS if row.action is not None]
NOT_RECORDED_ANY_MORE = {"subscriptions.clear_fault", "subscriptions.secrets.remove", "subscriptions.set_fault"}
AUDIT_NAME = re.compile(r"[a-z]+\.[a-z_]+(\.[a-z_]+)?", re.ASCII)
RECORDING = ("delete", "record", "record_secrets", "write", "change", "changed", "refetched")
"""The functions that take the name of an entry."""
NAMES: dict[str, Any] = {"name": "Ana", "status": "paused", "none": 0, "answer": {"list": [{"id": 7}], "count": 1}}


def all_words(row: Operation) -> Iterator[Words]:
    """Return the words of a row and of its further forms."""
    return iter((row.action.words, *row.action.words.forms))


def lines_of(words: Words) -> Iterator[Lines]:
    """Return all that is written about an action."""
    yield from (words.title, words.says, words.done, words.next, words.submit, words.impossible)
    yield from words.headers.values()
    if words.once is not None:
        yield from (words.once.label, words.once.warning)
    asked = words.asks or None
    for one in properties(asked) if asked is not None else ():
        yield from (one.shown.label, one.shown.hint)


def paths_in(lines: Lines) -> Iterator[str]:
    """Return the paths of values that sentences name or depend on: `answer.id` for `{answer[id]}`."""
    for line in lines if isinstance(lines, tuple) else (lines,):
        if isinstance(line, tuple):
            yield from paths_in(line)
            continue
        if isinstance(line, When):
            yield line.path
        for text in (line.text, line.otherwise) if isinstance(line, When) else (line,):
            names = (name for _, name, _, _ in Formatter().parse(text) if name)
            yield from (name.replace("[", ".").replace("]", "") for name in names)


def known_names(row: Operation, words: Words) -> set[str]:
    """Return what the sentences of a row can name, but for the answer."""
    noun = row.action.noun
    about = words.reads or noun.read or noun.path
    path = about.path if isinstance(about, Noun) else about
    readable = [one.answer for one in OPERATIONS if one.method == "GET" and one.path == f"{BASE}/{path}"]
    document = readable[0] if readable else about.document if isinstance(about, Noun) else noun.document
    is_new = row.action.verb == "create" and not words.reads
    parameters = re.findall(r"\{(\w+)\}", f"{row.path}{noun.page}{noun.forms}{words.form or ''}")
    return {
        "answer",
        "now",
        "caller_id",
        *parameters,
        *(() if is_new else fields_of(document)),
        *keys_of(noun.facts),
        *keys_of(words.facts),
    }


def fields_of(document: Any) -> tuple[str, ...]:
    """Return the properties of an answer."""
    return getattr(document, "__struct_fields__", ()) if isinstance(document, type) else ()


def keys_of(facts: Callable[[Document], Document] | None) -> set[str]:
    """Return the names that a function of facts gives, as its code has them."""
    if facts is None:
        return set()
    tree = ast.parse(textwrap.dedent(inspect.getsource(facts)).strip().removeprefix("facts=").rstrip(","))
    dicts = (node for node in ast.walk(tree) if isinstance(node, ast.Dict))
    return {str(key.value) for one in dicts for key in one.keys if isinstance(key, ast.Constant)}


def test_each_name_in_a_sentence_exists() -> None:
    """Of the object, its facts, the path or, under `answer`, the answer."""
    unknown = []
    for row in ROWS:
        for words in all_words(row):
            known, answered = known_names(row, words), {*fields_of(row.answer), *fields_of(row.action.noun.document)}
            for path in (path for lines in lines_of(words) for path in paths_in(lines)):
                first, _, rest = path.partition(".")
                if first not in known or (first == "answer" and rest.partition(".")[0] not in answered):
                    unknown.append((row.name, path))
    assert unknown == []


def test_each_change_has_words_in_the_audit_trail() -> None:
    """And in one place: its row, or the table of what has no row."""
    rows = {row.action.audit for row in ROWS if row.method != "GET"}
    assert [row.name for row in ROWS if row.method != "GET" and not row.action.words.did] == []
    assert rows & set(OTHERS) == set()
    assert recorded() - rows - set(OTHERS) == set()
    assert set(OTHERS) - recorded() == NOT_RECORDED_ANY_MORE


def test_each_entry_of_the_audit_trail_is_about_a_thing_with_a_page() -> None:
    """In words, and with a link only if the page is that of the subject and is still there."""
    assert [row.name for row in ROWS if "_" in row.action.noun.title] == []
    linked = {name: words_of(name, name.partition(".")[0], "7")[2] for name in recorded()}
    pages = {
        one.path.rpartition("/{")[0]
        for one in OPERATIONS
        if one.surface == "console" and one.path.endswith("}") and one.path.count("{") == 1
    }
    assert {f"{PATH}{of}" for of in linked.values() if of} - pages == set()
    assert linked["subscriptions.secrets.drop"] == "/webhooks/subscriptions"
    assert (linked["reversals.resolve"], linked["sellers.delete"], linked["pairings.deny"]) == ("", "", "")


def recorded() -> set[str]:
    """Return the names that the code records in the audit trail."""
    found = set()
    for file in Path(paydesk.__path__[0]).parent.rglob("*.py"):
        source = file.read_text()
        if "audit" not in source and "changed" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call):
                given = [*node.args, *(one.value for one in node.keywords if one.arg == "action")]
                texts_given = (
                    one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)
                )
                if ast.unparse(node.func).rpartition(".")[2].lstrip("_") in RECORDING:
                    found |= {text for text in texts_given if AUDIT_NAME.fullmatch(text)}
    return found


def test_each_action_with_a_command_has_an_example() -> None:
    """As the help shows it."""
    assert [row.name for row in ROWS if row.action.command is not None and not row.action.words.examples] == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("{name} is paused.", ["Ana is paused."]),
        (("One.", When("status", "Two.", ("paused",)), When("status", "Three.", ("active",))), ["One.", "Two."]),
        (When("none", "Set.", otherwise="Not set."), ["Not set."]),
        (When("none", "Zero.", (0,)), ["Zero."]),
        (When("missing.part", "Set."), []),
        (When("answer.list.0.id", "Secret {answer[list][0][id]}."), ["Secret 7."]),
        (When("answer.list.1", "Two.", otherwise="One."), ["One."]),
        (First(When("none", "A."), When("answer.count", "B.", (1,)), "C."), ["B."]),
        (("0.", First(When("none", "A."), "C.")), ["0.", "C."]),
        ("", []),
    ],
)
def test_sentences_that_hold(lines: Lines, expected: list[str]) -> None:
    """By their conditions, filled in."""
    assert holding(lines, NAMES) == expected
    assert text_of(lines, NAMES) == " ".join(expected)


def test_a_text_in_a_value_is_never_filled_in() -> None:
    """Names are chosen by people."""
    assert text_of("{name} is added.", {"name": "{answer} {0.__class__}"}) == "{answer} {0.__class__} is added."
