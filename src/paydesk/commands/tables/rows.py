"""The commands that follow from rows of the operator endpoints, as `rows/<group>.json` describes them."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import typer

from paydesk.commands.client import checked
from paydesk.commands.client.client import Answer, Service, segment
from paydesk.commands.client.command import command
from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.client.options import After, Limit, show_list
from paydesk.core.text.sentences import First, When, holding, value_at

Row = Mapping[str, Any]
_KINDS: Mapping[str, Any] = {"string": str, "integer": int, "switch": Literal["on", "off"]}
LIMIT = 200


def _parameter(name: str, kind: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)


AS_JSON = _parameter("as_json", bool, default=False)


def add_rows(app: typer.Typer, group: str) -> typer.Typer:
    """Add the commands of a group, such as `apps secrets`, that rows describe; return the group."""
    for row in _rows(group.partition(" ")[0]):
        prefix, _, name = row["command"].rpartition(" ")
        if prefix == group:
            work = _list(row) if "columns" in row else _command(row)
            work.__doc__ = row["help"]
            command(app, name, *row["examples"])(work)
    return app


def row_of(name: str) -> Row:
    """Return the row of a command such as `orders list`."""
    return next(row for row in _rows(name.partition(" ")[0]) if row["command"] == name)


def show_page(service: Service, row: Row, query: Mapping[str, Any], *, as_json: bool) -> bool:
    """Get and print one page of a list; return whether it has rows."""
    from paydesk.commands.tables.cells import FLAT

    answer, flat = service.get(row["path"], query), FLAT.get(row["command"], dict)
    rows = [{path: value_at(one, path) for path in row["columns"]} for one in map(flat, answer["data"])]
    show_list({**answer, "data": answer["data"] if as_json else rows}, row["columns"], as_json=as_json)
    return bool(rows)


def with_options(work: Any, row: Row, *others: Parameter) -> Any:
    """Return the function as if it had the options of a row, and others; `command` gives them to typer."""
    service = Parameter("service", Parameter.POSITIONAL_OR_KEYWORD, annotation=Service)
    options = (parameter for one in row.get("options", ()) for parameter in _option(one))
    work.__signature__ = inspect.Signature([service, *options, *others])
    return work


def _rows(group: str) -> list[Row]:
    rows: list[Row] = json.loads(Path(__file__).with_name("rows").joinpath(f"{group}.json").read_bytes())
    return rows


def _command(row: Row) -> Any:
    """Return the function of a command."""
    arguments, options = row.get("arguments", ()), row.get("options", ())

    def work(service: Service, **typed: Any) -> tuple[Answer, str]:
        ids = {one["name"]: typed[one["name"]] for one in arguments}
        sent = {one["name"]: value for one in options if (value := _value(one, typed, service)) is not None}
        query = {one["name"]: sent.pop(one["name"]) for one in options if one.get("query") and one["name"] in sent}
        if row["method"] == "PATCH" and not sent:
            raise WrongUsage("Nothing to change. Give at least one option; see --help.")
        path = row["path"].format_map({name: segment(text) for name, text in ids.items()})
        target = f"{path}?{urlencode(query)}" if query else path
        answer = service.request(row["method"], target, sent if row["method"] in ("POST", "PATCH", "PUT") else None)
        names = {**row.get("generic", {}), **ids, **answer, "answer": answer}
        if "deleted" in row:
            answer = {row["deleted"]: next(reversed(ids.values())), row.get("gone", "deleted"): True}
        return answer, "\n".join(_notes(row, names))

    parameters = (
        _parameter(
            one["name"],
            Annotated[str, typer.Argument(metavar=one["name"].upper(), help=one["help"], callback=_check(one))],
        )
        for one in arguments
    )
    return with_options(work, row, *parameters)


def _notes(row: Row, names: Mapping[str, Any]) -> Iterator[str]:
    """Yield what happened and what to do next; words for an object that has no name here begin with a capital."""
    generic = tuple(row.get("generic", {}).values())
    for line in map(_line, row.get("notes", ())):
        # A service of another version may answer without a property: its answer is printed all the same.
        with contextlib.suppress(LookupError, TypeError):
            for note in holding(line, names):
                yield f"{note[:1].upper()}{note[1:]}" if note.startswith(generic) else note


def _list(row: Row) -> Any:
    """Return the function of a command that prints a list."""

    def work(service: Service, *, as_json: bool, limit: int, after: str | None, **typed: Any) -> None:
        query = {one["name"]: _value(one, typed, service) for one in row.get("options", ())}
        show_page(service, row, {**query, "limit": limit, "after": after}, as_json=as_json)

    limit = _parameter("limit", Limit, row.get("limit", LIMIT))
    return with_options(work, row, limit, _parameter("after", After, None), AS_JSON)


def _option(one: Row) -> Iterator[Parameter]:
    """Yield the parameter of an option, and that of its opposite, which sends an empty list."""
    single, is_required = _KINDS.get(one["type"], bool), "required" in one
    kind: Any = GenericAlias(list, (single,)) if "many" in one else single
    default = one.get("default", Parameter.empty if is_required else None)
    check = getattr(checked, one["checked"]) if "checked" in one else _check(one) if "pattern" in one else None
    is_shown = "default" in one
    if one["type"] == "flag":
        check, default, is_shown = _word(default), None, False
    option = typer.Option(
        one["flags"], metavar=one.get("metavar"), help=one["help"], show_default=is_shown, callback=check
    )
    if one["type"] == "password":
        yield _parameter(one["name"], Annotated[bool, option], default=False)
    else:
        yield _parameter(one["name"], Annotated[kind if is_required else kind | None, option], default)
    if "none" in one:
        words = one["none"].strip("-").replace("-", " ").capitalize()
        yield _parameter(
            f"no_{one['name']}", Annotated[bool, typer.Option(one["none"], help=f"{words}.")], default=False
        )


def _value(one: Row, typed: Mapping[str, Any], service: Service) -> Any:
    """Return what an option sends; None if it was not given. Raises `WrongUsage`."""
    value = typed[one["name"]]
    if one["type"] == "password":
        if not value:
            return None
        # From standard input: an argument would be visible in the process list.
        password = sys.stdin.readline().rstrip("\r\n")
        if not password:
            raise WrongUsage("There is no password on standard input. Send it as one line.")
        return password
    if typed.get(f"no_{one['name']}"):
        if value:
            raise WrongUsage(f"Give either {one['flags']} or {one['none']}.")
        return []
    if one.get("many"):
        return (" ".join(value) if one.get("joined") else value) if value else None
    if one["type"] == "switch":
        return None if value is None else value == "on"
    if value is None and "credential" in one:
        value = service.credentials.document.get(one["credential"])
        if value is None:
            raise WrongUsage(f"The credentials have no {one['credential']}. Add {one['flags']}.")
    return value


def _check(one: Row) -> Callable[[str | None], str | None]:
    """Return what checks an id before anything is sent."""
    pattern = one.get("pattern") or ".+"

    def check(text: str | None) -> str | None:
        """Return the id, in upper case if that is how it is written. Raises `WrongUsage` if it cannot be one."""
        if text is None:
            return None
        accepted = next((sent for sent in (text, text.upper()) if re.fullmatch(pattern, sent)), None)
        if accepted is None:
            raise WrongUsage(f"{one['name'].upper()} is malformed: give an id as the lists show it.")
        return accepted

    return check


def _word(default: str | None) -> Callable[[Any], str | None]:
    """Return what makes of a flag the text of a query. With a default it is sent without the flag, nothing with it."""

    def word(value: Any) -> str | None:
        if default is not None:
            return None if value else default
        return None if value is None else str(value).lower()

    return word


def _line(note: Any) -> Any:
    return First(*map(_line, note)) if isinstance(note, list) else When(**note) if isinstance(note, dict) else note
