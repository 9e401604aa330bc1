"""The faults of this process at the simulated acquirer, and what operators see of them in an order's timeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
from msgspec import Meta

from paydesk.core.clock import rfc3339
from paydesk.core.response import Closed, Time
from paydesk.engine.payments.acquirer import Result
from paydesk.engine.payments.acquirers import OUTCOMES
from paydesk.engine.payments.simulator import faults
from paydesk.engine.payments.simulator.faults import FaultSource
from paydesk.operators.orders.history import InspectedOrder
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Transaction
from paydesk_dev.extras import Extra
from paydesk_dev.faults.active import Active, Faults, Firing, RequestFacts

EFFECTS: Mapping[str, str] = {
    "reset": "The request never reached the acquirer.",
    "not_sent": "The request was not sent.",
    "late": "The request reached the acquirer late.",
    "answer_lost": "The acquirer's answer was lost.",
    "slow": "The acquirer's answer was held back.",
    "decline": "The acquirer declined the request.",
    "other_amount": "The acquirer approved another amount.",
}
"""What a fault did to a request, for people."""
KEYS_MAX = 1_000
"""The keys that a fault with `per=key` remembers. One that is used again after so many others is counted anew."""


class AcquirerFaults(FaultSource):
    """The faults of the edge `acquirer`, as the simulated acquirer asks for them."""

    def __init__(self, active: Faults) -> None:
        self._active = active

    @property
    def is_active(self) -> bool:
        """Whether one of them can fire."""
        return self._active.at_acquirer

    def take(self, request: str, key: str, facts: Mapping[str, str], now_ms: int) -> Sequence[_Fired]:
        """Count the request, and return the faults that fire at it: of one group the oldest."""
        described, groups, fired = RequestFacts("acquirer", (request,), facts, key=key), set[str](), list[_Fired]()
        for active in self._active:
            if active.fault.edge != described.edge or not active.matches(described):
                continue
            group = faults.GROUPS[active.fault.kind_at(active.begun + 1).name]
            if group not in groups and _hits(active, f"{facts['seller']}:{request}:{key}"):
                groups.add(group)
                fired.append(_Fired(self._active, active, self._active.begin(active, described, request, now_ms)))
        return fired


def _hits(active: Active, key: str) -> bool:
    """Count a request, and return whether the fault fires at it.

    With `per=key`, `every` and `seed` choose keys, and `skip` and `times` count the requests under a key.
    """
    fault = active.fault
    active.matched += 1
    if fault.per == "all":
        return fault.hits(active.matched)
    ordinal, attempt = active.keys.pop(key, (active.keys_met + 1, 0))
    active.keys_met, active.keys[key] = max(active.keys_met, ordinal), (ordinal, attempt + 1)
    if len(active.keys) > KEYS_MAX:
        del active.keys[next(iter(active.keys))]
    is_in_turn = fault.skip <= attempt and (not fault.times or attempt < fault.skip + fault.times)
    return is_in_turn and replace(fault, skip=0).hits(ordinal)


@dataclass(eq=False, slots=True)
class _Fired:
    """A fault that fires at a request."""

    owner: Faults
    active: Active
    one: Firing
    is_noted: bool = False

    @property
    def firing(self) -> faults.Firing:
        """Return the fault and its kind."""
        return self.active.fault, self.one.kind

    async def hold(self, seconds: float) -> bool:
        """Wait for the release or the removal of the fault; return False after these seconds without one."""
        await self.owner.pause(self.active, self.one, seconds)
        return self.active.is_released or self.active.is_removed

    def note(self, answer: Result | None) -> None:
        """Record the firing, with the answer of the acquirer once there is one."""
        if answer is not None:
            known = {name: value for name, value in msgspec.to_builtins(answer).items() if value}
            self.one.answer = 200, msgspec.json.encode({"outcome": OUTCOMES[type(answer)], **known}).decode()
        if not self.is_noted:
            self.is_noted = True
            self.owner.note(self.active, self.one)


class AcquirerFault(Closed, frozen=True):
    """A fault of the simulated acquirer that fired at a request about the order."""

    id: str
    date: Time
    request: str
    kind: str
    effect: Annotated[str, Meta(description="What it did, in a sentence.")]


async def _fired(shared: Shared, _: Transaction, orders: Sequence[InspectedOrder]) -> Mapping[str, list[AcquirerFault]]:
    """Return the faults that fired at the orders' requests to the acquirer."""
    found = defaultdict[str, list[AcquirerFault]](list)
    for active in shared.objects[Faults]:
        for one in active.firings if active.fault.edge == "acquirer" else ():
            effect = EFFECTS[one.kind.name]
            found[one.order].append(
                AcquirerFault(active.id, rfc3339(one.time_ms), one.operation, str(one.kind), effect)
            )
    return {order.id: found[order.id] for order in orders if order.id in found}


AT_ACQUIRER = Extra(
    InspectedOrder, "faults", Annotated[list[AcquirerFault], Meta(description="In development.")] | None, _fired
)
