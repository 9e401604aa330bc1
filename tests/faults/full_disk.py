"""Full disks under load: at random writes, or until space is freed."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.machine import Machine, Tally
from faults.power import OPERATIONS_UNTIL_CUT, SYNC_SECONDS, in_memory

DISK_MEGABYTES = 24
ANSWERS_BEFORE = (50, 300)
REFUSALS = (50, 300)
BALLAST_BYTES = 65_536
CUT_SHARE = 0.3

NEEDS_ROOT = "A small disk can only be mounted by root: run the tests as root, or with CAP_SYS_ADMIN."


class CannotMount(Exception):
    """This user can't mount a disk."""


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of some megabytes. Raises `CannotMount`."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        raise CannotMount(NEEDS_ROOT)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Leave no room on the folder's disk."""
    with (folder / "ballast").open("wb", buffering=0) as ballast:
        try:
            while ballast.write(bytes(BALLAST_BYTES)) == BALLAST_BYTES:
                pass
        except OSError:
            return


async def fill_small_disks(
    rounds: int, migrated: bytes, chance: random.Random, *, seen: Callable[[Tally], object] = lambda _tally: None
) -> Tally:
    """Fill a real, small disk so often. Raises `CannotMount`."""
    with in_memory() as name, small_disk(Path(name) / "disk") as folder:
        async with Machine(folder, migrated, chance) as machine:
            machine.disk.sync_seconds = SYNC_SECONDS
            while machine.tally.faults < rounds and not machine.tally.findings:
                await _full_for_a_while(machine, chance, lambda: fill(folder), (folder / "ballast").unlink)
                seen(machine.tally)
            return machine.tally


async def find_no_room(
    rounds: int, migrated: bytes, chance: random.Random, *, seen: Callable[[Tally], object] = lambda _tally: None
) -> Tally:
    """Let writes find no room, now and then or always, so often; now and then the power fails afterwards."""
    with in_memory() as name:
        async with Machine(Path(name), migrated, chance) as machine:
            machine.disk.sync_seconds = SYNC_SECONDS

            def no_room() -> None:
                machine.disk.full_share = chance.choice((1.0, 0.2, 0.02))

            def room() -> None:
                machine.disk.full_share = 0.0

            while machine.tally.faults < rounds and not machine.tally.findings:
                await _full_for_a_while(machine, chance, no_room, room)
                if chance.random() < CUT_SHARE:
                    machine.disk.operations_until_cut = chance.randint(*OPERATIONS_UNTIL_CUT)
                    await machine.live_through_a_fault()
                seen(machine.tally)
            return machine.tally


async def _full_for_a_while(
    machine: Machine, chance: random.Random, no_room: Callable[[], object], room: Callable[[], object]
) -> None:
    """Answer, refuse, have room again: the very same process goes on, and everything is held to account."""
    machine.serve()
    answers = machine.acknowledged + chance.randint(*ANSWERS_BEFORE)
    await machine.until(lambda: machine.acknowledged >= answers)
    no_room()
    refusals = machine.unknown + chance.randint(*REFUSALS)
    await machine.until(lambda: machine.unknown >= refusals)
    machine.halting = True
    await machine.until_still()
    machine.halting = False
    room()
    await machine.hold_to_account()
