"""Fixtures of the fault tests: chance that can be repeated."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest


@pytest.fixture
def chance() -> random.Random:
    """Random moments; a failing test prints how to repeat them."""
    seed = int(os.environ.get("PAYDESK_TEST_SEED", "0")) or random.randrange(10**9)
    print(f"seed {seed}: PAYDESK_TEST_SEED={seed} repeats it")  # noqa: T201 - shown when it fails
    return random.Random(seed)


@pytest.fixture
def migrated(migrated_file: Path) -> bytes:
    """The content of a migrated SQLite file."""
    return migrated_file.read_bytes()
