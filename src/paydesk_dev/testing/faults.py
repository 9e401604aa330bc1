"""Faults of one test: what goes wrong between its till and the service."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from paydesk_dev.testing.blocking import POLL_SECONDS, in_thread
from paydesk_dev.testing.documents import Firing, Order, id_of
from paydesk_dev.testing.errors import NotFired, Refused, line_of_test
from paydesk_dev.testing.service import Service
from paydesk_dev.testing.terminal import Terminal

Edge = Literal["till", "terminal", "acquirer", "webhook"]
POLL_INTERVAL_SECONDS = 0.1


class Fault:
    """A fault. `times` is how often it must fire: without end at least once, `may_miss` never."""

    def __init__(self, faults: Faults, document: Mapping[str, Any], times: int, name: str) -> None:
        self._faults, self._service, self._times, self._name = faults, faults.service, times, name
        self._path = f"/dev/faults/{document['id']}"
        self._removed: list[Firing] | None = None

    @property
    def fired(self) -> list[Firing]:
        """Its firings so far; of many the last ones."""
        return _firings(self._read()) if self._removed is None else self._removed

    def wait(self, count: int = 1, *, seconds: float | None = None) -> list[Firing]:
        """Return its firings once it has fired at least `count` times. Raises `NotFired`."""
        end = time.monotonic() + (self._faults.seconds if seconds is None else seconds)
        while True:
            self._faults.raise_failure()
            left = end - time.monotonic()
            fired = _firings(self._read(wait=POLL_SECONDS if left > 0 else 0, fired=count))
            if _count(fired) >= count:
                return fired
            if left <= 0:
                raise NotFired(f"{self._name} fired {_count(fired)} of {count} times.")

    wait_async = in_thread(wait)

    def wait_quiet(self, seconds: float = 3) -> list[Firing]:
        """Return its firings once it has fired, and no request has matched it for these seconds: the till is quiet."""
        self.wait()
        matched, quiet_at = -1, math.inf
        while time.monotonic() < quiet_at:
            self._faults.raise_failure()
            document = self._read()
            if document["matched"] != matched:
                matched, quiet_at = document["matched"], time.monotonic() + seconds
            time.sleep(POLL_INTERVAL_SECONDS)
        return _firings(document)

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

    def _read(self, **query: int) -> Any:
        return self._service.ask("GET", self._path, query=query)


class Faults:
    """The faults of one application and its seller alone."""

    def __init__(
        self, service: Service, client_id: str, user_id: int, seconds: float, raise_failure: Callable[[], object]
    ) -> None:
        self._client_id, self._user_id = client_id, user_id
        self.service, self.seconds, self.raise_failure = service, seconds, raise_failure
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
        terminal: Terminal | str | None = None,
        reference: str = "",
        order: Order | str | None = None,
        grant: str = "",
        card: str = "",
        per: Literal["all", "key"] = "all",
        status: int | None = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - the name in the grammar
        may_miss: bool = False,
    ) -> Fault:
        """Add a fault, whose fields are those of `POST /dev/faults`; with `times=None` it fires without end."""
        # Terminals and the acquirer know no application.
        match = {"application": self._client_id} if edge in ("till", "webhook") else {"seller": str(self._user_id)}
        match |= {"terminal": terminal.id if isinstance(terminal, Terminal) else terminal} if terminal else {}
        match |= {"order": id_of(order)} if order else {}
        match |= {name: one for name, one in (("reference", reference), ("grant", grant), ("card", card)) if one}
        body = {"edge": edge, "request": request, "kind": kind, "match": match, "every": every, "times": times or 0}
        further = {"skip": skip, "delay": delay, "per": per, "seed": seed, "status": status, "set": set}
        body |= {name: value for name, value in further.items() if value is not None}
        expected = 0 if may_miss else times or 1
        created = self.service.ask("POST", "/dev/faults", body)
        self.added.append(Fault(self, created, expected, f"The fault {edge} {request} {kind} ({line_of_test()})"))
        return self.added[-1]

    def unused(self) -> list[str]:
        """Return in words which faults have not fired often enough."""
        return [str(fault) for fault in self.added if fault.is_unused]


def _firings(document: Mapping[str, Any]) -> list[Firing]:
    return [Firing(one) for one in document["fired"]]


def _count(fired: Sequence[Firing]) -> int:
    """Return how often a fault has fired, from the last firings."""
    return max((one.number for one in fired), default=0)
