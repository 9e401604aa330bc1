"""The reference client of `examples/`, run as a program against a service, with kills and lost answers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from paydesk.storage.database import Database
from service import Service, Terminal, running

EXAMPLES = Path(__file__).parents[2] / "examples"
CLIENT_LINES_MAX = 200
SECONDS_MAX = 30

CHANGED = """
import os, signal, sys
from pathlib import Path
import hardware, terminal

def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)

{change}
terminal.Terminal(sys.argv[1], Path(sys.argv[2])).run()
"""
"""The client with a change: a kill at a certain moment, or a network that loses answers."""

KILLED_AFTER_PERMIT = "terminal.datetime = type('Clock', (terminal.datetime,), {'fromisoformat': die})"
"""The program ends with the permit's answer, before the journal says `sent`."""

KILLED_AFTER_CHARGE = """
charge = terminal.charge
terminal.charge = lambda *args: die(charge(*args))
"""

ANSWERS_LOST = """
send, lost = terminal.send, set()
def lossy(method, url, *args):
    answer, path = send(method, url, *args), url.partition("?")[0]
    if path in lost or "/leases/" not in path:
        return answer
    lost.add(path)
    raise ConnectionError(f"the answer of {path} is lost")
terminal.send = lossy
"""


class Client:
    """The client of one terminal, with its journal, as a program that can be killed."""

    def __init__(self, service: Service, terminal: Terminal, folder: Path) -> None:
        self.service, self.terminal, self.path = service, terminal, folder / "journal.json"
        self.path.write_text(json.dumps({"token": terminal.token}))

    @asynccontextmanager
    async def run(self, change: str = "", **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run the client until the end of the block."""
        program = ["-c", CHANGED.format(change=change)] if change else [str(EXAMPLES / "terminal.py")]
        journal = [str(self.path)] if change else ["--journal", str(self.path)]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *program,
            self.service.base_url,
            *journal,
            cwd=EXAMPLES,
            env={**os.environ, "BUYER_SECONDS": "0", **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    def journal(self) -> list[dict[str, Any]]:
        """Return the entries of the journal."""
        return list(json.loads(self.path.read_text()).get("entries", {}).values())

    async def order(self) -> str:
        """Create an order for the terminal; return its id."""
        reply = await self.service.create(self.terminal)
        order_id: str = reply.body["id"]
        return order_id

    async def until(self, order_id: str, *statuses: str) -> dict[str, Any]:
        """Return the order once its payment has one of the detailed statuses."""
        async with asyncio.timeout(SECONDS_MAX):
            while (order := await self.service.get(order_id))["transactions"]["payments"][0][
                "status_detail"
            ] not in statuses:
                await asyncio.sleep(0.05)
        return order

    async def charges(self) -> int:
        """Return how many payments the acquirer has."""
        rows = await self.service.database.read(lambda tx: tx.all("SELECT * FROM simulator_payments"))
        return len(rows)


@pytest.fixture
async def client(database: Database, tmp_path: Path) -> AsyncIterator[Client]:
    """The client of a new terminal."""
    async with running(database, development=True) as service:
        yield Client(service, await service.terminal(), tmp_path)


def test_the_client_is_short() -> None:
    """It can be read at once."""
    assert len((EXAMPLES / "terminal.py").read_text().splitlines()) <= CLIENT_LINES_MAX


async def test_pays_one_order_after_another(client: Client) -> None:
    """Each is approved, and the journal is empty afterwards."""
    async with client.run():
        for _ in range(3):
            order = await client.until(await client.order(), "accredited")
            assert order["transactions"]["payments"][0]["card"]["last_digits"] == "5682"
    assert client.journal() == []
    assert await client.charges() == 3
