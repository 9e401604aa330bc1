"""Virtual environments with the packages of a lock file alone, and wheels as pip builds and installs them there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]


def packages_of(folder: Path) -> Path:
    """Return the folder of the packages of a virtual environment."""
    return Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))


def make_environment(folder: Path, lock: str) -> Path:
    """Make a virtual environment with links to the locked packages that are installed here; return its programs."""
    venv.create(folder, symlinks=True)
    for name in re.findall(r"(?m)^([a-z0-9-]+)==", (ROOT / lock).read_text()):
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # Another platform needs it.
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            (packages_of(folder) / top).symlink_to(str(package.locate_file(top)))
    return folder / "bin"


def build_wheel(project: Path, folder: Path) -> Path:
    """Build the wheel of a project and return its path; the backend is the one that is installed here."""
    before = set(folder.glob("*.whl"))
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(project))
    (wheel,) = set(folder.glob("*.whl")) - before
    return wheel


def install(programs: Path, requirement: str, wheels: Path) -> None:
    """Install what a person would, from this folder of wheels."""
    environment = ("--python", str(programs / "python"))
    _pip(*environment, "install", "--no-compile", "--find-links", str(wheels), requirement)


def _pip(*arguments: str) -> None:
    """Run pip, which asks no index."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    asks_none = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "pip", *arguments],
        env={**os.environ, **asks_none, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
