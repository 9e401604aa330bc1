"""Faults of one test: what goes wrong between its till and the service."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from paydesk_dev.testing.blocking import in_thread
from paydesk_dev.testing.documents import Firing
from paydesk_dev.testing.errors import NotFired, Refused
from paydesk_dev.testing.service import Service
from paydesk_dev.testing.terminal import Terminal

Edge = Literal["till", "terminal", "acquirer", "webhook"]
POLL_SECONDS_MAX = 50


class Fault:
    """A fault. `times` is how often it must fire: without end at least once, `may_miss` never."""

    def __init__(self, service: Service, document: Mapping[str, Any], seconds: float, times: int, name: str) -> None:
        self._service, self._seconds, self._times, self._name = service, seconds, times, name
        self._path = f"/dev/faults/{document['id']}"
        self._removed: list[Firing] | None = None

    @property
    def fired(self) -> list[Firing]:
        """Its firings so far; of many the last ones."""
        return self._read() if self._removed is None else self._removed

    def wait(self, count: int = 1, *, seconds: float | None = None) -> list[Firing]:
        """Return its firings once it has fired at least `count` times. Raises `NotFired`."""
        end = time.monotonic() + (self._seconds if seconds is None else seconds)
        while True:
            wait = math.ceil(min(max(end - time.monotonic(), 0), POLL_SECONDS_MAX))
            fired = self._read(wait=wait, fired=count)
            if _count(fired) >= count:
                return fired
            if not wait:
                raise NotFired(f"{self._name} fired {_count(fired)} of {count} times.")

    wait_async = in_thread(wait)

    def wait_quiet(self, seconds: int = 3) -> list[Firing]:
        """Return its firings once it has not fired for these seconds: the till has given up."""
        fired = self.wait()
        while _count(later := self._read(wait=seconds, fired=_count(fired) + 1)) > _count(fired):
            fired = later
        return later

    def release(self) -> None:
        """Release what it holds."""
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
        return self._times > 0 and _count(self.fired) < self._times

    def __str__(self) -> str:
        expected = f" of {self._times}" if self._times else ""
        return f"{self._name} fired {_count(self.fired)}{expected} times."

    def _read(self, **query: int) -> list[Firing]:
        return _firings(self._service.ask("GET", self._path, query=query))


class Faults:
    """The faults of one application and its seller alone."""

    def __init__(self, service: Service, client_id: str, user_id: int, seconds: float) -> None:
        self._service, self._client_id, self._user_id, self._seconds = service, client_id, user_id, seconds
        self.added: list[Fault] = []

    def add(  # noqa: PLR0913 - the fields of a fault
        self,
        request: str,
        kind: str,
        *,
        edge: Edge = "till",
        every: int = 1,
        times: int | None = 1,
        skip: int = 0,
        delay: float | None = None,
        seed: int | None = None,
        terminal: Terminal | None = None,
        reference: str = "",
        status: int | None = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - the name in the grammar
        may_miss: bool = False,
    ) -> Fault:
        """Add a fault, whose fields are those of `POST /dev/faults`; with `times=None` it fires without end."""
        # Terminals and the acquirer know no application.
        match = {"application": self._client_id} if edge in ("till", "webhook") else {"seller": str(self._user_id)}
        match |= {"terminal": terminal.id} if terminal is not None else {}
        match |= {"reference": reference} if reference else {}
        body = {"edge": edge, "request": request, "kind": kind, "match": match, "every": every, "times": times or 0}
        further = {"skip": skip, "delay": delay, "seed": seed, "status": status, "set": set}
        body |= {name: value for name, value in further.items() if value is not None}
        expected = 0 if may_miss else times or 1
        created = self._service.ask("POST", "/dev/faults", body)
        self.added.append(Fault(self._service, created, self._seconds, expected, f"The fault {edge} {request} {kind}"))
        return self.added[-1]

    def unused(self) -> list[str]:
        """Return in words which faults have not fired often enough."""
        return [str(fault) for fault in self.added if fault.is_unused]


def _firings(document: Mapping[str, Any]) -> list[Firing]:
    return [Firing(one) for one in document["fired"]]


def _count(fired: Sequence[Firing]) -> int:
    """Return how often a fault has fired, from the last firings."""
    return max((one.number for one in fired), default=0)
