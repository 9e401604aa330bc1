"""The reference client of `examples/`, run as a program against a service, with kills and lost answers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from conftest import short_and_long
from paydesk.operators.accounts import credentials
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Service, Terminal, running
from waiting import until, until_found

EXAMPLES = Path(__file__).parents[2] / "examples"
CLIENT_LINES_MAX = 250
SECONDS_MAX = 30

CHANGED = """
import os, signal, sys
from pathlib import Path
import hardware, terminal

def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)

pause = terminal.time.sleep
terminal.time.sleep = lambda seconds: pause(min(seconds, 0.05))
{change}
terminal.Terminal(sys.argv[1], Path(sys.argv[2])).run()
"""
"""The client with short pauses and a change: a kill at a certain moment, or a network that loses answers."""

QUICK = """
import runpy, time

pause = time.sleep
time.sleep = lambda seconds: pause(min(seconds, 0.05))
runpy.run_path("terminal.py", run_name="__main__")
"""
"""The client as it is started, with short pauses."""

CARD_WHEN_SHOWN = """
read_card, shown = terminal.read_card, Path(sys.argv[2]).with_name("shown")
terminal.read_card = lambda order: read_card(order) if shown.exists() else None
"""

KILLED_AFTER_PERMIT = """
send = terminal.send
def send_or_die(*args):
    answer = send(*args)
    return die() if "until" in answer[1] else answer
terminal.send = send_or_die
"""

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
        program = CHANGED.format(change=change) if change else QUICK
        journal = [str(self.path)] if change else ["--journal", str(self.path)]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            program,
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

    async def become_service(self) -> None:
        """Make the terminal one of kind `service`."""
        sql = "UPDATE terminals SET kind = 'service' WHERE terminal_id = $1"
        await self.service.database.write(lambda tx: tx.run(sql, self.terminal.id))

    async def until(self, order_id: str, *statuses: str) -> dict[str, Any]:
        """Return the order once its payment has one of the detailed statuses."""
        return await self.service.until(order_id, *statuses)

    async def has_ended_all(self) -> None:
        """Wait until the journal is empty: the program has read the answers to all results."""
        await until(lambda: not self.journal())

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
        await client.has_ended_all()
    assert await client.charges() == 3


async def test_pairs_itself(client: Client) -> None:
    """It shows a code until an operator approves it, though asked to slow down, and keeps the token in its journal."""
    service = client.service
    operator = credentials.new_token()
    now_ms = service.clock.now_ms()
    await service.database.write(lambda tx: credentials.add_operator(tx, operator, "anna", "owner", now_ms))
    client.path.unlink()
    async with client.run() as process:
        assert process.stdout is not None
        printed = await asyncio.wait_for(process.stdout.readline(), SECONDS_MAX)
        code = printed.decode().removeprefix("pairing code ").strip()
        body = {"seller_id": service.seller_id, "live_mode": False}
        path = f"/operator/v1/pairings/{code}"
        paired = await service.request("POST", path, body, token=operator.reveal(), key=None)
        assert paired.status == 201
        client.terminal = Terminal("EXAMPLE__4711", "")
        mode = {"terminals": [{"id": client.terminal.id, "operating_mode": "PDV"}]}
        assert (await service.request("PATCH", "/terminals/v1/setup", mode)).status == 200
        await client.until(await client.order(), "accredited")
    assert json.loads(client.path.read_text())["token"].startswith("PDT-")
    assert client.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("environment", "detail"),
    [({}, "accredited"), ({"LAST_DIGITS": "9002"}, "insufficient_amount"), ({"LAST_DIGITS": "9021"}, "accredited")],
    ids=["approved", "declined", "the acquirer's answer lost"],
)
async def test_terminal_of_kind_service(client: Client, environment: dict[str, str], detail: str) -> None:
    """The service asks the acquirer, and the result that the terminal reports is the order's."""
    await client.become_service()
    async with client.run(**environment):
        await client.until(await client.order(), detail)
        await client.has_ended_all()
    assert await client.charges() == 1


