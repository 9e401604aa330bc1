"""Several virtual terminals in one process, across restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from device_service import DeviceService
from free_port import free_port
from moved_time import moved_seconds
from paydesk_dev.virtual import journal as journals
from paydesk_dev.virtual.fleet import Fleet
from paydesk_dev.virtual.terminal.client import Pace
from skipped_waits import skipped_waits

QUICK = Pace(poll_seconds=5, backoff_seconds=(0.01, 0.02))


@pytest.fixture
async def service() -> AsyncIterator[DeviceService]:
    """The service that the terminals connect to."""
    service = DeviceService()
    with skipped_waits():
        async with service.serve() as service.base_url:
            yield service


@pytest.fixture
async def fleet(service: DeviceService, tmp_path: Path) -> AsyncIterator[Fleet]:
    """A fleet without terminals, stopped at the end."""
    fleet = Fleet(service.base_url, tmp_path, QUICK)
    await fleet.start()
    yield fleet
    await fleet.stop()


async def test_added_terminal_processes_orders(fleet: Fleet, service: DeviceService) -> None:
    """`add` returns after the terminal's hello; then it pays the orders it is offered."""
    await fleet.add("T__1", "PDT-1", "approve:0s")
    assert len(service.received("hello")) == 1
    assert fleet.terminals() == ("T__1",)
    await service.until_state(service.offer("L1"), "processed")
    await fleet.find("T__1").set_script("decline:0s")
    await service.until_state(service.offer("L2"), "failed")


async def test_hidden_fleet_shows_no_orders(fleet: Fleet, service: DeviceService) -> None:
    """Its terminals process them."""
    del fleet
    hidden = Fleet(service.base_url, None, QUICK, hidden=True)
    await hidden.start()
    await hidden.add("T__1", "PDT-1", "approve:0s")
    await service.until_state(service.offer("L1"), "processed")
    await service.until_received("printing")
    display = hidden.find("T__1").panel
    assert (display.screen.name, display.paper, list(display.messages)) == ("idle", None, [])
    await hidden.stop()


async def test_restarted_fleet_starts_the_terminals_of_its_folder(
    fleet: Fleet, service: DeviceService, tmp_path: Path
) -> None:
    """With their tokens and scripts."""
    await fleet.add("T__1", "PDT-1", "approve:0s")
    await fleet.find("T__1").set_script("decline:high_risk:0s")
    await fleet.stop()
    again = Fleet(service.base_url, tmp_path, QUICK)
    await again.start()
    assert again.terminals() == ("T__1",)
    await service.until_state(service.offer("L1"), "failed")
    await again.stop()


async def test_invalid_journal_does_not_affect_other_terminals(
    fleet: Fleet, service: DeviceService, tmp_path: Path
) -> None:
    """A terminal with an invalid journal starts with an empty one when it is added again."""
    await fleet.add("T__1", "PDT-1", "approve:0s")
    await fleet.stop()
    journals.path_of(tmp_path, "T__2").write_text("{")
    again = Fleet(service.base_url, tmp_path, QUICK)
    await again.start()
    assert again.terminals() == ("T__1",)
    await again.add("T__2", "PDT-2", "hold")
    assert set(again.terminals()) == {"T__1", "T__2"}
    assert service.received("hello")[-1]["journal"] == []
    await again.stop()


async def test_add_returns_although_the_service_is_unreachable(fleet: Fleet, tmp_path: Path) -> None:
    """The terminal goes on trying in the background."""
    unconnected = Fleet(f"http://127.0.0.1:{free_port()}", tmp_path / "unconnected", QUICK)
    await unconnected.start()
    await unconnected.add("T__1", "PDT-1", "approve")
    assert unconnected.terminals() == ("T__1",)
    await unconnected.stop()
    assert fleet.terminals() == ()


@pytest.mark.parametrize(("terminal_id", "script"), [("T__1", "aprove"), ("../T", "approve")])
async def test_add_refuses_an_invalid_script_or_id(fleet: Fleet, terminal_id: str, script: str, tmp_path: Path) -> None:
    """Nothing is written."""
    with pytest.raises(ValueError, match=r"unknown script|terminal id"):
        await fleet.add(terminal_id, "PDT-1", script)
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240  # an empty folder on this disk


async def test_terminal_with_a_refused_token_can_be_added_again(fleet: Fleet, service: DeviceService) -> None:
    """It continues with a new token."""
    service.faults["hello"].append(401)
    await fleet.add("T__1", "PDT-1", "approve:0s")
    await fleet.add("T__1", "PDT-2", "approve:0s")
    await service.until_state(service.offer("L1"), "processed")


async def test_stop_waits_for_nothing(fleet: Fleet, service: DeviceService) -> None:
    """Neither for polls nor for payments: there is no time to skip."""
    await asyncio.gather(*(fleet.add(f"T__{number}", "PDT-1", "approve:20s") for number in range(20)))
    service.offer("L1")
    before = moved_seconds()
    await fleet.stop()
    assert moved_seconds() - before < 1
