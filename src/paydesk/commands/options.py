"""Options that many commands share, and the output: JSON, a table, or names with values."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

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
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False)
    width = max(map(len, answer), default=0)
    for name, value in answer.items():
        console.print(f"[dim]{name:<{width}}[/]  ", end="")
        console.print(_cell(value), markup=False)


def show_list(answer: Mapping[str, Any], columns: Sequence[str], *, as_json: bool) -> None:
    """Print a list: a table on a terminal, tab-separated lines elsewhere, the bare array with `--json`."""
    rows: Sequence[Mapping[str, Any]] = answer["data"]
    if as_json:
        _print_json(rows)
    elif sys.stdout.isatty():
        _print_table(rows, columns)
    else:
        for row in rows:
            sys.stdout.write("\t".join(_cell(row.get(column)) for column in columns) + "\n")
    if "next" in answer:
        note(f"The list is incomplete. Continue with --after {answer['next']}")


def note(message: str) -> None:
    """Print a remark for people on standard error, apart from the response."""
    sys.stderr.write(message + "\n")


def _print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=box.SIMPLE, header_style="bold")
    for row in rows:
        table.add_row(*(Text(_cell(row.get(column))) for column in columns))
    Console().print(table)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