@pytest.mark.parametrize(("accepts", "detail"), [("1", "accredited"), ("0", "rejected_other_reason")])
async def test_card_decides_on_a_provisional_approval(
    database: Database, tmp_path: Path, accepts: str, detail: str
) -> None:
    """The approval is shown after the result is recorded; declined by the card, it is reversed."""
    settings = Settings(simulator_confirmations=True)
    async with running(database, development=True, settings=settings) as service:
        client = Client(service, await service.terminal(), tmp_path)
        await client.become_service()
        async with client.run(CARD_ACCEPTS=accepts) as process:
            order = await client.until(await client.order(), detail)
            await client.has_ended_all()
            assert order["status"] == ("processed" if accepts == "1" else "failed")
            process.kill()
            printed, _ = await process.communicate()
        assert (b"approved: print, release the goods" in printed) == (accepts == "1")
        sql = "SELECT confirmed_ms IS NOT NULL, reversed_ms IS NOT NULL FROM simulator_payments"

        async def ledger() -> bool:
            rows = await service.database.read(lambda tx: tx.all(sql))
            return [tuple(map(bool, row)) for row in rows] == [(accepts == "1", accepts == "0")]

        await until_found(ledger)


async def test_declined_card(client: Client) -> None:
    """The reason reaches the order."""
    async with client.run(LAST_DIGITS="9002"):
        order = await client.until(await client.order(), "insufficient_amount")
        assert order["status"] == "failed"
        await client.has_ended_all()


async def test_cancel_before_the_permit(client: Client) -> None:
    """A cancel while the buyer looks for the card ends the order, and the terminal takes the next one."""
    async with client.run(CARD_WHEN_SHOWN):
        order_id = await client.order()
        await client.until(order_id, "at_terminal")
        reply = await client.service.cancel(order_id, headers={"X-Allow-Cancelable-Status": "at_terminal"})
        assert reply.status == 202
        order = await client.until(order_id, "canceled_by_api")
        assert order["status"] == "canceled"
        client.path.with_name("shown").touch()
        await client.until(await client.order(), "accredited")
    assert await client.charges() == 1


@pytest.mark.parametrize(
    ("change", "is_sent"),
    [(KILLED_AFTER_PERMIT, False), (KILLED_AFTER_CHARGE, True)],
    ids=["before the acquirer", "before the acquirer's answer"],
)
async def test_killed_after_the_permit(client: Client, change: str, *, is_sent: bool) -> None:
    """The next start pays the order once: it continues if nothing was sent, else the acquirer has the outcome."""
    async with client.run(change) as killed:
        order_id = await client.order()
        assert await asyncio.wait_for(killed.wait(), SECONDS_MAX) == -signal.SIGKILL
    (entry,) = client.journal()
    assert (entry["last_step"], entry["sent"]) == ("authorizing", is_sent)
    assert (await client.service.get(order_id))["status"] == "at_terminal"
    async with client.run():
        await client.until(order_id, "accredited")
        await client.until(await client.order(), "accredited")
    assert await client.charges() == 2


async def test_killed_with_a_result(client: Client) -> None:
    """The result is sent after the restart, under the id that the journal has."""
    async with client.run("terminal.Terminal.send_results = die") as killed:
        order_id = await client.order()
        assert await asyncio.wait_for(killed.wait(), SECONDS_MAX) == -signal.SIGKILL
    assert client.journal()[0]["result"]["outcome"] == "approved"
    async with client.run():
        await client.until(order_id, "accredited")
    assert await client.charges() == 1


async def test_every_answer_lost_once(client: Client) -> None:
    """Each call about a payment is repeated, and has one effect."""
    async with client.run(ANSWERS_LOST):
        await client.until(await client.order(), "accredited")
    assert await client.charges() == 1


async def test_later_start_replaces_the_session(client: Client) -> None:
    """The earlier program prints the refusal with its status, and ends."""
    async with client.run() as first:
        await client.until(await client.order(), "accredited")
        async with client.run():
            printed, _ = await asyncio.wait_for(first.communicate(), SECONDS_MAX)
            assert b": 409 The terminal has begun a newer session" in printed
            assert first.returncode == 1
            await client.until(await client.order(), "accredited")


CASES = ("restart-permitted",)


@pytest.mark.parametrize("cases", short_and_long(CASES, ()), ids=lambda cases: f"{len(cases) or 'all'} cases")
def test_passes_the_conformance_kit(cases: tuple[str, ...], tmp_path: Path) -> None:
    """The kit starts and restarts the program; every case holds."""
    client = f"{sys.executable} {EXAMPLES / 'terminal.py'} --journal {tmp_path / 'journal.json'}"
    options = [word for case in cases for word in ("--only", case)] or ["--pair"]
    played = command(
        *("terminals", "conformance", "--json", "--listen", "127.0.0.1:0", "--run", client, *options),
        folder=tmp_path,
        BUYER_SECONDS="0",
    )
    assert played.returncode == 0, played.stderr
    found = json.loads(played.stdout)
    assert {case["status"] for case in found} <= {"held", "not applicable"}, found
    assert set(cases) <= {case["name"] for case in found}
