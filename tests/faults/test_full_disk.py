"""Full disks under load: 503 until there is room, nothing acknowledged lost, and no restart needed."""

from __future__ import annotations

import random

import pytest

from conftest import skip_unless_ci
from faults.full_disk import CannotMount, fill_small_disks, find_no_room

ROUNDS = 4


async def test_a_full_disk_loses_nothing_acknowledged(migrated: bytes, chance: random.Random) -> None:
    """Wherever in a flush the room ends, what was answered stays, what was refused happens once when repeated."""
    seen = await find_no_room(ROUNDS, migrated, chance)
    assert seen.findings == []
    assert seen.unknown > 0
    assert seen.acknowledged["create"] > 0


@pytest.mark.slow
async def test_writes_succeed_after_space_is_freed(migrated: bytes, chance: random.Random) -> None:
    """A file system without a byte left: refusals as the contract has them, then everything goes on by itself."""
    try:
        seen = await fill_small_disks(ROUNDS, migrated, chance)
    except CannotMount as error:
        skip_unless_ci(str(error))
    assert seen.findings == []
    assert seen.unknown > 0
    assert seen.acknowledged["create"] > 0
