"""The version, which the two pyproject.toml and the files of `deploy/` repeat from `paydesk.__version__`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from paydesk import __version__

DOCS = Path(__file__).parents[2] / "docs"
PROJECTS = ("../pyproject.toml", "../src/pyproject.toml")
DEPLOYED = ("../deploy/compose/compose.yaml", "../deploy/compose/till.yaml", "../deploy/helm/paydesk/Chart.yaml")
_VERSION = re.compile(r'(?m)^(version = "|.*"paydesk(?:-dev)?==)[^"]+')
_DEPLOYED = re.compile(r"(?m)^((?:version|appVersion): |.*/paydesk(?:-dev)?:)[\d.]+")


def files() -> dict[str, Callable[[], str]]:
    """Return what makes each file, by its path from `docs/`."""
    return {
        name: partial(_with_version, pattern, DOCS / name)
        for pattern, names in ((_VERSION, PROJECTS), (_DEPLOYED, DEPLOYED))
        for name in names
    }


def _with_version(pattern: re.Pattern[str], file: Path) -> str:
    return pattern.sub(rf"\g<1>{__version__}", file.read_text(encoding="utf-8"))
