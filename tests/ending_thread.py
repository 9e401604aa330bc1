"""A service in a thread of the test's process, for clients that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod


class EndingThread(threading.Thread, ABC):
    """Serves on an event loop of its own until `end`; `ready` is set once it serves, or has failed."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.ready = threading.Event()
        self.failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.stopping = asyncio.Event()

    @abstractmethod
    async def serve(self) -> None:
        """Serve until `stopping` is set, and set `ready` meanwhile."""

    def run(self) -> None:
        """Serve, and keep the exception."""
        try:
            asyncio.run(self._serve())
        except BaseException as failure:  # noqa: BLE001 - raised again by `end`
            self.failure = failure
        finally:
            self.ready.set()

    def end(self) -> None:
        """Stop the service and raise its exception."""
        if self._loop is not None and self.is_alive():
            self._loop.call_soon_threadsafe(self.stopping.set)
        self.join()
        if self.failure is not None:
            raise self.failure

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self.serve()
