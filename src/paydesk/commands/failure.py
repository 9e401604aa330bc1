"""How a command ends when it does not end well: a sentence for standard error, and an exit code."""

from __future__ import annotations

from typing import ClassVar


class Failure(Exception):
    """The command was refused, or what it was told to wait for did not happen: exit code 1."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *details: str) -> None:
        super().__init__(message)
        self.message, self.details = message, details

    def __str__(self) -> str:
        return "\n".join((self.message, *(f"  {detail}" for detail in self.details)))


class WrongUsage(Failure):
    """The command line, a setting or the credentials file is wrong: exit code 2."""

    exit_code = 2


class Unreachable(Failure):
    """Nobody answers at the address: exit code 3."""

    exit_code = 3
