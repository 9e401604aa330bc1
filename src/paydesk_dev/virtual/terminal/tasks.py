"""Background tasks of a virtual terminal: an exception is logged, and a canceled task is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

_log = structlog.get_logger("virtual.terminal")


def start(work: Coroutine[object, object, None], name: str, terminal_id: str) -> asyncio.Task[None]:
    """Start the work in the background."""

    def log_failure(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("virtual_terminal_failed", terminal_id=terminal_id, exc_info=error)

    task = asyncio.create_task(work, name=f"{name} of {terminal_id}")
    task.add_done_callback(log_failure)
    return task


async def cancel(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel the tasks and wait for their end."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
