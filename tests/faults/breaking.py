"""What goes wrong during a run: one row a fault, each again and again at its own pace."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from faults.cluster import Cluster
from faults.wire import SPOILINGS
from paydesk.core.crash_points import LABELS

CLOCK_MS_MAX = 20_000
"""So little off is trusted: two clocks together stay within the minute in which a refresh may be repeated."""

Break = Callable[[Cluster, random.Random], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, how often it strikes by default, what it is called, and whether it needs PostgreSQL."""

    name: str
    every_seconds: float
    strike: Break
    needs_server: bool = False


async def kill_node(cluster: Cluster, chance: random.Random) -> None:
    """`kill -9` of one of those that are up, unless the others are all down."""
    up = [node for node in cluster.nodes if node.up]
    if len(up) > 1 or len(up) == len(cluster.nodes):
        chance.choice(up).kill()
        cluster.count("node kills")


async def crash_node(cluster: Cluster, chance: random.Random) -> None:
    """One of those that are up dies within one of its next requests, at a labelled place; not where it is the last."""
    up = [node for node in cluster.nodes if node.up]
    if len(up) > 1 or len(up) == len(cluster.nodes):
        await chance.choice(up).crash_at(chance.choice(LABELS), chance.randint(1, 10))
        cluster.count("crashes within a request")


async def kill_server(cluster: Cluster, chance: random.Random) -> None:
    """`kill -9` of PostgreSQL with all its processes; it comes back after a while."""
    async with cluster.changing:
        assert cluster.server is not None, "there is a server"
        await asyncio.to_thread(cluster.server.kill)
        cluster.count("PostgreSQL kills")
        try:
            await cluster.rest(chance.uniform(0.0, 1.0))
        finally:
            await asyncio.shield(asyncio.to_thread(cluster.server.resume))


async def stop(cluster: Cluster, chance: random.Random) -> None:
    """SIGSTOP of a node for a while."""
    node = chance.choice(cluster.nodes)
    node.suspend()
    cluster.count("stops")
    try:
        await cluster.rest(chance.uniform(0.3, 3.0))
    finally:
        node.wake_up()


async def stop_server(cluster: Cluster, chance: random.Random) -> None:
    """SIGSTOP of PostgreSQL for a while."""
    async with cluster.changing:
        assert cluster.server is not None, "there is a server"
        await asyncio.to_thread(cluster.server.suspend)
        cluster.count("stops")
        try:
            await cluster.rest(chance.uniform(0.3, 4.0))
        finally:
            await asyncio.shield(asyncio.to_thread(cluster.server.wake_up))


async def spoil(cluster: Cluster, chance: random.Random) -> None:
    """One wire delays, cuts, resets or is silent for a while."""
    wire = chance.choice(cluster.wires)
    wire.spoil(chance.choice(SPOILINGS))
    cluster.count("spoiled wires")
    try:
        await cluster.rest(chance.uniform(0.2, 2.0))
    finally:
        wire.mend()


async def move_clock(cluster: Cluster, chance: random.Random) -> None:
    """The wall clock of one node jumps."""
    chance.choice(cluster.nodes).move_clock(chance.randint(-CLOCK_MS_MAX, CLOCK_MS_MAX))
    cluster.count("clock jumps")


async def jump_clock(cluster: Cluster, chance: random.Random) -> None:
    """The wall clock of one that is up is an hour or more off for a while: it must judge nothing by it."""
    up = [node for node in cluster.nodes if node.up]
    if not up:
        return
    node = chance.choice(up)
    node.move_clock(chance.choice((-1, 1)) * chance.randint(3_600_000, 48 * 3_600_000))
    cluster.count("clock jumps of hours")
    try:
        await cluster.rest(chance.uniform(0.3, 2.0))
    finally:
        node.move_clock(0)


FAULTS = {
    "node-kill": (Fault("node-kill", 2, kill_node),),
    "crash": (Fault("crash", 5, crash_node),),
    "postgres-kill": (Fault("postgres-kill", 20, kill_server, needs_server=True),),
    "stop": (Fault("stop", 6, stop), Fault("stop-server", 12, stop_server, needs_server=True)),
    "proxy": (Fault("proxy", 1.5, spoil),),
    "clock": (Fault("clock", 4, move_clock), Fault("clock-jump", 8, jump_clock)),
}


async def keep_breaking(fault: Fault, cluster: Cluster, chance: random.Random) -> None:
    """Strike again and again until the cluster is to be calm."""
    while True:
        # A steady pace would meet a node at the same moment of its start every time.
        await cluster.rest(fault.every_seconds * chance.uniform(0.7, 1.3))
        if cluster.calm.is_set():
            return
        await fault.strike(cluster, chance)
