"""An engine in a process of its own, to be killed. Its parent forks it again after each kill: it starts at once.

Its standard input takes a label to arm, or `kill`; its standard output says `armed`, `ready` and `killed`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from paydesk.core import crash_points
from paydesk.core.clock import MovableClock
from paydesk.core.crash_points import Label
from paydesk.engine.payments import jobs
from paydesk.platform import logs
from paydesk.platform.process import node
from paydesk.platform.storage.connect import open_database
from paydesk_dev import http_client
from paydesk_dev.clock.clock import restore_clock
from paydesk_dev.conformance import service
from paydesk_dev.conformance.acquirers import engine
from paydesk_dev.conformance.acquirers.engine import Engine
from paydesk_dev.conformance.acquirers.target import Target
from paydesk_dev.conformance.case import NotShown

KILL = "kill"


@dataclass(slots=True)
class Victim:
    """An engine that dies at a crash point, and is started again at once."""

    engine: Engine
    process: asyncio.subprocess.Process
    killed: int = 0
    """How often it was killed since a label was armed."""
    _said: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def arm(self, label: Label) -> None:
        """Let it die when it reaches the label."""
        self.killed = 0
        self._write(label)
        await self.until("armed")

    async def die_in(self, label: Label, call: Coroutine[Any, Any, object]) -> None:
        """Let it die at a label during a call, which is not repeated."""
        await self.arm(label)
        calling = asyncio.create_task(call)
        await self.until("killed")
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await self.until("ready")

    async def kill(self) -> None:
        """Kill it, so that it is started again with no label armed."""
        killed = self.killed
        self._write(KILL)
        while self.killed == killed:
            await self.until("killed")

    async def until(self, word: str) -> None:
        """Wait until it has said the word. Raises `NotShown`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(engine.SECONDS_MAX):
                while await self._said.get() != word:
                    pass
                return
        raise NotShown(f"The engine in a process of its own is not {word} within {engine.SECONDS_MAX:g} s.")

    async def listen(self) -> None:
        """Note what it says, until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            word = line.decode().strip()
            self.killed += word == "killed"
            self._said.put_nowait(word)

    def _write(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())


@asynccontextmanager
async def opened(folder: Path, target: Target, encrypted_data: bytes) -> AsyncIterator[Victim]:
    """Run such an engine, with its data in the folder. Raises `StartRefused`."""
    settings = engine.settings_of(folder)
    with node.listen("127.0.0.1", 0) as listener:
        async with node.database_of(settings) as database:
            accounts = await service.prepared(database, folder, listener, "service", live=True)
            adapter = target.create(database, MovableClock())
            await database.write(partial(engine.set_currency, seller_id=accounts.seller_id, adapter=adapter))
        plan = {"folder": str(folder), "target": asdict(target), "listener": listener.fileno()}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__, json.dumps(plan)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(listener.fileno(),),
        )
        database = await open_database(settings.database_url, exclusive=False)
        try:
            adapter = target.create(database, MovableClock())
            async with http_client.session() as http:
                driven = engine.engine_of(accounts, http, database, adapter, encrypted_data)
                victim = Victim(driven, process)
                listening = asyncio.create_task(victim.listen())
                await victim.until("ready")
                await driven.start_session()
                yield victim
            await adapter.close()
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
            await listening
            await database.close()


def main(plan: str) -> None:
    """Fork engines, one after the other, until one ends by itself."""
    logs.configure("text", Path(os.devnull).open("a", buffering=1))  # noqa: SIM115  # open until the end
    while child := os.fork():
        _, status = os.waitpid(child, 0)
        if status != signal.SIGKILL:
            sys.exit(status != 0)
        _say("killed")
    asyncio.run(_serve(json.loads(plan)))


async def _serve(plan: dict[str, Any]) -> None:
    """Serve until standard input ends."""
    folder, target, stop = Path(plan["folder"]), Target(**plan["target"]), asyncio.Event()
    with socket.socket(fileno=plan["listener"]) as listener:
        async with node.database_of(engine.settings_of(folder)) as database:
            await jobs.release_all(database)
            clock = await restore_clock(database)
            async with engine.serving(folder, target.name, database, listener, target.create(database, clock), clock):
                asyncio.get_running_loop().add_reader(0, _obey, stop)
                _say("ready")
                await stop.wait()


def _obey(stop: asyncio.Event) -> None:
    word = os.read(0, 100).decode().strip()
    if not word:
        stop.set()
    elif word == KILL:
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        crash_points.arm(word)  # type: ignore[arg-type]  # a case's label
        _say("armed")


def _say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1])
