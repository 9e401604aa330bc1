"""The commands that follow from the rows of the operator endpoints, as data: `commands/rows/<group>.json`.

Commands read it with `json` alone, so that they start without the operations and their models.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from paydesk.core.sentences import First, Line, Lines, When, each, unconditional
from paydesk.operation import Operation
from paydesk.operators.operations import OPERATIONS
from paydesk.operators.properties import CHECKBOX, CHOICES, LINES, NUMBER, NUMBERS, WORDS, Property, properties
from paydesk.operators.words import Action, Shown

Json = dict[str, Any]
FOLDER = "../src/paydesk/commands/rows"
_MANY = (CHOICES, LINES, NUMBERS, WORDS)


def files() -> dict[str, Callable[[], str]]:
    """Return what makes each file, by its path from `docs/`."""
    groups = defaultdict[str, list[Json]](list)
    for row in OPERATIONS:
        if row.action is not None and row.action.command is not None:
            groups[row.action.command.partition(" ")[0]].append(_command(row, row.action))
    return {
        f"{FOLDER}/{name}.json": lambda rows=rows: json.dumps(rows, indent=1, ensure_ascii=False) + "\n"  # type: ignore[misc]
        for name, rows in sorted(groups.items())
    }


def _command(row: Operation, action: Action) -> Json:
    words, noun = action.words, action.noun
    names = [part.partition("}")[0] for part in row.path.split("{")[1:]]
    generic = {**noun.generic, **{name: name.upper() for name in names}}
    sentences = [_capital(text.format_map(generic)) for text in unconditional(words.says)]
    if row.role == "owner":
        sentences.append("For owners only.")
    is_gone = row.method == "DELETE" and row.answer is None
    if words.repeatable and words.checks is None and not is_gone:  # The command has no check that refuses a repetition.
        sentences.append("Repeatable.")
    once = () if words.once is None else _given(words.once.name, words.once.warning)
    found = {
        "command": action.command,
        "method": row.method,
        "path": row.path,
        "help": f"{row.summary}.\n\n{' '.join(sentences)}".rstrip(),
        "examples": [f"paydesk {action.command} {one}".rstrip() for one in words.examples],
        "generic": noun.generic,
        "arguments": [
            {"name": name, "help": noun.argument[name], "pattern": row.path_pattern if name == names[-1] else ""}
            for name in names
        ],
        "options": [*_options(row), *_parameters(row)],
        "notes": [_note(line) for line in (*each(words.done), *each(once), *each(words.next))],
        "deleted": noun.key if is_gone else "",
        "gone": words.gone if words.gone != "deleted" else "",
        "limit": words.limit,
        "columns": [one.path for one in sorted(words.columns, key=lambda one: one.at) if one.at],
    }
    return {name: value for name, value in found.items() if value}


def _given(name: str, lines: Lines) -> Lines:
    """Return the sentences about what is shown once, on the condition that it is."""
    return tuple(When(f"answer.{name}", text) for text in unconditional(lines))


def _options(row: Operation) -> Iterator[Json]:
    for one in properties(row.body) if row.body is not None else ():
        yield _option(one.name, one.shown, _type(one), many=one.widget in _MANY, joined=one.widget == WORDS,
                      required=one.is_required, pattern=one.pattern)  # fmt: skip


def _parameters(row: Operation) -> Iterator[Json]:
    for one in row.query:
        if isinstance(one.shown, Shown):
            kind = "flag" if one.schema.get("type") == "boolean" or one.schema.get("enum") == ["true"] else "string"
            pattern = one.schema.get("pattern", "")
            option = _option(one.name, one.shown, kind, pattern=pattern)
            yield {**option, "help": one.shown.help or one.description.replace("`", ""), "query": True}


def _option(
    name: str,
    shown: Shown,
    kind: str,
    *,
    many: bool = False,
    joined: bool = False,
    required: bool = False,
    pattern: str = "",
) -> Json:
    found = {
        "name": name,
        "flags": shown.option or f"--{name.replace('_', '-')}",
        "type": kind,
        "many": many,
        "joined": joined,
        "none": shown.none,
        "help": shown.help or shown.hint or f"{shown.label}.",
        "required": required and not (shown.default or shown.credential),
        "default": shown.default,
        "credential": shown.credential,
        "checked": shown.checked,
        "metavar": shown.metavar,
        "pattern": pattern if (shown.metavar or "").endswith("ID") else "",
    }
    return {key: value for key, value in found.items() if value}


def _type(one: Property) -> str:
    if one.widget == "password":
        return "password"
    if one.widget == CHECKBOX or one.values == ("true", "false"):
        return "switch" if one.shown.metavar else "boolean"
    return "integer" if one.widget in (NUMBER, NUMBERS) else "string"


def _note(line: Line) -> Any:
    if isinstance(line, First):
        return {"first": [_note(one) for one in line]}
    if isinstance(line, str):
        return line
    note = {"path": line.path, "text": line.text, "values": list(line.values), "otherwise": line.otherwise}
    return {name: value for name, value in note.items() if value}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
