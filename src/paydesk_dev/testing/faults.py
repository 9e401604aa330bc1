"""Faults of one test: what goes wrong between its till and the service."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Any

from paydesk_dev.testing.documents import Firing
from paydesk_dev.testing.errors import NotFired, Refused
from paydesk_dev.testing.service import Service
from paydesk_dev.testing.terminal import Terminal

POLL_SECONDS_MAX = 50
COUNTED_MAX = 200
"""The firings that the service keeps of a fault."""


class Fault:
    """A fault. `times` is how often it must fire: without end at least once, `may_miss` never."""

    def __init__(self, service: Service, document: Mapping[str, Any], seconds: float, times: int, name: str) -> None:
        self._service, self._seconds, self._times, self._name = service, seconds, times, name
        self._path = f"/dev/faults/{document['id']}"
        self._removed: list[Firing] | None = None

    @property
    def fired(self) -> list[Firing]:
        """How it has fired so far."""
        return self._firings() if self._removed is None else self._removed

    def wait(self, count: int = 1, *, seconds: float | None = None) -> list[Firing]:
        """Return its firings once there are so many. Raises `NotFired`."""
        end = time.monotonic() + (self._seconds if seconds is None else seconds)
        while True:
            wait = math.ceil(min(max(end - time.monotonic(), 0), POLL_SECONDS_MAX))
            fired = self._firings(f"?wait={wait}&fired={count}")
            if len(fired) >= count:
                return fired
            if not wait:
                raise NotFired(f"{self._name} fired {len(fired)} of {count} times.")

    async def wait_async(self, count: int = 1, *, seconds: float | None = None) -> list[Firing]:
        """Do as `wait` without blocking the event loop."""
        return await asyncio.to_thread(self.wait, count, seconds=seconds)

    def wait_quiet(self, seconds: int = 3) -> list[Firing]:
        """Return its firings once it has not fired for so long: the till has given up."""
        fired = self.wait()
        while len(fired) < COUNTED_MAX:
            later = self._firings(f"?wait={seconds}&fired={len(fired) + 1}")
            if len(later) == len(fired):
                break
            fired = later
        return fired

    def release(self) -> None:
        """Let go on what it holds."""
        self._service.ask("POST", f"{self._path}/release", {})

    def remove(self) -> list[Firing]:
        """Remove it and return its firings."""
        if self._removed is None:
            try:
                self._removed = _firings(self._service.ask("DELETE", self._path))
            except Refused as refused:
                if refused.status != 404:
                    raise
                self._removed = []
        return self._removed

    @property
    def is_unused(self) -> bool:
        """Whether it has not fired often enough."""
        return len(self.fired) < self._times

    def __str__(self) -> str:
        return f"{self._name} fired {len(self.fired)} of {self._times} times."

    def _firings(self, query: str = "") -> list[Firing]:
        return _firings(self._service.ask("GET", self._path + query))


class Faults:
    """The faults of one application and its seller alone."""

    def __init__(self, service: Service, client_id: str, user_id: int, seconds: float) -> None:
        self._service, self._client_id, self._user_id, self._seconds = service, client_id, user_id, seconds
        self.added: list[Fault] = []

    def add(
        self,
        request: str,
        kind: str,
        *,
        edge: str = "till",
        times: int | None = 1,
        terminal: Terminal | None = None,
        may_miss: bool = False,
        **fields: Any,
    ) -> Fault:
        """Add a fault; without `times` it fires without end.

        The fields are `every`, `skip`, `delay`, `seed`, `status` and `set` of `POST /dev/faults`, and what else it
        matches, such as `reference`.
        """
        # Terminals and the acquirer know no application.
        owner = {"application": self._client_id} if edge in ("till", "webhook") else {"seller": str(self._user_id)}
        match = {**owner, "terminal": terminal.id if terminal else None}
        known = {name: fields.pop(name) for name in FIELDS if fields.get(name) is not None}
        match |= {name: value for name, value in fields.items() if name not in FIELDS}
        body = {"edge": edge, "request": request, "kind": kind, "times": times or 0, **known}
        body["match"] = {name: value for name, value in match.items() if value}
        expected = 0 if may_miss else times or 1
        made = self._service.ask("POST", "/dev/faults", body)
        self.added.append(Fault(self._service, made, self._seconds, expected, f"The fault {edge} {request} {kind}"))
        return self.added[-1]

    def unused(self) -> list[str]:
        """Return in words which faults have not fired often enough."""
        return [str(fault) for fault in self.added if fault.is_unused]

    def close(self) -> None:
        """Remove all."""
        for fault in self.added:
            fault.remove()


FIELDS = ("every", "skip", "delay", "seed", "status", "set", "per")


def _firings(document: Mapping[str, Any]) -> list[Firing]:
    return [Firing(one) for one in document["fired"]]
