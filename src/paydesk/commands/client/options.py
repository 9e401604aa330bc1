"""Options that many commands share, and the output: JSON, a table, or names with values."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

FOLDED_WIDTH_MIN, WORD_WIDTH_MAX = 16, 40
"""In a table on a terminal the last column, often a text, may be this narrow; longer words are folded anywhere."""
FOLDED_COLUMNS = frozenset({"url", "path"})
"""These may be as narrow as the last one, wherever they are."""
CELL_PADDING, TABLE_PADDING = 3, 1
_SEPARATORS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
"""The characters that separate columns and lines; in a value each becomes a space."""
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""The characters that could control a terminal or reverse a text, and those that UTF-8 cannot encode."""

AsJson = Annotated[bool, typer.Option("--json", help="Print only the response, as JSON.")]
CredentialsFile = Annotated[
    Path | None,
    typer.Option(
        "--credentials",
        metavar="FILE",
        help="The file that `paydesk dev` writes. [default: PAYDESK_CREDENTIALS, else .paydesk/credentials.json]",
    ),
]
Limit = Annotated[int, typer.Option(min=1, max=200, help="The maximum number of rows.")]
After = Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue an earlier list: the value of its `next`.")]
OfSeller = Annotated[int | None, typer.Option(metavar="USER_ID", help="Only rows of this seller.")]


top = typer.Typer(rich_markup_mode="markdown")
"""The commands that are in no group, `paydesk <verb>`: each module adds its own."""


def group(help_text: str) -> typer.Typer:
    """Return a group of commands, the noun of `paydesk <noun> <verb>`."""
    return typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode="markdown")


def examples(*lines: str) -> str:
    """Return the examples below a command's help."""
    return "Examples:\n\n" + "\n\n".join(f"`{line}`" for line in lines)


def show(answer: Mapping[str, Any], text: str | None = None, *, as_json: bool) -> None:
    """Print one object: as JSON, or the text that says the same, by default its names with their values."""
    if as_json:
        _print_json(answer)
        return
    if text is not None:
        sys.stdout.write(harmless(text) + "\n")
        return
    width = max(map(len, answer), default=0)
    for name, value in answer.items():
        line = f"{typer.style(f'{name:<{width}}', dim=True)}  {harmless(_text(value))}"
        typer.echo(line, color=False if os.environ.get("TERM") == "dumb" else None)


def show_list(answer: Mapping[str, Any], columns: Sequence[str], *, as_json: bool) -> None:
    """Print a list: a table on a terminal, tab-separated lines elsewhere, the bare array with `--json`."""
    rows: Sequence[Mapping[str, Any]] = answer["data"]
    if as_json:
        _print_json(rows)
    elif sys.stdout.isatty():
        _print_table(rows, columns)
    else:
        for row in rows:
            sys.stdout.write("\t".join(harmless_line(_cell(row.get(column))) for column in columns) + "\n")
    if "next" in answer:
        note(f"The list is incomplete. Continue with --after {answer['next']}")


def note(message: str) -> None:
    """Print a remark for people on standard error, apart from the response."""
    sys.stderr.write(harmless(message) + "\n")


def harmless(text: str) -> str:
    """Return the text without control characters but tabs and line feeds.

    An answer of another server is part of what is printed, and must not control the terminal.
    """
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def harmless_line(text: str) -> str:
    """Return the text on one line, without control characters."""
    return harmless(_SEPARATORS.sub(" ", text))


def harmless_json(text: str) -> str:
    """Return JSON with the same characters escaped within its strings; its value stays the same."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    if not rows:
        note("The list is empty.")
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    cells = {column: [harmless(_cell(row.get(column))) for row in rows] for column in columns}
    widths = _widths(cells, console.width)
    table = Table(box=box.SIMPLE, header_style="bold")
    for column, width in widths.items():
        table.add_column(column, overflow="fold", width=width)
    for texts in zip(*(cells[column] for column in widths), strict=True):
        table.add_row(*map(Text, texts))
    console.print(table)
    hidden = [column for column in columns if column not in widths and any(cells[column])]
    if hidden:
        note(f"Hidden for lack of space: {', '.join(hidden)}. Widen the window, or use --json.")


def _widths(cells: Mapping[str, Sequence[str]], width: int) -> Mapping[str, int]:
    """Return the widths of the columns that a table of this width shows; earlier ones take precedence.

    Words are not broken but in texts and URLs: an id that is folded cannot be copied. Only one longer than
    `WORD_WIDTH_MAX` is, if it leaves no room for the others. Unless all fit, empty columns are left out.
    """
    first, *_, last = cells
    longest = {column: max(map(len, (column, *texts))) for column, texts in cells.items()}
    words = {column: max(map(len, " ".join((column, *texts)).split())) for column, texts in cells.items()}
    least = {column: min(words[column], WORD_WIDTH_MAX) for column in cells}
    for column in FOLDED_COLUMNS & cells.keys() | {last}:
        least[column] = min(words[column], FOLDED_WIDTH_MIN)
    for chosen in (list(cells), [column for column in cells if any(cells[column])]):
        if sum(least[column] + CELL_PADDING for column in chosen) + words[first] - least[first] < width:
            least[first] = words[first]
            break
    widths: dict[str, int] = {}
    left = width - TABLE_PADDING
    for column in chosen:
        if not widths or least[column] + CELL_PADDING <= left:
            widths[column] = least[column]
            left -= least[column] + CELL_PADDING
    while left > 0 and (narrow := [column for column in widths if widths[column] < longest[column]]):
        widths[min(narrow, key=widths.__getitem__)] += 1
        left -= 1
    return widths


def _print_json(value: Any) -> None:
    sys.stdout.write(harmless_json(json.dumps(value, ensure_ascii=False, indent=2)) + "\n")


def _text(value: Any) -> str:
    """Return the value for people: the objects of a list separated by semicolons, their fields by commas."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(one)}" for name, one in value.items())
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return "; ".join(map(_text, value))
    return _cell(value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
