"""Fixtures of the fault tests: chance that can be repeated."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from seeds import seeded


@pytest.fixture
def chance() -> random.Random:
    """Random moments; a failing test prints how to repeat them."""
    return seeded()


@pytest.fixture
def migrated(migrated_file: Path) -> bytes:
    """The content of a migrated SQLite file."""
    return migrated_file.read_bytes()
