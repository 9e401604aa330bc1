"""The page of commands: every command of `paydesk` and every group, with the first sentence of its help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paydesk.commands.cli import KIT, tree
from tools.docs.markdown import page, table

_HEAD = """\
# Commands

<!-- Written by `make generate` from the commands; changes made here are lost. -->

Every command has `--help` with its options and examples, and those that print data have `--json`. Those with * belong
to the [development kit](install.md#with-pip). Lists are tables on a terminal; on a pipe a line a row, with tabs and
without a header. Messages go to standard error. `paydesk --install-completion` adds completion to your shell.

| Exit code | Meaning |
|---|---|
| 0 | done |
| 1 | refused, or not the expected outcome |
| 2 | wrong usage: nothing was sent |
| 3 | the service or the database cannot be reached |
| 130, 143 | Ctrl-C, SIGTERM; `serve` and `dev` stop in order with 0 |

Address and token come from the [credentials file](quickstart.md#2-read-the-credentials), which `--credentials` or
`PAYDESK_CREDENTIALS` names, or from `PAYDESK_BASE_URL` and `PAYDESK_OPERATOR_TOKEN`. `serve`, `migrate`, `keys` and
`doctor` read the [settings](settings.md)."""


def page_of_commands() -> str:
    """Return docs/commands.md."""
    return page(_HEAD, table(("Command", "Does"), map(_row, sorted(tree().commands.items()))))


def _row(entry: tuple[str, Any]) -> tuple[str, str]:
    """Return the row of a command, or of a group with the names of its commands."""
    name, command = entry
    help_text = command.help.partition("\n\n")[0].replace("\n", " ").rstrip(".")
    if not hasattr(command, "commands"):
        return _marked(f"`paydesk {name}`", name), help_text
    verbs = ", ".join(_marked(f"`{verb}`", f"{name} {verb}") for verb in _leaves(command))
    return _marked(f"`paydesk {name}`", name), f"{help_text}: {verbs}"


def _leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the commands of a group and of the groups in it."""
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _leaves(command, (*path, name))
        else:
            yield " ".join((*path, name))


def _marked(text: str, name: str) -> str:
    return f"{text}*" if name in KIT else text
