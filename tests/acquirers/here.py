"""A service in the test's process with a host of the tests, whose clock stands still, and whose wire a test cuts."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from acquirers.host import Host
from acquirers.lines import LineAdapter
from acquirers.run import OPEN
from authorize_scene import at_terminal, authorize, process_jobs, rows, service_device
from moved_time import advance
from paydesk.core.clock import MovableClock
from paydesk.core.objects import Objects
from paydesk.engine.invariants import check
from paydesk.engine.orders import expiry
from paydesk.engine.payments.acquirer import NotSent, Result, Unknown
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from service import KEYS, Device, Reply, Service, approved, running

Cut = Literal["refused", "lost", "unanswered"]
"""What happens to a request: it is not sent · it is sent and never arrives · it arrives, and its answer does not."""
LONGEST_PAUSE_SECONDS = 2


@dataclass
class HereAdapter(LineAdapter):
    """The host in this process. `cuts` says what happens to the requests of an operation.

    The answers of an operation in `held` wait for its event; `arrived` is set when such a request has been answered.
    """

    host: Host
    cuts: dict[str, Cut] = field(default_factory=dict)
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    arrived: dict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    def __post_init__(self) -> None:
        super().__init__(self.host.name, 0, self.host.capabilities)

    def cut(self, cut: Cut, *operations: str) -> None:
        """Cut the wire for these operations; by default for all."""
        self.cuts = dict.fromkeys(operations or ("authorize", "confirm", "inquire", "reverse", "refund"), cut)

    async def _exchange(self, request: dict[str, Any]) -> bytes | Result:
        cut = self.cuts.get(request["operation"])
        if cut is not None:
            # The pause before the next attempt passes.
            asyncio.get_running_loop().call_later(0.01, advance, LONGEST_PAUSE_SECONDS)
        if cut == "refused":
            return NotSent("connection refused")
        answer = None if cut == "lost" else self.host.line(request)
        if request["operation"] in self.held:
            self.arrived[request["operation"]].set()
            await self.held[request["operation"]].wait()
        return answer if answer is not None and cut is None else Unknown("no answer")


@dataclass
class Till:
    """A shop with one terminal of kind `service`."""

    service: Service
    adapter: HereAdapter
    device: Device
    clock: MovableClock

    async def sale(self) -> tuple[str, Reply]:
        """Return a lease of a new terminal, and the answer to its authorization."""
        self.device = await service_device(self.service)
        lease_id = await at_terminal(self.device)
        return lease_id, await authorize(self.device, lease_id)

    async def approve(self, lease_id: str, reply: Reply, **options: Any) -> Reply:
        """Report the approval of the answer."""
        content = {**approved(), "reference_id": reply.body["reference_id"]}
        return await self.device.result(lease_id, **{**content, **options})

    async def status(self, lease_id: str) -> str:
        """Return the order's status."""
        return str((await self.service.get(f"ORD{lease_id}"))["status"])

    async def work(self, seconds: float = 0, *, steps: int = 1) -> None:
        """Let time pass in steps, and do what is due after each."""
        settings = Settings()
        objects = Objects(Acquirers(test=self.adapter))
        context = WorkerContext(self.service.database, settings, self.clock, KEYS, objects=objects)
        for _ in range(steps):
            self.clock.advance(round(seconds * 1000 / steps))
            await expiry.UNKNOWN_OUTCOME.step(context)
            await process_jobs(self.service, self.adapter)

    def net_minor(self, lease_id: str) -> int:
        """Return what the payment comes to at the host."""
        return self.adapter.host.ledger().net_minor(f"PAY{lease_id}")

    def kinds(self, lease_id: str) -> list[str]:
        """Return the kinds of the payment's entries in the host's ledger."""
        return [one.kind for one in self.adapter.host.ledger().entries if one.payment_id == f"PAY{lease_id}"]


@asynccontextmanager
async def till(database: Database, can: Capabilities) -> AsyncIterator[Till]:
    """Open a shop without workers whose host can do this; in the end nothing is open, and the invariants hold."""
    clock = MovableClock()
    clock.freeze()
    now_ms: Callable[[], int] = clock.now_ms
    host = Host("host", can, now_ms, random.Random(1), declined_share=0, other_amount_share=0)
    adapter = HereAdapter(host)
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=adapter)) as service:
        yield Till(service, adapter, await service_device(service), clock)
        assert (host.ledger().faults, host.ledger().provisional) == ((), frozenset())
        assert await rows(service, OPEN) == []
        assert await check.check(database, clock.now_ms()) == []
