"""The commands that follow from the rows of the operator endpoints, as data: `commands/rows/<group>.json`.

Commands read it with `json` alone, so that they start without the operations and their models.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from paydesk.core.text.characters import FORBIDDEN_CLASS
from paydesk.core.text.sentences import First, Line, When, each, unconditional
from paydesk.operators.operations import OPERATIONS
from paydesk.operators.properties import Property, properties
from paydesk.operators.words import Action, Shown
from paydesk.platform.operation import Operation

Json = dict[str, Any]
FOLDER = "../src/paydesk/commands/tables/rows"
_MANY = ("choices", "lines", "numbers", "words")


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
    texts = (text.format_map(generic) for text in unconditional(words.says))
    sentences = [f"{text[:1].upper()}{text[1:]}" for text in texts]
    if row.role == "owner":
        sentences.append("For owners only.")
    is_gone = row.method == "DELETE" and row.answer is None
    if words.repeatable and words.checks is None and not is_gone:  # The command has no check that refuses a repetition.
        sentences.append("Repeatable.")
    # What is said about what is shown once holds if it is.
    once = [When(f"answer.{words.once.name}", text) for text in unconditional(words.once.warning)] if words.once else ()
    return _set(
        command=action.command,
        method=row.method,
        path=row.path,
        help=f"{row.summary}.\n\n{' '.join(sentences)}".rstrip(),
        examples=[f"paydesk {action.command} {one}".rstrip() for one in words.examples],
        generic=noun.generic,
        arguments=[
            {"name": name, "help": noun.argument[name], "pattern": row.path_pattern if name == names[-1] else ""}
            for name in names
        ],
        options=[*_options(row)],
        notes=[_note(line) for line in (*each(words.done), *once, *each(words.next))],
        deleted=noun.key if is_gone else "",
        gone=words.gone if words.gone != "deleted" else "",
        limit=words.limit,
        columns=[one.path for one in sorted(words.columns, key=lambda one: one.at) if one.at],
    )


def _options(row: Operation) -> Iterator[Json]:
    for one in properties(row.body) if row.body is not None else ():
        is_required = one.is_required and not (one.shown.default or one.shown.credential)
        many, joined = one.widget in _MANY, one.widget == "words"
        found = _option(one.name, one.shown, one.pattern, _type(one))
        yield {**found, **_set(many=many, joined=joined, required=is_required)}
    for parameter in row.query:
        schema, shown = parameter.schema, parameter.shown
        if isinstance(shown, Shown):
            is_flag = schema.get("type") == "boolean" or schema.get("enum") == ["true"]
            found = _option(parameter.name, shown, _pattern(schema), "flag" if is_flag else "string")
            yield {**found, "help": shown.help or parameter.description.replace("`", ""), "query": True}


def _pattern(schema: Mapping[str, Any]) -> str:
    """Return the pattern of an id. That of texts has invisible characters; the service judges them."""
    pattern: str = schema.get("pattern", "")
    return "" if FORBIDDEN_CLASS in pattern else pattern


def _option(name: str, shown: Shown, pattern: str, kind: str) -> Json:
    return _set(
        name=name,
        flags=shown.option or f"--{name.replace('_', '-')}",
        type=kind,
        none=shown.none,
        help=shown.help or shown.hint or f"{shown.label}.",
        default=shown.default,
        credential=shown.credential,
        checked=shown.checked,
        metavar=shown.metavar,
        pattern=pattern if (shown.metavar or "").endswith("ID") else "",
    )


def _type(one: Property) -> str:
    if one.widget == "password":
        return "password"
    if one.widget == "checkbox" or one.values == ("true", "false"):
        return "switch" if one.shown.metavar else "boolean"
    return "integer" if one.widget in ("number", "numbers") else "string"


def _note(line: Line) -> Any:
    if isinstance(line, str):
        return line
    return [_note(one) for one in line] if isinstance(line, First) else _set(**asdict(line))


def _set(**found: Any) -> Json:
    """Return what has a value."""
    return {name: value for name, value in found.items() if value}
