"""Tests wait for events, never for a time: the places that are left, whose number only falls."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from unsteady import places_in, unsteady

TESTS = Path(__file__).parents[1]
LEFT: dict[str, int] = {
    "faults/disk.py": 1,
    "faults/load.py": 1,
    "faults/terminals.py": 1,
    "faults/tills.py": 1,
    "faults/virtual.py": 1,
    "model/shop.py": 1,
}
"""The places in each file. A new one is a defect: wait for an event, see CONTRIBUTING.md."""


def test_no_test_gains_a_place_that_waits_for_a_time() -> None:
    """A sleep outside a poll loop, or a comparison of elapsed time. A file that has fewer now gets its lower number."""
    found = unsteady(TESTS)
    different = {
        path: found.get(path, []) for path in sorted({*found, *LEFT}) if len(found.get(path, [])) != LEFT.get(path, 0)
    }
    assert not different


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("async def test(): await asyncio.sleep(0.1)", ["1 sleep"]),
        ("def test(): time.sleep(1)", ["1 sleep"]),
        ("async def test(): await page.wait_for_timeout(100)", ["1 sleep"]),
        ("for _ in range(3): sleep(1)", ["1 sleep"]),
        ("async def test(): await asyncio.sleep(0)", []),
        ("async def until():\n while not done(): await asyncio.sleep(0.1)", []),
        ("def test():\n began = time.monotonic()\n assert time.monotonic() - began < 2", ["3 elapsed"]),
        ("def test():\n began = time.monotonic()\n took = time.monotonic() - began\n assert took < 2", ["4 elapsed"]),
        ("def until():\n end = monotonic() + 60\n while not done(): assert monotonic() < end", []),
    ],
)
def test_places_are_found(code: str, expected: list[str]) -> None:
    """Sleeps and comparisons of elapsed time, but not those of a poll loop."""
    assert places_in(ast.parse(code)) == expected
