"""The bill of materials lists the run-time dependencies with version, hashes and licence, and matches the lock."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VENDORED = "src/paydesk/platform/web/static/vendor/vendored.toml"
FILES = ("scripts/sbom.py", "pyproject.toml", "requirements.lock", "sbom.cdx.json", VENDORED)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the files that the script reads."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def _sbom(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "scripts" / "sbom.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_lists_every_package_of_the_lock_and_every_script_of_the_pages() -> None:
    """With its version, all its hashes, a purl and a licence."""
    lock = (ROOT / "requirements.lock").read_text()
    listed = json.loads((ROOT / "sbom.cdx.json").read_text())["components"]
    components = [one for one in listed if one["purl"].startswith("pkg:pypi/")]
    assert [(one["name"], one["version"]) for one in components] == re.findall(r"(?m)^([a-z0-9-]+)==(\S+)", lock)
    assert sum(len(one["hashes"]) for one in components) == lock.count("--hash=sha256:")
    for one in components:
        assert one["purl"] == one["bom-ref"] == f"pkg:pypi/{one['name']}@{one['version']}"
        (said,) = one["licenses"]
        assert said.get("expression") or said["license"].get("id") or one["name"] == "apsw", one["name"]
    vendored = tomllib.loads((ROOT / VENDORED).read_text())
    assert {one["purl"]: one["licenses"] for one in listed if one not in components} == {
        f"pkg:npm/{name}@{package['version']}": [{"license": {"id": package["license"]}}]
        for name, package in vendored.items()
    }


def test_same_lock_gives_the_same_file(folder: Path) -> None:
    """It contains no time, serial number or path."""
    (folder / "sbom.cdx.json").unlink()
    assert _sbom(folder).returncode == 0
    assert (folder / "sbom.cdx.json").read_bytes() == (ROOT / "sbom.cdx.json").read_bytes()


@pytest.mark.parametrize(
    ("file", "pattern", "changed"),
    [
        ("requirements.lock", r"\nstarlette==\S+", "\nstarlette==999.0"),
        ("requirements.lock", r"--hash=sha256:.{8}", "--hash=sha256:00000000"),
        (VENDORED, r'version = "4', 'version = "999'),
        (VENDORED, r'"htmx.min.js" = ".{8}', '"htmx.min.js" = "00000000'),
        ("sbom.cdx.json", r'"MIT"', '"GPL-3.0-only"'),
        ("sbom.cdx.json", r'"version": "3\.', '"version": "2.'),
    ],
)
def test_check_fails_if_lock_and_file_differ(folder: Path, file: str, pattern: str, changed: str) -> None:
    """It names the command to run, and changes nothing."""
    text = re.sub(pattern, changed, (folder / file).read_text(), count=1)
    assert text != (folder / file).read_text()
    (folder / file).write_text(text)
    before = (folder / "sbom.cdx.json").read_bytes()
    checked = _sbom(folder, "--check")
    assert checked.returncode == 1
    assert "Run `make sbom`" in checked.stderr
    assert (folder / "sbom.cdx.json").read_bytes() == before


def test_package_with_unknown_licence_is_reported(folder: Path) -> None:
    """It is neither installed nor in the file."""
    lock = folder / "requirements.lock"
    lock.write_text(lock.read_text() + f"zzz-unknown==1.0 \\\n    --hash=sha256:{'0' * 64}\n")
    written = _sbom(folder)
    assert written.returncode == 1
    assert "zzz-unknown 1.0 is not installed" in written.stderr
