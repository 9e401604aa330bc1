"""`make release`: builds the release of this commit in `dist/paydesk-VERSION`.

Wheels, archives of the sources, lock files, the bill of materials, the image, `install.sh`, the notes of the version in
the changelog, and `SHA256SUMS` of them all. The same commit gives the same bytes; in the image the same packages of
Debian do. `--without-image` leaves it out, where its programs are missing.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements.lock", "requirements-kit.lock", "requirements-otel.lock")
COPIED = (*LOCKS, "sbom.cdx.json", "LICENSE", "deploy/install.sh")
BIN = Path(sys.executable).parent
UV_BUILD = ("uv", "build", "--quiet", "--no-config", "--offline", "--no-build-isolation")
FIX = "Commit them, or set them aside with `git stash --include-untracked`."


class Refused(Exception):
    """There is no release of this state of the repository; the message says why and what to do."""


def main(arguments: Sequence[str]) -> int:
    """Build the release; return the exit code."""
    try:
        version = checked_version()
        notes = notes_of(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
        check_committed()
        folder = build(version, notes, with_image="--without-image" not in arguments)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    for file in sorted(folder.iterdir()):
        print(f"{file.stat().st_size:>12,}  {file.relative_to(ROOT)}")
    return 0


def checked_version() -> str:
    """Return the version of both projects. Raises `Refused` if they differ."""
    files = ("pyproject.toml", "src/pyproject.toml")
    paydesk, kit = (tomllib.loads((ROOT / file).read_text())["project"]["version"] for file in files)
    if kit != paydesk:
        raise Refused(f"{files[0]} has the version {paydesk}, {files[1]} {kit}. Run `make generate`.")
    return str(paydesk)


def notes_of(version: str, changelog: str) -> str:
    """Return what the changelog says of the version. Raises `Refused` unless it says something, with a date."""
    section = re.search(rf"^## \[{re.escape(version)}\](.*)\n((?:(?!## ).*\n?)*)", changelog, re.MULTILINE)
    if section is None or not re.fullmatch(r" - \d{4}-\d\d-\d\d", section[1]):
        raise Refused(
            f"CHANGELOG.md has no dated notes of {version}. Give what is unreleased the heading"
            f" `## [{version}] - YYYY-MM-DD`, or raise the version in src/paydesk/__init__.py."
        )
    if not section[2].strip():
        raise Refused(f"The notes of {version} in CHANGELOG.md are empty. Say what changes for people who use Paydesk.")
    return f"# Paydesk {version}{section[1]}\n\n{section[2].strip()}\n"


def check_committed() -> None:
    """Raise `Refused` if a file was changed or added since the commit: the release names that commit."""
    changed = _output("git", "status", "--porcelain").splitlines()
    if changed:
        names = ", ".join(line.split(maxsplit=1)[1] for line in changed[:5]) + (", …" if len(changed) > 5 else "")
        raise Refused(f"The release would not be of a commit: {len(changed)} changed or new files, {names}. {FIX}")


def build(version: str, notes: str, *, with_image: bool) -> Path:
    """Build all files and return their folder, which is complete or absent."""
    folder = ROOT / "dist" / f"paydesk-{version}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": _output("git", "log", "-1", "--format=%ct"),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    }
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        made = Path(name, "release")
        made.mkdir()
        # Each wheel is built of the archive of its sources, which shows that the archive is complete.
        for project in (ROOT, ROOT / "src"):
            _run((*UV_BUILD, "--out-dir", made, project), environment)
        for file in COPIED:
            shutil.copy(ROOT / file, made)
        (made / "NOTES.md").write_text(notes, encoding="utf-8")
        if with_image:
            _run((ROOT / "deploy" / "image" / "build", made), environment)
        (made / ".gitignore").unlink(missing_ok=True)
        sums = (f"{_sha256(file)}  {file.name}\n" for file in sorted(made.iterdir()))
        (made / "SHA256SUMS").write_text("".join(list(sums)), encoding="utf-8")
        made.rename(folder)
    return folder


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _run(command: Sequence[str | Path], environment: dict[str, str]) -> None:
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        raise Refused(f"{Path(command[0]).name} failed, see above. There is no release.")


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
