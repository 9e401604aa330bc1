"""A whole service in a thread of its own, for clients that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from paydesk.clock import MovableClock
from paydesk.operators import tokens
from paydesk.storage.connect import open_database
from service import Service, running

START_SECONDS_MAX = 30.0


@dataclass(frozen=True)
class Served:
    """Where the service is, and who may call it."""

    base_url: str
    access_token: str
    operator_token: str
    device_token: str
    order_id: str


class _Thread(threading.Thread):
    def __init__(self, database_url: str) -> None:
        super().__init__(name="service")
        self._database_url = database_url
        self._ended = asyncio.Event()
        self.ready = threading.Event()
        self.served: Served | None = None
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:  # noqa: BLE001 - raised again by who waits for the thread
            self.failure = failure
        finally:
            self.ready.set()

    def end(self) -> None:
        """Stop it, and raise what went wrong inside."""
        if self.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
        self.join()
        if self.failure is not None:
            raise self.failure

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        database = await open_database(self._database_url)
        try:
            async with running(database, clock=MovableClock(), development=True) as service:
                self.served = await _served(service)
                self.ready.set()
                await self._ended.wait()
        finally:
            await database.close()


async def _served(service: Service) -> Served:
    operator = tokens.new()
    now_ms = service.clock.now_ms()
    await service.database.write(lambda tx: tokens.issue(tx, operator, "anna", "owner", now_ms))
    terminal = await service.terminal()
    order_id = (await service.create(terminal)).body["id"]
    return Served(service.base_url, service.access_token, operator.reveal(), terminal.token, order_id)


@contextmanager
def serving(database_url: str) -> Iterator[Served]:
    """Serve until the end of the block, with everything that exists in development; it fails where the service did."""
    thread = _Thread(database_url)
    thread.start()
    try:
        assert thread.ready.wait(START_SECONDS_MAX), "the service did not start"
        if thread.served is not None:
            yield thread.served
    finally:
        thread.end()
