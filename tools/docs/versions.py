"""The version of the two distributions, which their pyproject.toml repeat from `paydesk.__version__`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from paydesk import __version__

DOCS = Path(__file__).parents[2] / "docs"
PROJECTS = ("../pyproject.toml", "../src/pyproject.toml")
_VERSION = re.compile(r'(?m)^(version = "|.*"paydesk(?:-dev)?==)[^"]+')


def files() -> dict[str, Callable[[], str]]:
    """Return what makes each file, by its path from `docs/`."""
    return {name: partial(_with_version, DOCS / name) for name in PROJECTS}


def _with_version(file: Path) -> str:
    return _VERSION.sub(rf"\g<1>{__version__}", file.read_text(encoding="utf-8"))
