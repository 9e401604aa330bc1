"""What work costs the processor, in milliseconds of one machine: wherever it runs, and whatever else runs there.

`timed` compares the work with a loop that is timed beside it, in the best of five tries, and `turns_within` compares
each turn of the event loop. `counted`, the slow form, counts instructions with valgrind as `bench.instructions` does:
they hardly depend on anything but the work.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path

import pytest

from conftest import skip_unless_ci

LOOP_MS = 2.0
"""What the loop takes on the machine on which the budgets were set: 25 loops are 50 ms."""
LOOP_INSTRUCTIONS = 24_700_000
"""The same as instructions, with CPython 3.11."""
TRIES_MAX = 5
WARM_UP = "a text with which lists are read and patterns compiled"
VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
PROGRAM = """
import contextlib, pathlib, pickle, sys
work, texts = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
for text in texts:
    with contextlib.suppress(ValueError):
        work(text)
"""

Work = Callable[[str], object]
Within = Callable[[float, Work, str], None]


def loop() -> None:
    """Do what Python code does most: call, look up, compare, build and search texts."""
    text, numbers = json.dumps({"a": ["4111 1111", 1.5] * 20}), dict.fromkeys(range(100), 0)
    for number in range(150):
        found = re.findall("[0-9]+ ?[0-9]*", text)
        numbers[number % 100] += len("".join(found)) + len(json.loads(text))


def timed(milliseconds_max: float, work: Work, text: str) -> None:
    """Assert that the work takes less processor time than so many milliseconds."""
    tries: list[float] = []
    while min(tries, default=milliseconds_max) >= milliseconds_max:
        assert len(tries) < TRIES_MAX, (work, text[:20], tries)
        tries.append(milliseconds(_seconds(work, text), milliseconds_max))


async def turns_within(milliseconds_max: float, work: Callable[[], Awaitable[object]]) -> None:
    """Assert that no turn of the event loop takes more processor time than so many milliseconds while this works."""
    tries: list[float] = []
    while min(tries, default=milliseconds_max) >= milliseconds_max:
        assert len(tries) < TRIES_MAX, tries
        tries.append(milliseconds(await _longest_turn(work()), milliseconds_max))


async def _longest_turn(work: Awaitable[object]) -> float:
    """Return the processor time of the longest turn until this has ended."""
    working, longest = asyncio.ensure_future(work), 0.0
    while not working.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    await working
    return longest


def counted(milliseconds_max: float, work: Work, text: str) -> None:
    """Assert that the work takes fewer instructions than so many milliseconds have."""
    if shutil.which("valgrind") is None:
        skip_unless_ci("valgrind is missing: `make setup` installs it on Debian.")
    count = _instructions(work, (WARM_UP, text)) - _instructions(work, (WARM_UP,))
    spent = count / LOOP_INSTRUCTIONS * LOOP_MS
    assert spent < milliseconds_max, (work, text[:20], spent)


each_way = pytest.mark.parametrize("within", [timed, pytest.param(counted, marks=pytest.mark.slow)])


def milliseconds(seconds: float, enough: float) -> float:
    """Return what these seconds of processor time are on the machine of the budgets.

    They are compared with the fastest loop, or if that is not below `enough` with one that is timed now.
    """
    at_most = seconds / _fastest() * LOOP_MS
    return at_most if at_most < enough else seconds / _seconds(loop) * LOOP_MS


@cache
def _fastest() -> float:
    return min(_seconds(loop) for _ in range(TRIES_MAX))


def _seconds(work: Callable[..., object], *given: str) -> float:
    """Return the processor time of the work; what it refuses has its cost too."""
    began = time.thread_time()
    with contextlib.suppress(ValueError):
        work(*given)
    return time.thread_time() - began


@cache
def _instructions(work: Work, texts: tuple[str, ...]) -> int:
    """Return the instructions of a process that does the work with these texts."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "work")
        file.write_bytes(pickle.dumps((work, texts)))
        command = [*VALGRIND, sys.executable, "-c", PROGRAM, str(file)]
        finished = subprocess.run(command, env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True)
    found = re.search(r"I\s+refs:\s+([\d,]+)", finished.stderr)
    assert found, finished.stderr[-2000:]
    return int(found[1].replace(",", ""))
