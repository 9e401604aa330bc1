"""A run of webhooks: events for receivers of which most fail, delivered by a process that is killed again and again."""

from __future__ import annotations

import asyncio
import random
import signal
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench import notifications

from faults.unreliable_receivers import HEALTHY, SLOW_SECONDS, Arrivals, receiving
from forks import Fork, Forks
from paydesk.core.clock import SystemClock
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Transaction
from paydesk_process import environment

ANNOUNCED_SHARE = 0.7
"""Of the time of a run. In the rest the healthy receiver gets what is left."""
GRACE_SECONDS_MAX = 60.0
LOOK_SECONDS = 0.2
END_SECONDS_MAX = 20.0
BY_STATUS = "SELECT status, COUNT(*) FROM deliveries WHERE subscription_id = $1 GROUP BY status"

EXPIRE = "UPDATE deliveries SET claimed_until_ms = 0 WHERE claimed_until_ms > 0"

_forks = Forks("faults.delivering_process")


@dataclass
class Outcome:
    """What a run came to. `statuses`: of each receiver's deliveries. `memory_mb`: seconds of the run, and RSS."""

    events: int = 0
    kills: int = 0
    statuses: dict[str, dict[str, int]] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    healthy_seconds: list[float] = field(default_factory=list)
    memory_mb: list[tuple[float, float]] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def percentile(self, percent: int) -> float:
        """Return a percentile of the healthy receiver's seconds from commit to arrival."""
        if len(self.healthy_seconds) < 2:
            return 0.0
        return statistics.quantiles(self.healthy_seconds, n=100, method="inclusive")[percent - 1]


@dataclass(frozen=True)
class Plan:
    """The size of a run. The process is killed after a random time around `kill_seconds`."""

    events: int
    seconds: float
    kill_seconds: float
    receivers: tuple[str, ...]
    slow_seconds: float = SLOW_SECONDS
    waits_for_leases: bool = True
    """Whether what a killed process has claimed is claimed for as long as it said, or is free as if that had passed."""


async def run(plan: Plan, url: str, folder: Path, chance: random.Random, seen: Callable[[float], None]) -> Outcome:
    """Announce, deliver, kill; then count what every receiver got and what is stored."""
    outcome, arrivals = Outcome(plan.events), Arrivals(chance, plan.slow_seconds)
    async with receiving(arrivals, plan.receivers) as urls:
        database = await open_database(url)
        ids = await notifications.subscribe(database, list(urls.values()), SystemClock().now_ms())
        await database.close()
        process = await _deliver(plan, url, folder, chance, outcome, arrivals, seen)
        await _all_recorded(url, dict(zip(urls, ids, strict=True))[HEALTHY], plan.events)
        process.send_signal(signal.SIGTERM)
        await _ended(process)
    await _count(outcome, arrivals, url, dict(zip(urls, ids, strict=True)))
    return outcome


async def _deliver(
    plan: Plan,
    url: str,
    folder: Path,
    chance: random.Random,
    outcome: Outcome,
    arrivals: Arrivals,
    seen: Callable[[float], None],
) -> Fork:
    # The parent of the processes imports everything when it is first used.
    _forks.start([url, "0", "1", "0"], environment(), folder / "deliverer.log").send_signal(signal.SIGKILL)
    per_second = plan.events / (plan.seconds * ANNOUNCED_SHARE)
    arguments = [url, str(plan.events), str(per_second), str(time.time())]

    def start() -> Fork:
        return _forks.start(arguments, environment(), folder / "deliverer.log")

    began, process = time.monotonic(), start()
    next_kill = began + plan.kill_seconds
    while (now := time.monotonic()) < began + plan.seconds + GRACE_SECONDS_MAX:
        seen(min(now - began, plan.seconds))
        is_over = now > began + plan.seconds and outcome.kills > 0
        if is_over and len(arrivals.seconds[HEALTHY]) == plan.events:
            break
        if now > next_kill and not is_over:
            process.send_signal(signal.SIGKILL)
            await _ended(process)
            if not plan.waits_for_leases:
                await expire_leases(url)
            process, next_kill = start(), now + plan.kill_seconds * (0.5 + chance.random())
            outcome.kills += 1
        elif process.poll() is not None:
            outcome.findings.append(f"the delivering process ended with {process.poll()}: see {folder}")
            break
        outcome.memory_mb.append((now - began, _memory_mb(process.pid)))
        await asyncio.sleep(LOOK_SECONDS)
    return process


async def _all_recorded(url: str, subscription_id: str, events: int) -> None:
    """Wait until every event is delivered. What a killed process delivered is due again when its claim expires."""
    database = await open_database(url, exclusive=False)
    limit = time.monotonic() + GRACE_SECONDS_MAX
    while time.monotonic() < limit:
        if (await database.read(_statuses(subscription_id))).get("delivered") == events:
            break
        await asyncio.sleep(LOOK_SECONDS)
    await database.close()


def _statuses(subscription_id: str) -> Callable[[Transaction], Awaitable[dict[str, int]]]:
    async def read(tx: Transaction) -> dict[str, int]:
        return {str(row[0]): int(row[1]) for row in await tx.all(BY_STATUS, subscription_id)}

    return read


async def expire_leases(url: str) -> None:
    """Free what a process has claimed that was killed, as if its leases had expired. On SQLite no process runs."""
    database = await open_database(url)
    await database.write(lambda tx: tx.run(EXPIRE))
    await database.close()


async def _ended(process: Fork) -> None:
    async with asyncio.timeout(END_SECONDS_MAX):
        while process.poll() is None:  # noqa: ASYNC110 - another process gives no sign of its own
            await asyncio.sleep(LOOK_SECONDS / 10)


def _memory_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


async def _count(outcome: Outcome, arrivals: Arrivals, url: str, subscriptions: dict[str, str]) -> None:
    database = await open_database(url)
    for name, subscription_id in subscriptions.items():
        outcome.statuses[name] = await database.read(_statuses(subscription_id))
    await database.close()
    outcome.requests, outcome.healthy_seconds = dict(arrivals.requests), arrivals.seconds[HEALTHY]
    outcome.findings += arrivals.out_of_order()
    for name, statuses in outcome.statuses.items():
        if sum(statuses.values()) != outcome.events:
            outcome.findings.append(f"{name}: {sum(statuses.values())} of {outcome.events} deliveries: {statuses}")
        arrived = len(arrivals.seconds[name])
        if arrived < statuses.get("delivered", 0):
            outcome.findings.append(f"{name}: {statuses['delivered']} delivered, but {arrived} arrived")
    if outcome.statuses[HEALTHY].get("delivered") != outcome.events:
        outcome.findings.append(f"{HEALTHY}: not all were delivered: {outcome.statuses[HEALTHY]}")
