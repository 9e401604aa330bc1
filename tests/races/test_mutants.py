"""Every mutant applies to the sources, and its test fails with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mutant import Mutant
from mutants import MUTANTS, ROOT, copied, tried


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A copy of the project to plant defects in."""
    with copied() as folder:
        yield folder


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.defect)
def test_a_mutant_applies(mutant: Mutant) -> None:
    """To one place of its file."""
    text = (ROOT / "src" / mutant.file).read_text()
    assert text.count(mutant.before) == 1
    assert mutant.after != mutant.before


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.defect)
def test_a_mutant_is_caught(mutant: Mutant, folder: Path) -> None:
    """Its test fails in a copy of the sources with the defect; without it, the test passes in this suite.

    Some tests choose their moments at random, so each has three attempts.
    """
    assert any("| caught |" in tried(mutant, folder) for _ in range(3))


@pytest.mark.slow
def test_a_test_is_chosen() -> None:
    """By the words for `-k` of each."""
    files = sorted({mutant.test for mutant in MUTANTS})
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", *files]
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    tests = [line.lower() for line in collected.stdout.splitlines() if "::" in line]
    nothing = [
        (mutant.test, mutant.which)
        for mutant in MUTANTS
        if not any(test.startswith(mutant.test) and _is_chosen(test, mutant.which.lower()) for test in tests)
    ]
    assert nothing == []


def _is_chosen(test: str, which: str) -> bool:
    return any(all(_has(test, word) for word in part.split(" and ")) for part in which.split(" or "))


def _has(test: str, word: str) -> bool:
    return word.removeprefix("not ") not in test if word.startswith("not ") else word in test
