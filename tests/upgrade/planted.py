"""`paydesk …` of this checkout as a process, with the migration of an environment variable after its own."""

from __future__ import annotations

import os
from collections.abc import Sequence

import paydesk_forked
from paydesk.platform.storage import migrate

PLANTED = "PLANTED_MIGRATION"
NAME = "9001_planted.sql"


def main(arguments: Sequence[str]) -> None:
    """Run the command; its exit code is that of the process."""
    migrations = (*migrate.shipped(), migrate.Migration(9001, NAME, os.environ.get(PLANTED, "")))
    migrate.shipped = lambda: migrations  # type: ignore[assignment]
    paydesk_forked.main(arguments)
