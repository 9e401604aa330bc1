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
"""What separates columns and lines; in a value it becomes a space."""
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What could control a terminal or reverse a text, and what cannot be written as UTF-8."""

AsJson = Annotated[bool, typer.Option("--json", help="Print only the response, as JSON.")]
CredentialsFile = Annotated[
    Path | None,
    typer.Option(
        "--credentials",
        metavar="FILE",
        help="The file that `paydesk dev` writes. [default: PAYDESK_CREDENTIALS, else .paydesk/credentials.json]",
        show_default=False,
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


def show(answer: Mapping[str, Any], *, as_json: bool) -> None:
    """Print one object."""
    if as_json:
        _print_json(answer)
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
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    if not rows:
        note("The list is empty.")
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    shown, hidden = fitting(rows, columns, console.width)
    needed = sum(_width(rows, column, columns) + CELL_PADDING for column in shown) + TABLE_PADDING
    is_whole = needed + _folded(rows, columns) <= console.width
    table = Table(box=box.SIMPLE, header_style="bold")
    for column in shown:
        cells = [_cell(row.get(column)) for row in rows]
        # Only texts and URLs may become narrower: an id that is folded cannot be copied.
        fits = (is_whole and column == columns[0]) or _width(rows, column, columns) >= max(map(len, cells))
        kept = fits and not any(" " in cell for cell in cells)
        words = max(map(len, [column, *_words(rows, column)]))
        whole = words if words <= _width(rows, column, columns) else None
        table.add_column(column, overflow="fold", no_wrap=kept, min_width=whole)
    for row in rows:
        table.add_row(*(Text(harmless(_cell(row.get(column)))) for column in shown))
    console.print(table)
    if hidden:
        note(f"Hidden for lack of space: {', '.join(hidden)}. Widen the window, or use --json.")


def fitting(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], width: int
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the columns that a table of this width shows without breaking words, and those that it hides.

    If not all fit, or the first would be folded, empty ones are left out first. Earlier columns take precedence; the
    first is always shown.
    """
    words = {column: _width(rows, column, columns) for column in columns}

    def needed(chosen: Sequence[str]) -> int:
        return sum(words[column] + CELL_PADDING for column in chosen) + TABLE_PADDING

    filled = [column for column in columns if _words(rows, column)]
    folded = _folded(rows, columns)
    if folded and width < needed(columns) + folded and needed(filled) + folded <= width:
        return filled, ()
    if needed(columns) <= width:
        return columns, ()
    shown = list(columns[:1])
    for column in filled:
        if column not in shown and needed([*shown, column]) <= width:
            shown.append(column)
    return shown, [column for column in filled if column not in shown]


def _width(rows: Sequence[Mapping[str, Any]], column: str, columns: Sequence[str]) -> int:
    """Return the width below which a column is hidden."""
    width = min(max(map(len, [column, *_words(rows, column)])), WORD_WIDTH_MAX)
    return min(width, FOLDED_WIDTH_MIN) if column == columns[-1] or column in FOLDED_COLUMNS else width


def _folded(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> int:
    """Return how much wider the first column would be in one piece."""
    first = columns[0]
    return max(len(word) for word in [first, *_words(rows, first)]) - _width(rows, first, columns)


def _words(rows: Sequence[Mapping[str, Any]], column: str) -> list[str]:
    return [word for row in rows for word in _cell(row.get(column)).split()]


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
