"""The lock files: every package is pinned and hashed, no host is named, every dependency is included."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-kit.lock", "requirements-dev.lock")
WITH_TRACES = "requirements-otel.lock"


def _pins(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return {line.partition("==")[0].strip(): line for line in lines}


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return re.sub(r"[-_.]+", "-", match[0]).lower()


@pytest.mark.parametrize("lock", [*LOCKS, WITH_TRACES])
def test_every_package_is_pinned_and_hashed(lock: str) -> None:
    """Each entry has one exact version and at least one SHA-256."""
    for entry in _pins(lock).values():
        assert re.match(r"[a-z0-9-]+==[0-9][^ ]* ", entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


@pytest.mark.parametrize("lock", [*LOCKS, WITH_TRACES])
def test_no_host_is_named(lock: str) -> None:
    """Any package index or mirror can be used."""
    assert "://" not in (ROOT / lock).read_text()


def test_every_declared_dependency_is_locked() -> None:
    """Each lock contains the one before it with the same versions; what the kit alone needs is not in the first."""
    project, kit = (tomllib.loads((ROOT / name).read_text()) for name in ("pyproject.toml", "src/pyproject.toml"))
    locks = [_pins(lock) for lock in LOCKS]
    of_kit = {_name(one) for one in kit["project"]["dependencies"]} - {"paydesk"}
    groups = project["dependency-groups"]
    for lock, requirements in zip(
        locks, ([*project["project"]["dependencies"], *groups["build"]], of_kit, groups["dev"]), strict=True
    ):
        assert set(map(_name, requirements)) <= set(lock)
    assert of_kit & set(locks[0]) == set()
    for before, after in itertools.pairwise(locks):
        for name, entry in before.items():
            assert after[name].split()[0] == entry.split()[0]


def test_the_extra_of_traces_is_locked() -> None:
    """Its lock contains the first one, and the tests use the same versions."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["otel"]
    first, traced, tested = (_pins(lock) for lock in (LOCKS[0], WITH_TRACES, LOCKS[-1]))
    assert set(map(_name, extra)) <= set(traced) - set(first)
    for smaller, larger in ((first, traced), (traced, tested)):
        assert {name: entry.split()[0] for name, entry in smaller.items()}.items() <= {
            name: entry.split()[0] for name, entry in larger.items()
        }.items()
