"""Shared code of the commands that use the database and files of this machine directly, without a service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from paydesk.commands.failure import Failure, WrongUsage

if TYPE_CHECKING:
    from paydesk.settings import Settings
    from paydesk.storage.database import Database

T = TypeVar("T")

SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        help="Settings in TOML; PAYDESK_* environment variables override them. [default: PAYDESK_SETTINGS]",
        show_default=False,
    ),
]


def load_settings(file: Path | None = None, **overrides: Any) -> Settings:
    """Return the settings. Raises `WrongUsage`, which names every invalid one."""
    from paydesk import settings

    try:
        return settings.load(file=file, **overrides)
    except settings.SettingsError as error:
        raise WrongUsage(str(error)) from None


def run(work: Coroutine[Any, Any, T], new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """Run a command's coroutine. Raises `Failure` for expected errors of the database, the key file or the start."""
    from paydesk.core.keys import KeysError
    from paydesk.node import StartRefused
    from paydesk.storage.database import Unavailable, UnsafeDatabase

    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(work)
    except (KeysError, StartRefused, Unavailable, UnsafeDatabase) as error:
        raise Failure(str(error)) from None


async def check_tables(database: Database) -> None:
    """Check that all migrations are applied. Raises `Failure`."""
    from paydesk.storage.migrate import pending

    missing = await pending(database)
    if missing:
        raise Failure(f"The database lacks {', '.join(missing)}. Run `paydesk migrate`.")


def run_with_database(settings: Settings, work: Callable[[Database], Awaitable[T]], *, exclusive: bool = True) -> T:
    """Run the work with the open database of the settings. Raises `Failure` as `run` does."""
    from paydesk.storage.connect import open_database

    async def opened() -> T:
        database = await open_database(
            settings.database_url,
            connections_max=settings.database_connections_max,
            timeout_seconds=settings.database_timeout_seconds,
            exclusive=exclusive,
        )
        try:
            return await work(database)
        finally:
            await database.close()

    return run(opened())
