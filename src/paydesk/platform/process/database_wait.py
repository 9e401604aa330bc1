"""`paydesk serve --wait-for-database`: waits until the database can be reached and has this version's migrations."""

from __future__ import annotations

import asyncio

import structlog

from paydesk.platform import logs
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Locked, Unavailable
from paydesk.platform.storage.migrate import pending

PAUSE_SECONDS = 2.0

log = structlog.get_logger("node")


async def wait_for_database(settings: Settings, seconds: float) -> None:
    """Wait for at most `seconds`. Then the start itself finds out what is still wrong, and is refused.

    Raises `UnsafeDatabase` for a database that no waiting makes this version's.
    """
    logs.configure(settings.log_format, level=settings.log_level)
    until = asyncio.get_running_loop().time() + seconds
    while reason := await _lacking(settings):
        left = until - asyncio.get_running_loop().time()
        if left <= 0:
            return
        log.info("waiting_for_database", reason=reason, seconds_left=round(left))
        await asyncio.sleep(min(PAUSE_SECONDS, left))


async def _lacking(settings: Settings) -> str:
    """Return why the database cannot be served yet; empty if it can. A SQLite file stays free for `paydesk migrate`."""
    try:
        database = await open_database(
            settings.database_url, timeout_seconds=settings.database_timeout_seconds, exclusive=False
        )
        try:
            missing = await pending(database)
        finally:
            await database.close()
    except (Unavailable, Locked) as error:
        return str(error)
    return f"The database lacks {', '.join(missing)}: run `paydesk migrate`." if missing else ""
