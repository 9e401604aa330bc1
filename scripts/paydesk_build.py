"""Builds `paydesk` with uv_build, and in it the commit and the guides of docs/. All else is in pyproject.toml.

uv_build has no hooks: it builds a copy of the files to which these are added.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import uv_build
from uv_build import (
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from paydesk.core.version import COMMIT_FILE, commit

__all__ = (
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
)

ROOT = Path(__file__).parents[1]
FILES = ("pyproject.toml", "README.md", "LICENSE", "scripts/paydesk_build.py")
PACKAGE = "src/paydesk"
GUIDES = f"{PACKAGE}/platform/docs/guides"
"""The place of docs/ in the package; an archive of the sources has it there already."""


def build_wheel(
    wheel_directory: str, config_settings: Mapping[Any, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel; return its name."""
    with _copy_with_commit():
        return uv_build.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Mapping[Any, Any] | None = None) -> str:
    """Build the archive of the sources, which has no commit otherwise; return its name."""
    with _copy_with_commit():
        return uv_build.build_sdist(sdist_directory, config_settings)


@contextmanager
def _copy_with_commit() -> Iterator[None]:
    """Change to a copy of the files, with guides and, if known, the commit. Paths must be absolute, as of PEP 517."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in FILES:
            (folder / file).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / file, folder / file)
        shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
        if (ROOT / "docs").is_dir():
            ignored = shutil.ignore_patterns(".*", "_*", "openapi.json", "decisions", "openapi")
            shutil.copytree(ROOT / "docs", folder / GUIDES, ignore=ignored)
            shutil.copytree(ROOT / "examples", folder / GUIDES / "examples", ignore=ignored)
        if known := commit():
            (folder / COMMIT_FILE.relative_to(ROOT)).write_text(f"{known}\n")
        with chdir(folder):
            yield
