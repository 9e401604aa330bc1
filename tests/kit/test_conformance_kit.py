"""The conformance kit: the virtual terminal passes every case, and each planted fault is found by its case."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import replace

import aiohttp
import pytest

from conformance_faults import FAULTS
from conftest import short_and_long
from paydesk.core.secrets import Secret
from paydesk.platform.http.server import server
from paydesk_dev.conformance.terminals import bench, devices, exchanges, runner
from paydesk_dev.conformance.terminals.bench import Bench
from paydesk_dev.conformance.terminals.cases import permits, restarts, results, sessions
from paydesk_dev.conformance.terminals.kit import Patience
from paydesk_dev.conformance.terminals.rules import RULES
from skipped_waits import skipped_waits

PATIENCE = Patience(seconds=20, quiet_seconds=0.6)
SERVICE_CASES = ("payment", "declined", "charge-answer-lost", "cancel-wins", "restart-charging")
RULE_CASES = {"no-card-data": "hello"}
"""A case to play for a rule."""
REASONS = {
    "new_result_id_each_time": "was reported under 2 result ids",
    "keeps_its_boot_id": "with the boot_id of its previous start",
}
"""What the reason must say; it could be taken for something that was not shown."""


@pytest.fixture
async def opened() -> AsyncIterator[Bench]:
    """A bench whose terminal is not started."""
    with skipped_waits():
        async with bench.opened(server.bind("127.0.0.1", 0), PATIENCE, lambda _: None) as opened:
            yield opened


async def _play(opened: Bench, only: Collection[str]) -> dict[str, str]:
    """Play the cases with the virtual terminal; return the reason of each case and rule that did not hold."""
    kit = opened.kit
    async with devices.virtual(opened) as restart:
        kit.restart_command = restart
        assert await runner.first_hello(kit, PATIENCE.seconds)
        outcomes = [outcome async for outcome in runner.play(kit, only)]
    assert {outcome.name for outcome in outcomes} == {*only, *RULES}
    assert all(outcome.reason for outcome in outcomes if outcome.status != "held")
    return {outcome.name: outcome.reason for outcome in outcomes if not outcome.passed}


@pytest.mark.parametrize("module", [sessions, permits, results, restarts], ids=lambda module: module.__name__[36:])
async def test_the_virtual_terminal_passes(opened: Bench, module: object) -> None:
    """Every case holds, and every rule throughout."""
    names = [name for name, case in runner.CASES.items() if case in vars(module).values()]
    assert names
    assert await _play(opened, names) == {}


@pytest.mark.parametrize("cases", short_and_long(SERVICE_CASES, tuple(runner.CASES)), ids=len)
async def test_the_virtual_terminal_of_kind_service_passes(cases: tuple[str, ...]) -> None:
    """The service asks the acquirer for it."""
    with skipped_waits():
        async with bench.opened(server.bind("127.0.0.1", 0), PATIENCE, lambda _: None, "service") as opened:
            assert await _play(opened, cases) == {}
            assert not any(opened.kit.log.find("charge"))
            assert any(opened.kit.log.find("authorize"))


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_planted_fault_is_found(opened: Bench, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its case does not hold; a payment without faults does, so the terminal is otherwise sound."""
    plant, found_by = FAULTS[fault]
    plant(monkeypatch)
    missed = await _play(opened, ["payment", RULE_CASES.get(found_by, found_by)])
    assert REASONS.get(fault, "") in missed[found_by]
    assert "payment" not in missed


async def _pair(opened: Bench, part: float = 1) -> Secret:
    """Pair a new terminal, with pauses of this part of the interval that the service asks for; return its token."""
    async with aiohttp.ClientSession() as http:
        url = f"{opened.base_url}/device/v1/pairings"
        async with http.post(url, json={"model": "KIT_TEST", "serial": "1"}) as reply:
            codes = await reply.json()
        seconds = codes["interval"]
        while True:
            await asyncio.sleep(seconds * part)
            async with http.post(f"{url}/token", json={"device_code": codes["device_code"]}) as reply:
                answer = await reply.json()
            if reply.status == 200:
                return Secret(answer["device_token"])
            assert answer["error"] in ("slow_down", "authorization_pending")
            seconds += 5 if answer["error"] == "slow_down" else 0


async def test_a_terminal_that_pairs_itself_is_approved(opened: Bench) -> None:
    """It is slowed down once; then it gets a token, and orders of the kit."""
    token = await _pair(opened)
    assert await _play(replace(opened, device_token=token), ["pairing", "payment"]) == {}
    assert opened.kit.shop.terminal_id == "KIT_TEST__1"


async def test_a_terminal_that_pairs_in_a_hurry_is_found(opened: Bench) -> None:
    """It does not wait for the interval."""
    token = await _pair(opened, part=0.04)
    assert set(await _play(replace(opened, device_token=token), ["pairing"])) == {"pairing"}


async def test_a_terminal_that_does_not_come_back_is_not_shown(opened: Bench) -> None:
    """A person is asked to restart it. A case whose situation did not come about says what was missing."""
    kit, said = opened.kit, list[str]()
    kit.patience, kit.say = Patience(seconds=0.5), said.append
    async with devices.virtual(opened):
        assert await runner.first_hello(kit, PATIENCE.seconds)
        outcomes = [outcome async for outcome in runner.play(kit, ["restart-idle"])]
    assert said == ["Restart the terminal now: cut its power, then start it again."]
    assert (outcomes[0].status, outcomes[0].passed) == ("not shown", False)
    assert "no hello with a new boot_id" in outcomes[0].reason


async def test_the_wire_is_bounded(opened: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has only the terminal's paths, takes no large body, and records no more than fits."""
    async with aiohttp.ClientSession(opened.base_url, headers={"Content-Type": "application/json"}) as http:
        for path, body, status, code in (
            ("/operator/v1/sellers", b"{}", 404, "not_found"),
            ("/device/v1/hello", b"x" * 70_000, 413, "payload_too_large"),
            ("/device/v1/hello", b"no JSON", 401, "unauthorized"),
        ):
            async with http.post(path, data=body) as reply:
                assert (reply.status, (await reply.json())["error"]) == (status, code)
        assert len(opened.kit.log.exchanges) == 1
        monkeypatch.setattr(exchanges, "EXCHANGES_MAX", 1)
        async with http.post("/device/v1/hello", data=b"{}") as reply:
            assert reply.status == 503
        assert len(opened.kit.log.exchanges) == 1
