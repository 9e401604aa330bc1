"""Virtual terminals that a person uses, with the real service: each screen, what ends it, and what orders become."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manual_scene import Counter, counter
from paydesk.storage.database import Database

pytestmark = pytest.mark.sqlite_alone


@pytest.fixture
async def desk(database: Database, tmp_path: Path) -> AsyncIterator[Counter]:
    """A counter with a terminal that waits for a person."""
    async with counter(database, tmp_path) as desk:
        yield desk


async def test_tap_is_approved(desk: Counter) -> None:
    """The order is processed with the card that was presented."""
    order_id = await desk.order()
    assert desk.screen.name == "present_card"
    assert (await desk.act("tap", card="visa_approved")).name in ("authorizing", "approved")
    await desk.shows("approved")
    payment = await desk.ended(order_id, "processed")
    assert payment["card"] == {"first_digits": "423564", "last_digits": "5682", "entry_mode": "contactless"}
    assert [row[1:] for row in await desk.ledger()] == [(2490, "approved")]
