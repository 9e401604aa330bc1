"""The bill of materials: all that runs in production with version, hashes and licence, and never behind the lock."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("scripts/sbom.py", "pyproject.toml", "requirements.lock", "sbom.cdx.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of what the script reads."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def _sbom(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "scripts" / "sbom.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_package_of_the_lock_is_listed() -> None:
    """With its version and as many hashes, a purl and a licence."""
    lock = (ROOT / "requirements.lock").read_text()
    components = json.loads((ROOT / "sbom.cdx.json").read_text())["components"]
    assert [(one["name"], one["version"]) for one in components] == re.findall(r"(?m)^([a-z0-9-]+)==(\S+)", lock)
    assert sum(len(one["hashes"]) for one in components) == lock.count("--hash=sha256:")
    for one in components:
        assert one["purl"] == one["bom-ref"] == f"pkg:pypi/{one['name']}@{one['version']}"
        (said,) = one["licenses"]
        assert said.get("expression") or said["license"].get("id") or one["name"] == "apsw", one["name"]


def test_the_same_lock_makes_the_same_file(folder: Path) -> None:
    """No time, no serial number, no path: written anew it does not change."""
    (folder / "sbom.cdx.json").unlink()
    assert _sbom(folder).returncode == 0
    assert (folder / "sbom.cdx.json").read_bytes() == (ROOT / "sbom.cdx.json").read_bytes()


@pytest.mark.parametrize(
    ("file", "pattern", "changed"),
    [
        ("requirements.lock", r"\nstarlette==\S+", "\nstarlette==999.0"),
        ("requirements.lock", r"--hash=sha256:.{8}", "--hash=sha256:00000000"),
        ("sbom.cdx.json", r'"MIT"', '"GPL-3.0-only"'),
        ("sbom.cdx.json", r'"version": "3\.', '"version": "2.'),
    ],
)
def test_drift_is_noticed(folder: Path, file: str, pattern: str, changed: str) -> None:
    """A lock or a file that was changed alone fails the check, which says what to run and changes nothing."""
    text = re.sub(pattern, changed, (folder / file).read_text(), count=1)
    assert text != (folder / file).read_text()
    (folder / file).write_text(text)
    before = (folder / "sbom.cdx.json").read_bytes()
    checked = _sbom(folder, "--check")
    assert checked.returncode == 1
    assert "run `make sbom`" in checked.stderr
    assert (folder / "sbom.cdx.json").read_bytes() == before


def test_a_package_without_a_known_licence_is_named(folder: Path) -> None:
    """One that is neither installed nor in the file."""
    lock = folder / "requirements.lock"
    lock.write_text(lock.read_text() + f"zzz-unknown==1.0 \\\n    --hash=sha256:{'0' * 64}\n")
    written = _sbom(folder)
    assert written.returncode == 1
    assert "zzz-unknown 1.0 is not installed" in written.stderr
