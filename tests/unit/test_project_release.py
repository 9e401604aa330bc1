"""A release that is refused, and an installation that is: in words, before anything is changed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@shop.example", "-c", "commit.gpgsign=false")
NOTES = "# Changelog\n\n## [9.9.9] - 2026-11-27\n\n- A change.\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with what a release reads first."""
    (tmp_path / "src").mkdir()
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/release.py", tmp_path / "scripts")
    for file in ("pyproject.toml", "src/pyproject.toml"):
        (tmp_path / file).write_text('[project]\nversion = "9.9.9"\n')
    (tmp_path / "CHANGELOG.md").write_text(NOTES)
    _git(tmp_path, "init", "--quiet")
    _commit(tmp_path)
    return tmp_path


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run([*GIT, *arguments], cwd=folder, check=True)


def _commit(folder: Path) -> None:
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", "A commit")


def _refused(checkout: Path) -> str:
    """Return why there is no release."""
    command = [sys.executable, str(checkout / "scripts/release.py"), "--without-image"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert not (checkout / "dist").exists()
    return ended.stderr


def test_changes_without_a_commit_are_refused(checkout: Path) -> None:
    """With the names of the files: a new one could be in the wheels too."""
    (checkout / "src" / "new.py").touch()
    said = _refused(checkout)
    assert "1 changed or new files, src/new.py. Commit them" in said


@pytest.mark.parametrize(
    ("changelog", "said"),
    [
        (NOTES.replace("9.9.9", "9.9.8"), "no dated notes of 9.9.9"),
        (NOTES.replace(" - 2026-11-27", ""), "no dated notes of 9.9.9"),
        (NOTES.replace("- A change.", "## [9.9.8] - 2026-11-26"), "The notes of 9.9.9 in CHANGELOG.md are empty"),
    ],
)
def test_a_version_without_dated_notes_is_refused(checkout: Path, changelog: str, said: str) -> None:
    """Of this version: nothing, no date, or no words."""
    (checkout / "CHANGELOG.md").write_text(changelog)
    _commit(checkout)
    assert said in _refused(checkout)


def test_two_versions_are_refused(checkout: Path) -> None:
    """The kit needs exactly its own version of the service."""
    (checkout / "src/pyproject.toml").write_text('[project]\nversion = "9.9.8"\n')
    _commit(checkout)
    assert "Run `make generate`" in _refused(checkout)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Return the folder of a release that has the files, and nothing in them."""
    folder = tmp_path / "release"
    folder.mkdir()
    shutil.copy(ROOT / "deploy/install.sh", folder)
    for name in ("paydesk-9.9.9-py3-none-any.whl", "requirements.lock"):
        (folder / name).touch()
    sums = (f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(folder.iterdir()))
    (folder / "SHA256SUMS").write_text("".join(list(sums)))
    return folder


def _install(release: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(release / "install.sh"), "--python", sys.executable, "--prefix", str(release.parent / "opt")]
    return subprocess.run([*command, *options], capture_output=True, text=True, check=False)


def test_a_file_that_is_not_of_the_release_is_refused(release: Path) -> None:
    """One that was changed, one that was added, and a release that lacks the wheel; nothing is installed."""
    lock, added = release / "requirements.lock", release / "paydesk-9.9.8-py3-none-any.whl"
    lock.write_text("evil==1\n")
    assert "its SHA-256 differs" in _install(release).stderr
    lock.write_text("")
    added.touch()
    assert f"{added} is not in SHA256SUMS" in _install(release).stderr
    added.unlink()
    (release / "paydesk-9.9.9-py3-none-any.whl").unlink()
    ended = _install(release)
    assert (ended.returncode, "has no wheel of Paydesk" in ended.stderr) == (1, True)
    assert not (release.parent / "opt").exists()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--help",), 0, "install.sh --back [--prefix FOLDER]"),
        (("--no-such-option",), 2, "There is no option --no-such-option."),
        (("--wheelhouse",), 2, "--wheelhouse needs a value."),
        (("--wheelhouse", "/no/such/folder"), 1, "There is no folder /no/such/folder."),
        (("--python", "/no/such/python"), 1, "/no/such/python is not Python 3.11 or newer."),
        (("--prefix", "/proc/paydesk"), 1, "/proc/paydesk cannot be written to."),
        (("--kit",), 1, "paydesk_dev-9.9.9-py3-none-any.whl is missing"),
        (("--otel",), 1, "requirements-otel.lock is missing"),
        (("--kit", "--otel"), 2, "Give one of --kit and --otel"),
        (("--back",), 1, "has no earlier version to go back to"),
        (("/no/such/release",), 1, "/no/such/release is not the folder of a release"),
    ],
)
def test_an_installation_that_cannot_be_made_says_why(
    release: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    """And what to do."""
    ended = _install(release, *options)
    assert (ended.returncode, said in ended.stdout + ended.stderr) == (code, True), ended


@pytest.fixture
def installed(release: Path) -> Path:
    """Return a folder with two versions of the release, 9.9.9 after 9.9.8, whose programs print their version."""
    folder = release.parent / "opt"
    for version in ("9.9.8", "9.9.9"):
        program = folder / "versions" / version / "bin" / "paydesk"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho paydesk {version}\n")
        program.chmod(0o755)
        (folder / "versions" / version / "complete").touch()
    for link, target in (("bin", "current/bin"), ("current", "versions/9.9.9"), ("previous", "versions/9.9.8")):
        (folder / link).symlink_to(target)
    return folder


def test_an_incomplete_version_does_not_become_the_current_one_again(release: Path, installed: Path) -> None:
    """One that was removed, or half of it; nothing is changed, and the same version installed again is taken."""
    mark = installed / "versions" / "9.9.8" / "complete"
    mark.unlink()
    ended = _install(release, "--back")
    assert (ended.returncode, "The earlier version is not complete" in ended.stderr) == (1, True), ended
    assert [str((installed / link).readlink()) for link in ("current", "previous")] == [
        "versions/9.9.9",
        "versions/9.9.8",
    ]
    mark.touch()
    ended = _install(release, "--back")
    assert f"{installed}/bin/paydesk is paydesk 9.9.8." in ended.stdout, ended.stderr
    assert (installed / "previous").readlink() == Path("versions/9.9.9")


def test_links_of_an_installation_that_was_killed_are_replaced(release: Path, installed: Path) -> None:
    """New ones that did not become those in use, and `bin`, which it had not made."""
    for link in ("bin", "current", "previous"):
        (installed / f"{link}.new").symlink_to("versions/9.9.7")
    (installed / "bin").unlink()
    assert "is paydesk 9.9.8." in _install(release, "--back").stdout
    (installed / "bin").unlink()
    ended = _install(release, "--back")
    assert (ended.returncode, "is paydesk 9.9.9." in ended.stdout) == (0, True), ended
    (installed / "bin").unlink()
    ended = _install(release)
    assert (ended.returncode, "is paydesk 9.9.9." in ended.stdout) == (0, True), ended
    assert not list(installed.glob("*.new"))


@pytest.mark.parametrize("link", ["bin", "current", "previous"])
def test_a_folder_that_is_not_of_paydesk_is_not_replaced(release: Path, link: str) -> None:
    """Such as `bin` of /usr/local; nothing is installed beside it."""
    folder = release.parent / "opt"
    (folder / link).mkdir(parents=True)
    for options in ((), ("--back",)):
        ended = _install(release, *options)
        assert (ended.returncode, f"{folder}/{link} is not of Paydesk" in ended.stderr) == (1, True), ended
    assert list(folder.iterdir()) == [folder / link]
