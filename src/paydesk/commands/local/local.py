"""Shared code of the commands that use the database and files of this machine directly, without a service."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import typer

from paydesk.commands.client.credentials import credentials_path
from paydesk.commands.client.credentials_file import exists
from paydesk.commands.client.failure import Failure, WrongUsage
from paydesk.commands.client.options import note

if TYPE_CHECKING:
    import asyncio

    from paydesk.platform.settings import Settings
    from paydesk.platform.storage.database import Database

T = TypeVar("T")

SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        help="Settings in TOML; PAYDESK_* environment variables override them. [default: PAYDESK_SETTINGS]",
    ),
]

DataFolder = Annotated[
    Path | None, typer.Option("--data", metavar="FOLDER", help="The folder of `paydesk dev`. [default: .paydesk]")
]
DATABASE = "paydesk.db"
"""The file of the database, in the folder of `paydesk dev` or, by default, of `paydesk serve`."""


def load_settings(file: Path | None = None, **overrides: Any) -> Settings:
    """Return the settings. Raises `WrongUsage`, which names every invalid one."""
    from paydesk.platform import settings

    try:
        return settings.load(file=file, **overrides)
    except settings.SettingsError as error:
        raise WrongUsage(str(error)) from None


def existing_database(file: Path | None, data: Path | None) -> Settings:
    """Return the settings with the database that is configured, or one that `paydesk dev` made.

    Without settings it is that of `data`, or of the folder of the credentials file, or the one of `paydesk serve`.
    Raises `Failure` if there is none, `WrongUsage` if there are two.
    """
    settings = load_settings(file)
    if "database_url" in settings.model_fields_set:
        if data is not None:
            raise WrongUsage(
                "Give either --data or the setting database_url, not both.",
                "The setting is in PAYDESK_DATABASE_URL, or in the file of --settings or PAYDESK_SETTINGS.",
            )
        return settings
    default = (data or credentials_path(None).parent) / DATABASE
    if exists(default):
        note(f"The database is {default}.")
        return load_settings(file, database_url=f"sqlite:{default}")
    if data is None and exists(Path(DATABASE)):
        return settings
    others = "" if data is not None else f", nor does {DATABASE} in this folder"
    raise Failure(
        f"There is no database: {default} does not exist{others}.",
        "Start `paydesk dev`, name its folder with --data, or set PAYDESK_DATABASE_URL.",
    )


def described_database(settings: Settings) -> str:
    """Return which database it is, without user and password."""
    parts = urlsplit(settings.database_url)
    if parts.scheme == "sqlite":
        return f"the database {Path(settings.database_url.partition(':')[2]).absolute()}"
    hosts = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "localhost")
    return f"the database {parts.path.strip('/')} of PostgreSQL at {hosts}"


def refuse_missing_database(settings: Settings, *hints: str) -> None:
    """Refuse a SQLite file that does not exist: opening it would make an empty one. Raises `Failure` with the hints."""
    scheme, _, name = settings.database_url.partition(":")
    if scheme == "sqlite" and name not in ("", ":memory:") and not exists(Path(name)):
        raise Failure(f"There is no database: {name} does not exist.", *hints)


def run(
    work: Coroutine[Any, Any, T],
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    *,
    while_in_use: Sequence[str] = (),
) -> T:
    """Run a command's coroutine.

    Raises `Failure` for expected errors of the database, the key file or the start, and for a refused change.
    `while_in_use`: what to do if another process has the database.
    """
    import asyncio

    from paydesk.core.errors import Refusal
    from paydesk.core.keys import KeysError
    from paydesk.platform.process.node import StartRefused
    from paydesk.platform.settings import SettingsError
    from paydesk.platform.storage.database import DatabaseInUse, Locked, Unavailable, UnsafeDatabase

    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(work)
    except DatabaseInUse as error:
        raise Failure(str(error), *while_in_use) from None
    except (KeysError, Locked, SettingsError, StartRefused, Unavailable, UnsafeDatabase) as error:
        raise Failure(str(error)) from None
    except Refusal as refusal:
        # As a running service answers it.
        raise Failure(f"{refusal.public_message} ({refusal.kind.code})", *refusal.details) from None


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes uvloop's event loop; None where it is not available."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def import_structlog() -> None:
    """Import structlog without rich, which it would import only to format tracebacks."""
    if "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment]  # makes its import fail
        import_module("structlog")
        del sys.modules["rich"]


async def check_tables(database: Database) -> None:
    """Check that all migrations are applied. Raises `Failure`."""
    from paydesk.platform.storage.migrate import pending

    missing = await pending(database)
    if missing:
        raise Failure(f"The database lacks {', '.join(missing)}. Run `paydesk migrate`.")


def run_with_database(
    settings: Settings,
    work: Callable[[Database], Awaitable[T]],
    *,
    exclusive: bool = True,
    while_in_use: Sequence[str] = (),
) -> T:
    """Run the work with the open database of the settings. Raises `Failure` as `run` does."""
    from paydesk.platform.storage.connect import open_database

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

    return run(opened(), while_in_use=while_in_use)
