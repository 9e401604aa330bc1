"""Power cuts on SQLite: what was answered is there afterwards. `python -m tests.faults power` makes thousands."""

from __future__ import annotations

import random

import pytest

from conftest import short_and_long
from faults.disk import REMAINS, Image, Write
from faults.power import cut_power, cut_power_of_a_careless_one


@pytest.mark.parametrize("cuts", short_and_long(5, 20))
async def test_nothing_acknowledged_is_lost_when_the_power_fails(
    migrated: bytes, chance: random.Random, cuts: int
) -> None:
    """Cuts under load: every answered change is there, repeats bring the same answers, the ledger is whole."""
    seen = await cut_power(cuts, migrated, chance)
    print(f"{seen.faults} cuts, acknowledged: {dict(seen.acknowledged)}")  # noqa: T201 - the figures of a run with -s
    assert seen.findings == []
    assert seen.faults >= cuts
    assert seen.acknowledged["create"] > cuts
    assert seen.acknowledged["refresh"] > cuts


@pytest.mark.slow
async def test_the_harness_detects_lost_commits(migrated: bytes, chance: random.Random) -> None:
    """With `synchronous = NORMAL` a disk that keeps nothing unsynced loses acknowledged changes, every time."""
    seen = await cut_power_of_a_careless_one(3, migrated, chance, remains=("nothing",))
    assert seen.faults_with_findings == seen.faults == 3
    assert any("it is lost" in finding for finding in seen.findings)


def test_synced_data_survives_every_power_cut(chance: random.Random) -> None:
    """A cut never touches bytes that were synced and not written since; what was not synced may be there or not."""
    for remains in REMAINS * 20:
        image = Image("file")
        image.written.append(Write(0, b"s" * 2000))
        image.synced()
        image.written.append(Write(700, b"w" * 1000))
        left = image.left_by_a_cut(remains, chance)
        assert left[:700] + left[1700:] == b"s" * 1000
        if "junk" not in remains:
            assert set(left[700:1700]) <= set(b"sw")


def test_sectors_are_torn_at_their_boundaries() -> None:
    """A write that begins within a sector reaches the disk in the parts that its sectors have of it."""
    parts = list(Write(500, b"x" * 600).sectors())
    assert [(part.offset, len(part.data or b"")) for part in parts] == [(500, 12), (512, 512), (1024, 76)]
