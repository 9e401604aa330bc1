"""A node whose live orders are at hosts of the tests, and whose clock a test moves; its leases follow the machine's.

`main([DATABASE_URL, PORT, PLAN])`: `PLAN` is JSON, see `Plan`.
"""

from __future__ import annotations

import asyncio
import mmap
import time
from dataclasses import fields
from pathlib import Path

import msgspec

from acquirers.kinds import KINDS
from acquirers.lines import LineAdapter
from acquirers.switches import KEY_ID, PATH
from faults.clocked_node import OFFSET
from node_process import armed
from paydesk.core.clock import Clock
from paydesk.engine.orders import expiry
from paydesk.engine.orders.routing import Routing, Rule
from paydesk.engine.payments import jobs as payment_jobs
from paydesk.engine.payments.acquirer import Acquirer
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.adapters.context import AdapterContext
from paydesk.engine.payments.http.options import create
from paydesk.platform import jobs, logs, settings
from paydesk.platform.http.server import server
from paydesk.platform.process import node
from paydesk.service.compose import Parts, compose
from paydesk.service.workers import run_all
from service import KEYS
from waiting import timer

LOOK_SECONDS = 0.15
"""How often its workers look for what is due."""
SOONER = 20
"""How much sooner a breaker tries again: the whole run is faster than life."""
SETTINGS = {
    "inquiry_pause_seconds": (1, 2, 5, 10),
    "reversal_pause_seconds": (1, 2, 5, 10),
    "database_timeout_seconds": 60,
    **settings.UNTHROTTLED,
}


class Plan(msgspec.Struct):
    """What a node is given: the file of its clock, the ports of the hosts' wires, and the host of each terminal.

    `secret_file`: of the switches' secret, if the hosts are behind switches.
    """

    clock_file: str
    ports: dict[str, int]
    hosts: dict[str, str]
    secret_file: str = ""


class FileClock(Clock):
    """The machine's clock, moved by what the file says. Nothing else of the process is moved."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._offset = mmap.mmap(opened.fileno(), OFFSET.size)

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        offset_ms: int = OFFSET.unpack_from(self._offset)[0]
        return time.time_ns() // 1_000_000 + offset_ms


async def serve(database_url: str, port: int, plan: Plan) -> None:
    """Serve until SIGTERM."""
    chosen = settings.load(database_url=database_url, **SETTINGS)
    logs.configure(chosen.log_format)
    rules = tuple(Rule(name, terminal=terminal_id) for terminal_id, name in plan.hosts.items())
    routing = Routing(rules=rules)
    clock = FileClock(Path(plan.clock_file))
    live = {name: _adapter(name, plan, clock) for name in KINDS}
    async with node.database_of(chosen) as database:
        await payment_jobs.release_all(database)
        stop = asyncio.Event()
        parts = Parts(loopback_allowed=True, objects=(Acquirers(live=live, routing=routing), routing))
        service = compose(chosen, database, KEYS, clock, parts)
        node.stop_on_signals(stop)
        await node.run_together(
            stop,
            server.serve(armed(service.app()), server.bind("127.0.0.1", port), chosen, lambda: None, stop),
            run_all(service.context, stop),
        )


def _adapter(name: str, plan: Plan, clock: FileClock) -> Acquirer:
    kind, port = KINDS[name], plan.ports[name]
    if not plan.secret_file:
        return LineAdapter(name, port, kind)
    changed = {one.name: getattr(kind, one.name) for one in fields(kind) if getattr(kind, one.name) != one.default}
    options = {
        "url": f"http://127.0.0.1:{port}{PATH}",
        "key_id": KEY_ID,
        "secret": f"file:{plan.secret_file}",
        "capabilities": {key: list(value) if isinstance(value, frozenset) else value for key, value in changed.items()},
    }
    context = AdapterContext(
        now_ns=lambda: clock.now_ms() * 1_000_000, sleep=lambda seconds: timer(seconds / SOONER).wait()
    )
    return create(name, options, context)


def main(arguments: list[str]) -> None:
    """Serve the database on the port."""
    database_url, port, plan = arguments
    expiry.POLL_INTERVAL_SECONDS = jobs.POLL_INTERVAL_SECONDS = LOOK_SECONDS
    asyncio.run(serve(database_url, int(port), msgspec.json.decode(plan, type=Plan)))
