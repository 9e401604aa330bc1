"""A node is killed while it undoes sales: every terminal is free soon afterwards, by the machine's clock."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import msgspec
import pytest

from acquirers.node import Plan
from acquirers.run import Pace, behind_the_port, free_seconds_max, seeded, started
from acquirers.terminals import BEHAVIORS, Terminal
from conftest import first_and_others
from faults.caller import Addresses, Caller, Tally
from seeds import seeded as chance_of
from waiting import HANGS_SECONDS

HOST = "holds_for_ever"


@pytest.mark.on_postgres
@pytest.mark.long("a claim of a killed node lasts for two answers of the acquirer and 5 s")
@pytest.mark.parametrize(
    "label", first_and_others("reversal_asked", "claimed", "intent_committed", "outcome_committed", "asked")
)
async def test_terminals_are_free_soon_after_a_kill(
    database_url: str, tmp_path: Path, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All restart with a provisional approval, so that it is undone, and the node dies at a step of that."""
    monkeypatch.setattr("acquirers.terminals.BEHAVIORS", {name: int(name == "restart") for name in BEHAVIORS})
    chance, tally, give_up = chance_of(), Tally(), asyncio.Event()
    pace = Pace(tmp_path / "clock", factor=1)
    async with behind_the_port(tmp_path, pace, chance) as there, aiohttp.ClientSession() as session:
        there.wires[0].share = 0
        seeds = await seeded(database_url, session)
        plan = Plan(str(pace.file), there.ports, {terminal_id: HOST for _, terminal_id, _ in seeds})
        async with started(database_url, tmp_path, 1, msgspec.json.encode(plan).decode()) as (node,):
            addresses = Addresses([node.base_url], chance)
            terminals = [
                Terminal(
                    Caller(session, addresses, tally, chance, give_up), terminal_id, device_token, token, pace.now_ms
                )
                for token, terminal_id, device_token in seeds
            ]
            async with session.get(node.base_url + "/nothing", headers={"X-Crash-At": f"{label}:3"}):
                selling = asyncio.gather(*[terminal.run(iter((1,))) for terminal in terminals])
            assert await asyncio.to_thread(node.died, HANGS_SECONDS) < 0
            await asyncio.to_thread(node.start)
            await asyncio.wait_for(selling, free_seconds_max())
            await asyncio.to_thread(node.end)
    assert tally.faults == []
    assert [terminal.sales[0].behavior for terminal in terminals] == ["restart"] * len(terminals)
