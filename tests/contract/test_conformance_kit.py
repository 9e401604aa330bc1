"""The conformance kit: the virtual terminal passes every case, and each planted fault is found by its case."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import replace

import aiohttp
import pytest

from conformance_faults import FAULTS
from conftest import short_and_long
from paydesk.conformance import bench, devices, runner
from paydesk.conformance.bench import Bench
from paydesk.conformance.cases import permits, restarts, results, sessions
from paydesk.conformance.kit import Patience
from paydesk.conformance.rules import RULES
from paydesk.core.secrets import Secret
from paydesk.http import server

QUICK = Patience(seconds=8, quiet_seconds=0.6)
SERVICE_CASES = ("payment", "declined", "charge-answer-lost", "cancel-wins", "restart-charging")
RULE_CASES = {"no-card-data": "hello"}
"""A case to play for a rule."""


@pytest.fixture
async def opened() -> AsyncIterator[Bench]:
    """A bench whose terminal is not started."""
    async with bench.opened(server.bind("127.0.0.1", 0), QUICK, lambda _: None) as opened:
        yield opened


async def _play(opened: Bench, only: Collection[str]) -> dict[str, str]:
    """Play the cases with the virtual terminal; return the reason of each case and rule that did not hold."""
    kit = opened.kit
    async with devices.virtual(opened) as restart:
        kit.restart_command = restart
        assert await runner.first_hello(kit, QUICK.seconds)
        outcomes = [outcome async for outcome in runner.play(kit, only)]
    assert {outcome.name for outcome in outcomes} == {*only, *RULES}
    assert all(outcome.reason for outcome in outcomes if outcome.status != "held")
    return {outcome.name: outcome.reason for outcome in outcomes if not outcome.passed}


@pytest.mark.parametrize("module", [sessions, permits, results, restarts], ids=lambda module: module.__name__[26:])
async def test_the_virtual_terminal_passes(opened: Bench, module: object) -> None:
    """Every case holds, and every rule throughout."""
    names = [name for name, case in runner.CASES.items() if case in vars(module).values()]
    assert names
    assert await _play(opened, names) == {}


@pytest.mark.parametrize("cases", short_and_long(SERVICE_CASES, tuple(runner.CASES)), ids=len)
async def test_the_virtual_terminal_of_kind_service_passes(cases: tuple[str, ...]) -> None:
    """The service asks the acquirer for it."""
    listener = server.bind("127.0.0.1", 0)
    async with bench.opened(listener, QUICK, lambda _: None, "service") as opened:
        assert await _play(opened, cases) == {}
        assert not any(opened.kit.log.find("charge"))
        assert any(opened.kit.log.find("authorize"))


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_planted_fault_is_found(opened: Bench, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its case does not hold; a payment without faults does, so the terminal is otherwise sound."""
    plant, found_by = FAULTS[fault]
    plant(monkeypatch)
    missed = await _play(opened, ["payment", RULE_CASES.get(found_by, found_by)])
    assert found_by in missed
    assert "payment" not in missed


async def _pair(opened: Bench, pause: Callable[[float], Awaitable[object]]) -> Secret:
    """Pair a new terminal, with pauses of the interval that the service asks for; return its token."""
    async with aiohttp.ClientSession() as http:
        url = f"{opened.base_url}/device/v1/pairings"
        async with http.post(url, json={"model": "KIT_TEST", "serial": "1"}) as reply:
            codes = await reply.json()
        seconds = codes["interval"]
        while True:
            await pause(seconds)
            async with http.post(f"{url}/token", json={"device_code": codes["device_code"]}) as reply:
                answer = await reply.json()
            if reply.status == 200:
                return Secret(answer["device_token"])
            assert answer["error"] in ("slow_down", "authorization_pending")
            seconds += 5 if answer["error"] == "slow_down" else 0


@pytest.mark.slow  # It waits for the interval as a terminal must.
async def test_a_terminal_that_pairs_itself_is_approved(opened: Bench) -> None:
    """It is slowed down once; then it gets a token, and orders of the kit."""
    token = await _pair(opened, asyncio.sleep)
    assert await _play(replace(opened, device_token=token), ["pairing", "payment"]) == {}
    assert opened.kit.shop.terminal_id == "KIT_TEST__1"


async def test_a_terminal_that_pairs_in_a_hurry_is_found(opened: Bench) -> None:
    """It does not wait for the interval."""
    token = await _pair(opened, lambda _: asyncio.sleep(0.2))
    assert set(await _play(replace(opened, device_token=token), ["pairing"])) == {"pairing"}


async def test_a_terminal_that_does_not_come_back_is_not_shown(opened: Bench) -> None:
    """A case whose situation did not come about is no pass, and says what was missing."""

    async def restart() -> None:
        """Do nothing."""

    kit = opened.kit
    kit.patience = Patience(seconds=0.5)
    async with devices.virtual(opened):
        kit.restart_command = restart
        assert await runner.first_hello(kit, QUICK.seconds)
        first = await anext(runner.play(kit, ["restart-idle"]))
    assert (first.status, first.passed) == ("not shown", False)
    assert "no hello with a new boot_id" in first.reason
