"""The installed package has all files that the service reads, those of its checkout alone, and knows its commit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from installed import build_wheel
from paydesk import __version__
from paydesk.core import version
from paydesk.platform.docs.guides import examples, sources

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
PAGE = ROOT / "docs" / "install.md"


@pytest.mark.parametrize(("project", "package"), [(ROOT, "paydesk"), (SOURCES, "paydesk_dev")])
def test_every_file_of_the_package_is_in_its_wheel(tmp_path: Path, project: Path, package: str) -> None:
    """And no other but commit and guides: statements, templates, scripts, the types' marker, and the licence."""
    with zipfile.ZipFile(build_wheel(project, tmp_path)) as wheel:
        packed = {name for name in wheel.namelist() if not name.endswith("/") and ".dist-info/" not in name}
        licence = wheel.read(f"{package}-{__version__}.dist-info/licenses/LICENSE")
    files = (path for path in (SOURCES / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    of_docs = {name for name in packed if name.startswith("paydesk/platform/docs/guides/")}
    assert packed - of_docs - {"paydesk/core/commit.txt"} == {path.relative_to(SOURCES).as_posix() for path in files}
    # The guides with their pictures, as a checkout serves them.
    expected = {*sources(), *(f"examples/{path}" for path in examples())} if package == "paydesk" else set()
    assert {name.removeprefix("paydesk/platform/docs/guides/") for name in of_docs} == expected
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_the_page_names_the_packages_that_each_wheel_needs() -> None:
    """And no other."""
    row = re.search(r"^\| Packages \| (.*), and theirs \| also (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert row is not None
    for file, named in (("pyproject.toml", row[1]), ("src/pyproject.toml", row[2])):
        needed = tomllib.loads((ROOT / file).read_text())["project"]["dependencies"]
        assert set(re.split(", | and ", named)) == {re.split("[=<>]", one)[0] for one in needed} - {"paydesk"}


FILES = ("pyproject.toml", "README.md", "LICENSE", "src/paydesk/__init__.py", "scripts/paydesk_build.py")
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@shop.example", "-c", "commit.gpgsign=false")
PRINT = """
from importlib.resources import files
from paydesk import moved
from paydesk.core.version import version
print(*sorted(file.name for file in (files("paydesk") / "migrations").iterdir()), moved.NAME, version())
"""
REMOVED = ("removed.py", "migrations/0002_removed.sql")


def _git(folder: Path, *arguments: str) -> str:
    ended = subprocess.run([*GIT, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return ended.stdout.strip()


def _installed(checkout: Path, target: Path) -> str:
    """Build the checkout in its folder and unpack it, as `pip install` does; return what the package says."""
    shutil.unpack_archive(build_wheel(checkout, target), target, "zip")
    environment = {**os.environ, "PYTHONPATH": str(target)}
    ended = subprocess.run(
        [sys.executable, "-c", PRINT], cwd=target, env=environment, capture_output=True, text=True, check=True
    )
    return ended.stdout.strip()


def test_a_second_installation_has_nothing_of_the_first(tmp_path: Path) -> None:
    """Neither modules and migrations that were removed since, nor a package beside the module that it became.

    The version names the commit of each.
    """
    checkout, package = tmp_path / "checkout", tmp_path / "checkout" / "src" / "paydesk"
    shutil.copytree(ROOT / "src" / "paydesk" / "core", package / "core", ignore=shutil.ignore_patterns("__pycache__"))
    (checkout / "scripts").mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, checkout / name)
    (package / "moved").mkdir()
    (package / "moved" / "__init__.py").write_text("NAME = 'earlier'\n")
    (package / "migrations").mkdir()
    for name in ("migrations/0001_kept.sql", *REMOVED):
        (package / name).touch()
    _git(checkout, "init", "--quiet")
    _git(checkout, "add", ".")
    _git(checkout, "commit", "--quiet", "--message", "First")
    first = _git(checkout, "rev-parse", "--short=12", "HEAD")
    assert _installed(checkout, tmp_path / "first") == f"0001_kept.sql 0002_removed.sql earlier {__version__} ({first})"

    _git(checkout, "mv", "src/paydesk/moved/__init__.py", "src/paydesk/moved.py")
    (package / "moved.py").write_text("NAME = 'later'\n")
    for name in REMOVED:
        (package / name).unlink()
    shutil.rmtree(package / "moved", ignore_errors=True)
    assert _installed(checkout, tmp_path / "second") == f"0001_kept.sql later {__version__} ({first}-dirty)"
    assert not (tmp_path / "second" / "paydesk" / "removed.py").exists()


def test_the_commit_of_another_checkout_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package without a commit may be installed below a checkout of something else; git may be missing too."""
    _git(tmp_path, "init", "--quiet")
    _git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "Of something else")
    below = tmp_path / "site-packages" / "version.py"
    below.parent.mkdir()
    shutil.copy(version.__file__, below)
    monkeypatch.setattr(version, "__file__", str(below))
    monkeypatch.setattr(version, "COMMIT_FILE", below.with_name("commit.txt"))
    assert version.commit() == ""
    version.COMMIT_FILE.write_text("5f0c3ad18f1e\n")
    assert version.commit() == "5f0c3ad18f1e"
    version.COMMIT_FILE.unlink()
    monkeypatch.setenv("PATH", "")
    assert version.commit() == ""
