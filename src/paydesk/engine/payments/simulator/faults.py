"""Faults at the simulated acquirer: which of them fire at a request, and what they do to it. Pure: no I/O.

Test cards, test amounts and the script have faults of their own. `paydesk dev` adds others while it runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from paydesk.core.faults import ACQUIRER_REQUESTS, ANY_REQUEST, Fault, FaultRefused, Kind
from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.acquirer import Result

Operation = Literal["payment", "inquiry", "refund", "reversal", "confirmation"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
CONFIRM = "confirm"
"""The request of the operation `confirmation`; the others have the names of their operations."""

_ANY = (ANY_REQUEST, *ACQUIRER_REQUESTS)
# A reversal always succeeds: it reverses an approval or blocks a later one. An inquiry changes nothing.
REQUESTS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("reset", "not_sent", "answer_lost", "slow"), _ANY),
    "late": ("payment", CONFIRM, "refund", "reversal"),
    "decline": ("payment", CONFIRM, "refund"),
    "other_amount": ("payment",),
}
"""The kinds, with the requests that have them."""
GROUPS: Mapping[str, str] = {
    **dict.fromkeys(("reset", "not_sent", "answer_lost"), "way"),
    **dict.fromkeys(("decline", "other_amount"), "outcome"),
    "late": "late",
    "slow": "slow",
}
"""Kinds of different groups combine: a late refund may also be declined."""

Firing = tuple[Fault, Kind]


@dataclass(frozen=True, slots=True)
class Plan:
    """How one request is handled. By default: approved and answered at once."""

    way: str = ""
    """`not_sent` and `reset`: it has no effect. `answer_lost`: it takes effect."""
    decline_detail: str = ""
    is_other_amount: bool = False
    late_ms: int = 0
    delay_seconds: float = 0


UNDISTURBED = Plan()


class Fired(Protocol):
    """A fault of `paydesk dev` that fires at a request."""

    @property
    def firing(self) -> Firing:
        """Return the fault and its kind."""

    async def hold(self, seconds: float) -> bool:
        """Wait for the fault's release; return False after these seconds without one."""

    def note(self, answer: Result | None) -> None:
        """Record the firing, with the answer of the acquirer once there is one."""


class FaultSource(ABC):
    """Faults that are added while the simulator runs. Only `paydesk dev` has them."""

    @property
    @abstractmethod
    def is_active(self) -> bool:
        """Whether one of them can fire."""

    @abstractmethod
    def take(self, request: str, key: str, facts: Mapping[str, str], now_ms: int) -> Sequence[Fired]:
        """Count the request, and return the faults that fire at it, at most one of a group."""


def checked(fault: Fault) -> Fault:
    """Return a fault of the edge `acquirer`. Raises `FaultRefused` if its request has no such fault."""
    for kind in fault.kinds:
        if fault.request not in REQUESTS[kind.name]:
            raise FaultRefused("request", f"must be {' or '.join(REQUESTS[kind.name])} with {kind.name}")
        if kind.name == "decline" and kind.argument not in FAILED_DETAILS:
            raise FaultRefused("kind", f"must name a detail of a failed payment: {', '.join(FAILED_DETAILS)}")
    if "card" in fault.match and fault.request != "payment":
        raise FaultRefused("match.card", "is only for payment")
    return fault


def is_held(firing: Firing) -> bool:
    """Return whether the kind waits for a release."""
    fault, kind = firing
    return kind.name in ("late", "slow") and fault.delay_of(kind) is None


def are_counted(faults: Iterable[Fault]) -> bool:
    """Return whether the number of the request decides which of them fire."""
    return any(fault.every > 1 or (fault.per == "key" and fault.times) for fault in faults)


def firing_of(faults: Iterable[Fault], ordinal: int = 1, attempt: int = 1) -> Iterator[Firing]:
    """Yield the faults that fire at the `attempt`th request under the seller's `ordinal`th key.

    Each has one kind. With `per=key` one fires at its first requests under a key, then the next of its group.
    """
    for fault in faults:
        if fault.every > 1 and not fault.hits(ordinal):
            continue
        is_turn = True
        if fault.per == "key" and fault.times:
            is_turn = 0 < attempt <= fault.times
            attempt -= fault.times
        if is_turn:
            yield fault, fault.kinds[0]


def plan_of(firings: Iterable[Firing]) -> Plan:
    """Return the plan for a request at which these faults fire; the first of a group decides."""
    chosen: dict[str, Firing] = {}
    for fault, kind in firings:
        chosen.setdefault(GROUPS[kind.name], (fault, kind))
    way, outcome, late, slow = (chosen.get(group) for group in ("way", "outcome", "late", "slow"))
    return Plan(
        "" if way is None else way[1].name,
        "" if outcome is None else outcome[1].argument,
        outcome is not None and outcome[1].name == "other_amount",
        round(1000 * _seconds(late)),
        _seconds(slow),
    )


def _seconds(firing: Firing | None) -> float:
    """Return the delay; 0 where the kind waits for a release."""
    return 0 if firing is None else firing[0].delay_of(firing[1]) or 0
