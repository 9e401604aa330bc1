"""A person pulls the plug or the network of a virtual terminal: no order is lost, and none is charged twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from authorize_scene import is_consistent
from manual_scene import QUICK, Counter, counter
from paydesk.platform.storage.database import Database
from paydesk_dev.faults.active import Faults
from paydesk_dev.virtual.fleet import Fleet
from paydesk_dev.virtual.terminal.actions import ActionName, ActionNotPossible
from skipped_waits import time_passes
from waiting import until_found

STEPS = ("present_card", "pin", "pin_entered", "authorizing", "remove_card")


@pytest.fixture
async def desk(database: Database, tmp_path: Path) -> AsyncIterator[Counter]:
    """A counter with a terminal that waits for a person."""
    async with counter(database, tmp_path) as desk:
        yield desk


async def _reach(desk: Counter, step: str) -> str:
    """Bring an order so far; return its id."""
    order_id = await desk.order()
    if step == "present_card":
        return order_id
    await desk.act("insert", card="slow" if step == "authorizing" else "visa_approved")
    if step == "pin":
        return order_id
    if step == "pin_entered":
        # The action is answered with the permit, which is not asked for yet.
        entering = asyncio.create_task(desk.act("pin", digits="1234"))
        entering.add_done_callback(lambda ended: ended.exception())
        await desk.until(lambda screen: screen.name == "pin" and "press" not in screen.actions)
        return order_id
    await desk.act("pin", digits="1234")
    if step == "authorizing":
        await until_found(desk.ledger)
    if step == "remove_card":
        await desk.shows("remove_card")
        await desk.ended(order_id, "processed")
    return order_id


async def _finish(desk: Counter, step: str) -> None:
    """Do what is left to a person after a restart."""
    if step in ("present_card", "pin", "pin_entered"):
        assert (await desk.shows("present_card")).entry == ""
        await desk.act("tap", card="visa_approved")


async def _is_charged_once(desk: Counter, order_id: str) -> None:
    payment = await desk.ended(order_id, "processed")
    assert await desk.ledger() == [(payment["id"], 2490, "approved")]
    await is_consistent(desk.service)


@pytest.mark.parametrize("step", STEPS)
async def test_power_cut_at_any_step(desk: Counter, step: str) -> None:
    """The screen is off at once and nothing is sent; switched on again, the terminal ends the order once."""
    order_id = await _reach(desk, step)
    screen = await desk.act("power_off")
    assert (screen.name, desk.display.is_online, screen.actions) == ("off", False, ("power_on",))
    sent = len(desk.display.messages)
    with pytest.raises(ActionNotPossible, match="the screen off does not take tap"):
        await desk.act("tap", card="visa_approved")
    with pytest.raises(ActionNotPossible):
        await desk.act("power_off")
    with pytest.raises(ActionNotPossible):
        await desk.act("reboot")
    await time_passes(1)
    assert len(desk.display.messages) == sent
    screen = await desk.act("power_on")
    assert screen.name in ("idle", "amount", "present_card", "authorizing", "remove_card", "approved")
    await _finish(desk, step)
    await _is_charged_once(desk, order_id)


@pytest.mark.parametrize("step", STEPS)
async def test_restart_of_the_process_at_any_step(desk: Counter, tmp_path: Path, step: str) -> None:
    """Another fleet goes on from the journal."""
    order_id = await _reach(desk, step)
    await desk.fleet.stop()
    again = replace(desk, fleet=Fleet(desk.service.base_url, tmp_path / "terminals", QUICK))
    await again.fleet.start()
    try:
        await _finish(again, step)
        await _is_charged_once(again, order_id)
    finally:
        await again.fleet.stop()


@pytest.mark.parametrize("step", STEPS)
async def test_network_cut_at_any_step(desk: Counter, step: str) -> None:
    """The order goes on once the network is back, with what the person had done; until then it has no permit."""
    order_id = await _reach(desk, step)
    shown = await desk.act("go_offline")
    assert not desk.display.is_online
    sent = len(desk.display.messages)
    if step == "present_card":
        shown = await desk.act("tap", card="visa_approved")
        assert (shown.name, shown.actions) == ("present_card", ())
    if step == "pin":
        shown = await desk.act("pin", digits="1234")
        assert (shown.name, shown.actions) == ("pin", ("remove_card",))
    await time_passes(1)
    assert len(desk.display.messages) == sent
    await desk.act("go_online")
    await _is_charged_once(desk, order_id)


async def test_an_idle_terminal_without_network_says_so(desk: Counter) -> None:
    """With its next try; it comes back by itself after the given time and takes the order of meanwhile."""
    screen = await desk.act("go_offline", seconds=0.3)
    assert (screen.name, screen.lines[:2]) == ("offline", ("No connection", "The network is down"))
    assert screen.ends_ms is not None
    reply = await desk.service.create(desk.terminal)
    await desk.until(lambda screen: screen.order_id == reply.body["id"])
    await desk.act("tap", card="visa_approved")
    await _is_charged_once(desk, reply.body["id"])


async def test_no_network_across_a_restart(desk: Counter) -> None:
    """It stays cut, and a cancel at the terminal is reported later."""
    order_id = await _reach(desk, "present_card")
    await desk.act("go_offline")
    assert (await desk.act("press_cancel")).name == "canceled"
    await desk.act("power_off")
    await desk.act("power_on")
    assert (await desk.shows("offline")).ends_ms is not None
    assert (await desk.service.get(order_id))["status"] == "at_terminal"
    await desk.act("go_online")
    payment = await desk.ended(order_id, "canceled")
    assert payment["status_detail"] == "canceled_on_terminal"


async def test_reboot_shows_that_the_terminal_starts(database: Database, tmp_path: Path) -> None:
    """At once; meanwhile it takes no action but the plug."""
    async with counter(database, tmp_path, pace=replace(QUICK, reboot_seconds=60)) as desk:
        await _reach(desk, "pin")
        screen = await desk.act("reboot")
        assert (screen.name, screen.lines[-1]) == ("rebooting", "The journal has 1 order")
        assert screen.ends_ms is not None
        names: tuple[ActionName, ...] = ("tap", "reboot", "power_on")
        for name in names:
            with pytest.raises(ActionNotPossible, match="rebooting"):
                await desk.act(name)
        await desk.act("power_off")
        await desk.act("power_on")
        await desk.shows("present_card")


async def test_reboot_ends_by_itself(desk: Counter) -> None:
    """And the order is presented again."""
    order_id = await _reach(desk, "pin")
    await desk.act("reboot")
    await _finish(desk, "pin")
    await _is_charged_once(desk, order_id)


async def test_a_lost_acknowledgement_is_repeated(desk: Counter) -> None:
    """The service has it already. It is a fault of the service, which ends with the terminal."""
    await desk.act("lose_acknowledgement")
    faults = desk.service.shared.objects[Faults]
    (fault,) = faults
    assert fault.fault.line == f"terminal device_acknowledge answer_lost terminal={desk.terminal.id}"
    await desk.act("lose_acknowledgement")
    assert list(faults) == [fault], "one is lost, however often the button is pressed"
    order_id = await desk.order()
    texts = [message.text for message in desk.display.messages]
    assert texts[texts.index("ack") :][:4] == ["ack", "no answer", "ack", "progress card_requested"]
    assert fault.fired == 1
    await desk.act("tap", card="visa_approved")
    await _is_charged_once(desk, order_id)
    await desk.act("lose_acknowledgement")
    faults.remove(*faults)
    await desk.act("lose_acknowledgement")
    (again,) = faults
    assert again.of_terminal, "one that was removed is made again"
    await desk.fleet.remove(desk.terminal.id)
    assert list(faults) == []


async def test_no_acknowledgement_of_another_process_is_lost(desk: Counter) -> None:
    """The refusal says where to add the fault."""
    desk.fleet.faults = None
    await desk.fleet.add(desk.terminal.id, desk.terminal.token, "manual")
    with pytest.raises(ActionNotPossible, match="add a fault there"):
        await desk.act("lose_acknowledgement")


async def test_plug_and_network_at_once(desk: Counter) -> None:
    """Whatever comes first, the terminal works afterwards."""
    order_id = await _reach(desk, "present_card")
    names: Any = ["power_off", "reboot", "power_on", "go_offline", "go_online", "power_off", "reboot", "power_on"]
    await asyncio.gather(*(desk.act(name) for name in names), return_exceptions=True)
    if desk.screen.name == "off":
        await desk.act("power_on")
    await _finish(desk, "present_card")
    await _is_charged_once(desk, order_id)


async def test_removed_while_it_restarts(desk: Counter) -> None:
    """It does not start again."""
    await desk.act("reboot")
    await desk.fleet.remove(desk.terminal.id)
    await time_passes(1)
    assert desk.fleet.terminals() == ()
    assert desk.fleet.connected == 0
