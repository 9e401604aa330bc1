"""The exceptions that end a command: a message for standard error, and an exit code."""

from __future__ import annotations

from typing import ClassVar


class Failure(Exception):
    """The service refused the command, or the expected result did not occur: exit code 1."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *details: str) -> None:
        super().__init__("\n".join((message, *(f"  {detail}" for detail in details))))


class WrongUsage(Failure):
    """The command line, a setting or the credentials file is wrong: exit code 2."""

    exit_code = 2


class Unreachable(Failure):
    """The service cannot be reached: exit code 3."""

    exit_code = 3
