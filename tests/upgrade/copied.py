"""`paydesk …` of a copy of this checkout's package: the next version, with a migration file of its own."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

COPY = "UPGRADE_COPY"
"""The variable that names the folder of the copy."""
MIGRATIONS = "paydesk/platform/storage/migrations"
NAME = "9001_planted.sql"


def make(folder: Path, version: str, script: str) -> None:
    """Copy the packages, as a version with one more migration."""
    source = Path(__file__).parents[2] / "src"
    for package in ("paydesk", "paydesk_dev"):
        shutil.copytree(source / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    folder.joinpath(MIGRATIONS, NAME).write_text(script)
    file = folder / "paydesk/__init__.py"
    text, count = re.subn(r'__version__ = "[^"]+"', f'__version__ = "{version}"', file.read_text())
    assert count == 1, "the version is a constant"
    file.write_text(text)


if COPY in os.environ:
    sys.path.insert(0, os.environ[COPY])
    import paydesk
    from paydesk_forked import main

    assert paydesk.__file__.startswith(os.environ[COPY]), paydesk.__file__
    __all__ = ["main"]
