"""Virtual terminals print what applications send, once, and report it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from manual_scene import QUICK, Counter, counter
from paydesk.engine.invariants import check
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from print_scene import PATH, TEXT, action_body, in_base64, png, print_on, status_of
from waiting import until_found

SLOW = replace(QUICK, printing_seconds=0.3)


@pytest.fixture
async def desk(database: Database, tmp_path: Path) -> AsyncIterator[Counter]:
    """A counter with a terminal that takes some time to print."""
    async with counter(database, tmp_path, pace=SLOW) as desk:
        yield desk


async def printed(desk: Counter, action_id: str, number: int) -> None:
    """Wait until the paper with this number has come out and the action has ended as processed."""
    await desk.until(lambda _: desk.display.paper is not None and desk.display.paper.number >= number)

    async def is_processed() -> bool:
        return await status_of(desk.service, action_id) == "processed"

    await until_found(is_processed)


@pytest.mark.on_postgres
async def test_a_text_comes_out_as_paper(desk: Counter) -> None:
    """The terminal shows that it prints, and is idle afterwards; then it takes an order."""
    action_id = (await print_on(desk.service, desk.terminal)).body["id"]
    screen = await desk.shows("printing")
    assert screen.ends_ms is not None
    assert "Printing" in screen.lines
    await printed(desk, action_id, 1)
    assert desk.display.paper is not None
    assert (desk.display.paper.text, desk.display.paper.image) == (TEXT, b"")
    await desk.shows("idle")
    assert [message.text for message in desk.display.messages if "print" in message.text] == ["print", "print printed"]
    await desk.order()
    await desk.act("tap", card="visa_approved")
    await desk.shows("approved")
    assert await check.check(desk.service.database) == []


async def test_an_image_comes_out_as_paper(desk: Counter) -> None:
    """Decoded."""
    body = action_body(desk.terminal.id, in_base64(png(32, 16)), "image")
    created = await desk.service.request("POST", PATH, body)
    assert created.status == 201
    await printed(desk, created.body["id"], 1)
    assert desk.display.paper is not None
    assert (desk.display.paper.text, desk.display.paper.image) == ("", png(32, 16))


async def test_an_action_is_printed_again_after_a_restart_only(database: Database, tmp_path: Path) -> None:
    """A message that is repeated, because the report was lost, is reported again and not printed again."""
    settings = Settings(offer_again_seconds=1)
    async with counter(database, tmp_path, pace=SLOW, settings=settings) as desk:
        first = (await print_on(desk.service, desk.terminal)).body["id"]
        await desk.shows("printing")
        await desk.act("go_offline")
        await desk.shows("offline")
        assert await status_of(desk.service, first) == "on_terminal"
        await desk.act("go_online")
        await printed(desk, first, 1)
        assert desk.display.paper is not None
        assert desk.display.paper.number == 1

        second = (await print_on(desk.service, desk.terminal)).body["id"]
        await desk.shows("printing")
        await desk.act("power_off")
        await desk.shows("off")
        await desk.act("power_on")
        await printed(desk, second, 2)
        assert await check.check(database) == []
