"""A node whose wall clock can be moved: `main([DATABASE_URL, PORT, CLOCK_FILE])` serves until SIGTERM.

The file holds how many milliseconds this process is ahead of the machine, as eight bytes; the monotonic clock stays.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path

import node_process
from paydesk.engine.orders import expiry
from paydesk.platform import jobs

OFFSET = struct.Struct("<q")
LOOKS_OFTEN, LOOK_SECONDS = "LOOKS_OFTEN", 0.05
"""The environment variable by which its workers look this often what is due, for a clock that moves in leaps."""


def write_offset(file: Path, offset_ms: int) -> None:
    """Move the clock of the process that has this file."""
    with file.open("r+b" if file.exists() else "w+b") as opened:
        opened.write(OFFSET.pack(offset_ms))


def follow(file: Path) -> None:
    """Use the time in the file as this process's clock."""
    with file.open("r+b") as opened:
        shared = mmap.mmap(opened.fileno(), OFFSET.size)
    true_ns = time.time_ns

    def moved_ns() -> int:
        offset_ms: int = OFFSET.unpack_from(shared)[0]
        return true_ns() + offset_ms * 1_000_000

    time.time_ns = moved_ns
    time.time = lambda: moved_ns() / 1e9


def main(arguments: list[str]) -> None:
    """Serve the database on the port, by the clock of the file."""
    *of_the_node, clock_file = arguments
    follow(Path(clock_file))
    if os.environ.get(LOOKS_OFTEN):
        expiry.POLL_INTERVAL_SECONDS = jobs.POLL_INTERVAL_SECONDS = LOOK_SECONDS
    node_process.main(of_the_node)
