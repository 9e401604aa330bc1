"""The installed package has all files that the service reads: templates, styles, scripts, migrations, texts."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "paydesk"


def test_every_file_beside_the_code_is_in_the_package() -> None:
    """A checkout has them anyway, so a missing pattern shows only where the package was installed from a wheel."""
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["paydesk"]
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    beside = {
        path
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    }
    assert PACKAGE / "console" / "templates" / "overview.html" in beside
    assert sorted(str(path.relative_to(PACKAGE)) for path in beside - packed) == []
