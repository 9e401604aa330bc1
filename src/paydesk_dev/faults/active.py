"""The faults of this process, in memory: which of them a request meets, and how often each has fired."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from paydesk.core import faults, ids, runtime
from paydesk.core.faults import ANY_REQUEST, HELD_SECONDS_MAX, Edge, Fault, FaultRefused, Kind
from paydesk.core.signals import Signals
from paydesk.core.text.redaction import redacted
from paydesk.platform.process.node import StartRefused

FAULTS_MAX, FAULTS_OF_APPLICATION_MAX = 500, 50
FAULTS_OF_HEADERS_MAX = 100
"""Faults of single requests that are kept: the last ones."""
FIRINGS_MAX = 200
"""The firings that are kept of each fault: the last ones."""
TOPIC = "firing"
"""The signal that a fault has fired, was released or removed."""
ON_WIRE: tuple[Edge, ...] = ("till", "terminal")
BODY_CHARACTERS_MAX = 4096
POLL_INTERVAL_SECONDS = 2.0
WAITING_MAX = 16
"""Maximum number of requests that wait for firings."""

log = structlog.get_logger("faults")


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """A request as faults match it: its names at the edge, and what is known of it by the names of `match`."""

    edge: Edge
    names: Collection[str]
    facts: Mapping[str, str]
    request_id: str = ""
    key: str = ""


@dataclass(eq=False, slots=True)
class Firing:
    """One firing of a fault. `answer`: status and body that the sender got, or would have got."""

    number: int
    kind: Kind
    time_ms: int
    request: RequestFacts
    operation: str
    is_held: bool = False
    answer: tuple[int, Any] | None = None
    ran_ms: int = 0
    """When the application got the request, or would have got it."""
    order: str = ""
    """The order that the request was about, or made."""

    @property
    def terminal(self) -> str:
        """The terminal of the request, without secrets; empty if it is not known."""
        return str(redacted(self.request.facts.get("terminal", "")))


@dataclass(eq=False, slots=True)
class Active:
    """A fault with its count. `of_header`: it was a header of its one request; `of_terminal`: a virtual one made it."""

    id: str
    fault: Fault
    created_ms: int
    of_header: bool = False
    of_terminal: bool = False
    matched: int = 0
    begun: int = 0
    """Its firings, with those that are not over."""
    fired: int = 0
    firings: deque[Firing] = field(default_factory=lambda: deque(maxlen=FIRINGS_MAX))
    held: int = 0
    """The requests and answers that it holds now."""
    is_released: bool = False
    is_removed: bool = False
    keys_met: int = 0
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    """With `per=key`: of the last keys, the place of each and its requests so far."""

    @property
    def is_spent(self) -> bool:
        """Whether it never fires again."""
        return self.fault.per == "all" and 0 < self.fault.times <= self.begun

    def matches(self, request: RequestFacts) -> bool:
        """Return whether the fault may fire at the request."""
        return not self.is_spent and self.concerns(request)

    def concerns(self, request: RequestFacts) -> bool:
        """Return whether the request is one of those that the fault counts."""
        fault = self.fault
        return (
            fault.request in (ANY_REQUEST, *request.names)
            # A request for a token has no mode yet.
            and all(
                request.facts.get(name, value if name == "mode" else "") == value for name, value in fault.match.items()
            )
        )


class Faults:
    """All faults, the oldest first. `lines`: those of the settings, which a restart makes again.

    `checked` returns such a fault, or raises `FaultRefused` if nothing has the name of its request.
    """

    def __init__(self, lines: str = "", checked: Callable[[Fault], Fault] = lambda fault: fault) -> None:
        self._all: dict[str, Active] = {}
        self._of_headers: deque[Active] = deque(maxlen=FAULTS_OF_HEADERS_MAX)
        self._signals = Signals()
        self.on_wire = False
        """Whether a fault of tills or terminals counts requests, or holds one that a later one may overtake."""
        self.at_acquirer = False
        """Whether a fault of the acquirer can fire."""
        self.on_webhooks = False
        """Whether a fault of webhooks can fire."""
        self.waiting = 0
        """The requests that wait for firings."""
        self.generation = 0
        """Counts the resets: what was held before goes on."""
        try:
            for fault in faults.parse_all(lines):
                self.add(checked(fault), 0)
        except FaultRefused as error:
            raise StartRefused(f"faults: {error}.") from None

    def bind(self, signals: Signals) -> None:
        """Set the signals of the process, which end all waiting when it stops."""
        self._signals = signals

    def __iter__(self) -> Iterator[Active]:
        return iter((*self._all.values(), *self._of_headers))

    @property
    def is_full(self) -> bool:
        """Whether no fault can be added. Those of virtual terminals take no room."""
        return sum(not one.of_terminal for one in self._all.values()) >= FAULTS_MAX

    def find(self, fault_id: str) -> Active | None:
        """Return the fault with this id."""
        return next((one for one in self if one.id == fault_id), None)

    def add(self, fault: Fault, now_ms: int, *, of_header: bool = False, of_terminal: bool = False) -> Active:
        """Add a fault. Of headers the last `FAULTS_OF_HEADERS_MAX` are kept."""
        active = Active(f"FLT{ids.ordered_ulid(now_ms)}", fault, now_ms, of_header, of_terminal)
        if of_header:
            self._of_headers.append(active)
        else:
            self._all[active.id] = active
        self._changed()
        return active

    def remove(self, *removed: Active) -> None:
        """Remove faults; what they hold goes on."""
        for active in removed:
            active.is_removed = True
            self._all.pop(active.id, None)
            if active in self._of_headers:
                self._of_headers.remove(active)
        self._changed()

    def release(self, active: Active) -> None:
        """Let go what the fault holds, and hold nothing later."""
        active.is_released = True
        self._changed()

    def count_anew(self) -> None:
        """Forget what was counted and what has fired; nothing is held any longer."""
        self.generation += 1
        self._of_headers.clear()
        for active in self:
            active.matched = active.begun = active.fired = active.keys_met = 0
            active.keys.clear()
            active.firings.clear()
            active.is_released = False
        self._changed()

    def matched_names(self, edge: Edge) -> set[str]:
        """Return the names in `match` of the faults of an edge."""
        return {name for one in self if one.fault.edge == edge for name in one.fault.match}

    def take(
        self, request: RequestFacts, operation: str, now_ms: int, may_fire: Callable[[Fault], bool] = lambda _: True
    ) -> tuple[Active, Firing] | None:
        """Count the request, and return its firing, of the oldest fault that fires. Others do not count it."""
        for active in self._all.values():
            if active.fault.edge != request.edge or not active.concerns(request) or not may_fire(active.fault):
                continue
            active.matched += 1
            if not active.is_spent and active.fault.hits(active.matched):
                return active, self.begin(active, request, operation, now_ms)
        return None

    def begin(self, active: Active, request: RequestFacts, operation: str, now_ms: int) -> Firing:
        """Return a new firing, which is shown once it is noted."""
        active.begun += 1
        self._changed()
        kind, order = active.fault.kind_at(active.begun), request.facts.get("order", "")
        return Firing(active.begun, kind, now_ms, request, operation, ran_ms=now_ms, order=order)

    def note(self, active: Active, firing: Firing) -> None:
        """Log a firing and show it to those that wait for it."""
        active.fired += 1
        active.firings.append(firing)
        facts = {"order": firing.order, "terminal_id": firing.terminal}
        log.info(
            "fault_fired",
            fault=active.id,
            edge=active.fault.edge,
            kind=str(firing.kind),
            operation=firing.operation,
            request_id=firing.request.request_id,
            **{name: value for name, value in facts.items() if value},
        )
        self._changed()

    def notify(self) -> None:
        """Wake all that wait, so that they check again."""
        self._signals.notify_local((TOPIC,))

    async def until(self, is_met: Callable[[], bool], seconds: float) -> bool:
        """Return whether the condition is met, at the latest after these seconds or when the process stops."""
        deadline = runtime.monotonic() + seconds
        while not is_met():
            with self._signals.subscribe(TOPIC, "stop") as waiter:
                left = deadline - runtime.monotonic()
                if self._signals.stopping or left <= 0:
                    return is_met()
                await waiter.wait(min(left, POLL_INTERVAL_SECONDS))
        return True

    async def pause(
        self, active: Active, firing: Firing, seconds: float | None, is_met: Callable[[], bool] = lambda: False
    ) -> None:
        """Hold a firing for these seconds, until the condition is met, or until its fault is released or removed."""
        generation, firing.is_held = self.generation, True
        active.held += 1

        def is_over() -> bool:
            return active.is_released or active.is_removed or self.generation != generation or is_met()

        self._changed()
        try:
            await self.until(is_over, HELD_SECONDS_MAX if seconds is None else seconds)
        finally:
            firing.is_held = False
            active.held -= 1
            self._changed()

    def fired_for(self, request_ids: Collection[str]) -> Iterable[tuple[Active, Firing]]:
        """Yield the firings of requests with these ids."""
        for active in self:
            for firing in active.firings:
                if firing.request.request_id in request_ids:
                    yield active, firing

    def _changed(self) -> None:
        self.on_wire = any(one.fault.edge in ON_WIRE and (one.held or not one.of_header) for one in self)
        self.at_acquirer = any(one.fault.edge == "acquirer" and not one.is_spent for one in self)
        self.on_webhooks = any(one.fault.edge == "webhook" and not one.is_spent for one in self)
        self.notify()


def is_owned_by(active: Active, facts: Mapping[str, str]) -> bool:
    """Return whether a fault is of the caller that has these facts."""
    return all(active.fault.match.get(name) == value for name, value in facts.items())


def limited_to(fault: Fault, facts: Mapping[str, str]) -> Fault:
    """Return the fault for the requests of this caller alone."""
    return replace(fault, match={**fault.match, **facts})
