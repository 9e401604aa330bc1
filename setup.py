"""Builds the package from the files of this checkout alone, with the commit in it. All else is in pyproject.toml."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

sys.path.insert(0, str(Path(__file__).parent / "src"))

from paydesk.core.version import COMMIT_FILE, commit

PACKAGE, KIT = "paydesk", "paydesk_dev"


def write_commit(package: Path) -> None:
    """Write the commit into the package, if it is known."""
    if found := commit():
        (package / "core" / COMMIT_FILE.name).write_text(f"{found}\n")


class Build(build_py):
    """Begins with an empty folder: setuptools keeps files that an earlier checkout had, and packs them too."""

    def run(self) -> None:
        """Build."""
        if self.editable_mode:
            super().run()
            return
        for package in (PACKAGE, KIT):
            shutil.rmtree(Path(self.build_lib) / package, ignore_errors=True)
        super().run()
        write_commit(Path(self.build_lib) / PACKAGE)


class Source(sdist):
    """Adds the commit, which an unpacked archive does not have otherwise."""

    def make_release_tree(self, base_dir: str, files: Sequence[str]) -> None:
        """Make the folder of the archive."""
        super().make_release_tree(base_dir, files)
        write_commit(Path(base_dir) / "src" / PACKAGE)


setup(cmdclass={"build_py": Build, "sdist": Source})
