"""Operations that all terminals call at once when a network or the service is back: they leave room for orders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from paydesk.platform.http.endpoint import Endpoint
from paydesk.platform.http.reply import Reply
from paydesk.platform.http.request import Request
from paydesk.platform.http.surfaces import Authenticate
from paydesk.platform.operation import Call, Caller, Operation
from paydesk.platform.shared import Shared
from paydesk.platform.storage.bounded import Busy

SHARE = 4
"""A quarter of `requests_max`."""


class FleetEndpoint(Endpoint):
    """Serves such an operation; a call above its share gets 503 at once, and the terminal repeats it later."""

    def __init__(self, operation: Operation, shared: Shared) -> None:
        super().__init__(operation, shared)
        self._running, self._running_max = 0, max(shared.settings.requests_max // SHARE, 1)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if self._running >= self._running_max:
            raise Busy(f"{self._running} calls of {self.operation.name} are in progress")
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    async def _caller(self, authenticate: Authenticate, request: Request, now_ms: int, address: str) -> Caller:
        with self._counted():
            return await super()._caller(authenticate, request, now_ms, address)

    async def _run(self, call: Call) -> Reply:
        with self._counted():
            return await super()._run(call)
