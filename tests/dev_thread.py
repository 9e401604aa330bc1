"""`paydesk dev` in a thread of the test's process, for the tests of commands that use it: ten times as fast to start.

What it writes, its signals and its end as a process are tested with `paydesk_process.dev`.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ending_thread import EndingThread
from kept_logging import kept_logging
from paydesk.platform import logs, settings
from paydesk_dev.dev import service

START_SECONDS_MAX = 60.0


class _Thread(EndingThread):
    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        super().__init__("paydesk dev")
        data = folder / ".paydesk"
        self._options = service.Options("127.0.0.1", 0, data, data / "credentials.json")
        changes = service.overrides(settings.load(variables), self._options)
        self._settings = settings.load(variables, **changes)

    async def serve(self) -> None:
        """Run the service."""
        await service.serve(self._options, self._settings, self._stop_on, self._greet)

    def _stop_on(self, stopping: asyncio.Event) -> None:
        self.stopping = stopping

    def _greet(self, _greeting: str) -> None:
        self.ready.set()


@contextmanager
def dev(folder: Path, **variables: str) -> Iterator[None]:
    """Run `paydesk dev` on a free port until the end of the block, with its data in `folder/.paydesk`."""
    with kept_logging():
        # Not to standard error, which belongs to the commands.
        logs.configure("json", io.StringIO())
        thread = _Thread(folder, variables)
        thread.start()
        try:
            assert thread.ready.wait(START_SECONDS_MAX), "the service did not start"
            yield
        finally:
            thread.end()
