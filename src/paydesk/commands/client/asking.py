"""Questions to the person at a terminal. Programs answer them with `--yes`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paydesk.commands.client.failure import Failure, WrongUsage

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask; needed where no person can answer.")]


def refuse_unattended(*, yes: bool) -> None:
    """Raise `WrongUsage` where a question could not be answered: neither `--yes` nor a terminal on both sides."""
    if not yes and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongUsage("This command asks before it goes on, and there is no terminal to answer at. Add --yes.")


def confirm(question: str, *, yes: bool) -> None:
    """Ask the question unless `yes`; raise `Failure` if the answer is no."""
    if not yes and not typer.confirm(question, err=True):
        raise Failure("Nothing was changed.")
