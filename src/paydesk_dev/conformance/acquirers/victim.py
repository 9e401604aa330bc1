"""An engine in a process of its own, to be killed. Its parent forks it again after each kill: it starts at once.

Its standard input takes a label to arm, or `end`; its standard output says `ready`, `armed`, `killed`, and at the end
whether the label was `reached` or `unreached`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paydesk.core import crash_points
from paydesk.core.clock import MovableClock
from paydesk.core.crash_points import Label
from paydesk.engine.payments.acquirer import Payment
from paydesk.platform import logs
from paydesk.platform.process import node
from paydesk.platform.storage.connect import open_database
from paydesk_dev.conformance.acquirers import engine
from paydesk_dev.conformance.acquirers.engine import Engine, Recorded
from paydesk_dev.conformance.acquirers.target import Target
from paydesk_dev.conformance.case import NotShown

END, SECONDS_MAX = "end", 60.0


@dataclass(frozen=True, slots=True)
class Victim:
    """An engine that dies at a crash point, and is started again at once."""

    process: asyncio.subprocess.Process

    async def arm(self, label: Label) -> None:
        """Let it die when it reaches the label."""
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

    async def end(self) -> bool:
        """Return whether it died since a label was armed; if it did not, it is killed, so that no label is armed."""
        self._write(END)
        return await self.until("reached", "unreached") == "reached"

    async def until(self, *words: str) -> str:
        """Wait until it has said one of the words, and return it. Raises `NotShown`."""
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(SECONDS_MAX):
                async for line in self.process.stdout:
                    if (word := line.decode().strip()) in words:
                        return word
        except TimeoutError:
            pass
        raise NotShown(f"The engine in a process of its own is not {words[0]} within {SECONDS_MAX:g} s.")

    def _write(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())


@asynccontextmanager
async def opened(folder: Path, target: Target, probe: Payment) -> AsyncIterator[tuple[Victim, Engine]]:
    """Run such an engine, with its data in the folder. Raises `StartRefused`."""
    with node.listen("127.0.0.1", 0) as listener:
        accounts = await engine.prepared(folder, listener)
        plan = {"target": asdict(target), "probe": asdict(probe), "listener": listener.fileno()}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__, str(folder), json.dumps(plan)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(listener.fileno(),),
        )
    database = await open_database(engine.settings_of(folder).database_url, exclusive=False)
    try:
        recorded, victim = Recorded(target.create(database, MovableClock())), Victim(process)
        await victim.until("ready")
        yield victim, Engine(accounts, database, recorded)
        await recorded.adapter.close()
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await database.close()


def main(folder: Path, plan: dict[str, Any]) -> None:
    """Fork engines, one after the other, until one ends by itself."""
    logs.configure("text", Path(os.devnull).open("a", buffering=1))  # noqa: SIM115  # open until the end
    while child := os.fork():
        _, status = os.waitpid(child, 0)
        if status != signal.SIGKILL:
            sys.exit(status != 0)
        _say("killed")
    asyncio.run(_serve(folder, plan))


async def _serve(folder: Path, plan: dict[str, Any]) -> None:
    """Serve until standard input ends."""
    stop, armed, target, probe = asyncio.Event(), list[Label](), Target(**plan["target"]), Payment(**plan["probe"])

    def obey() -> None:
        word: Any = os.read(0, 100).decode().strip()
        if not word:
            stop.set()
        elif word == END:
            _say("unreached" if armed else "reached")
            if armed:
                os.kill(os.getpid(), signal.SIGKILL)
        else:
            crash_points.arm(word)
            armed.append(word)
            _say("armed")

    with socket.socket(fileno=plan["listener"]) as listener:
        async with engine.serving(folder, target, listener, probe):
            asyncio.get_running_loop().add_reader(0, obey)
            _say("ready")
            await stop.wait()


def _say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
