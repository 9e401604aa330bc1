"""Many virtual terminals in one process, over restarts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from device_service import DeviceService
from paydesk.sandbox.terminals import fleet as fleets
from paydesk.sandbox.terminals import journal as journals
from paydesk.sandbox.terminals.client import Pace
from paydesk.sandbox.terminals.fleet import Fleet

QUICK = Pace(poll_seconds=5, backoff_seconds=(0.01, 0.02))


@pytest.fixture
async def service() -> AsyncIterator[DeviceService]:
    """What the terminals talk to."""
    service = DeviceService()
    async with service.serve() as service.base_url:
        yield service


@pytest.fixture
async def fleet(service: DeviceService, tmp_path: Path) -> AsyncIterator[Fleet]:
    """A fleet without terminals, stopped at the end."""
    fleet = Fleet(service.base_url, tmp_path, QUICK)
    await fleet.start()
    yield fleet
    await fleet.stop()


async def test_an_added_terminal_takes_orders(fleet: Fleet, service: DeviceService) -> None:
    """`add` returns once the service knows the terminal, which then pays what it is offered."""
    await fleet.add("T__1", "PDT-1", "approve:0s")
    assert len(service.told("hello")) == 1
    assert fleet.terminals() == ("T__1",)
    await service.until_state(service.offer("L1"), "processed")
    await fleet.set_script("T__1", "decline:0s")
    await service.until_state(service.offer("L2"), "failed")


async def test_a_fleet_takes_up_its_folder(fleet: Fleet, service: DeviceService, tmp_path: Path) -> None:
    """A fleet that starts again has its terminals, with token and script."""
    await fleet.add("T__1", "PDT-1", "approve:0s")
    await fleet.set_script("T__1", "decline:high_risk:0s")
    await fleet.stop()
    again = Fleet(service.base_url, tmp_path, QUICK)
    await again.start()
    assert again.terminals() == ("T__1",)
    await service.until_state(service.offer("L1"), "failed")
    await again.stop()


async def test_a_broken_journal_does_not_stop_the_others(fleet: Fleet, service: DeviceService, tmp_path: Path) -> None:
    """A terminal whose journal is unreadable begins an empty one when it is added again."""
    await fleet.add("T__1", "PDT-1", "approve:0s")
    await fleet.stop()
    journals.path_of(tmp_path, "T__2").write_text("{")
    again = Fleet(service.base_url, tmp_path, QUICK)
    await again.start()
    assert again.terminals() == ("T__1",)
    await again.add("T__2", "PDT-2", "hold")
    assert set(again.terminals()) == {"T__1", "T__2"}
    assert service.told("hello")[-1]["journal"] == []
    await again.stop()


async def test_a_service_that_is_away_does_not_hold_up(
    fleet: Fleet, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`add` gives up waiting for the hello, not the terminal."""
    monkeypatch.setattr(fleets, "HELLO_SECONDS_MAX", 0.05)
    away = Fleet(f"http://127.0.0.1:{unused_tcp_port}", tmp_path / "away", QUICK)
    await away.start()
    await away.add("T__1", "PDT-1", "approve")
    assert away.terminals() == ("T__1",)
    await away.stop()
    assert fleet.terminals() == ()


@pytest.mark.parametrize(("terminal_id", "script"), [("T__1", "aprove"), ("../T", "approve")])
async def test_wrong_terminals_are_refused(fleet: Fleet, terminal_id: str, script: str, tmp_path: Path) -> None:
    """A wrong script or id leaves nothing behind."""
    with pytest.raises(ValueError, match=r"unknown script|terminal id"):
        await fleet.add(terminal_id, "PDT-1", script)
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240  # an empty folder on this disk


async def test_refused_terminals_can_be_added_again(fleet: Fleet, service: DeviceService) -> None:
    """A terminal whose token the service no longer knows goes on with a new one."""
    service.faults["hello"].append(401)
    await fleet.add("T__1", "PDT-1", "approve:0s")
    await fleet.add("T__1", "PDT-2", "approve:0s")
    await service.until_state(service.offer("L1"), "processed")


async def test_stopping_is_quick(fleet: Fleet, service: DeviceService) -> None:
    """A fleet in the middle of polls and payments stops within a second."""
    await asyncio.gather(*(fleet.add(f"T__{number}", "PDT-1", "approve:20s") for number in range(20)))
    service.offer("L1")
    began = time.monotonic()
    await fleet.stop()
    assert time.monotonic() - began < 1
