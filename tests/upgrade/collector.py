"""`python collector.py FOLDER`: prints the statements that stand in the modules of an unpacked wheel, as JSON.

It knows no class of a version: what has fields is searched too.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = ("paydesk", "paydesk_dev")
COMMENTS = r"\s*(?:--[^\n]*\n\s*)*"
STATEMENT = re.compile(rf"{COMMENTS}(?:SELECT|INSERT|UPDATE|DELETE|WITH)\s")
"""In capitals, as in all our SQL: a sentence may begin with one of these words."""
DEPTH_MAX = 4


def _modules(folder: Path) -> Iterator[ModuleType]:
    sys.path.insert(0, str(folder))
    for name in PACKAGES:
        if not (folder / name).is_dir():
            continue  # The kit is a package of its own, or was a part of the other one.
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def _texts(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if STATEMENT.match(value) and "{" not in value:
            yield name, value
        return
    if depth < DEPTH_MAX and not isinstance(value, type | ModuleType):
        for key, part in _parts(value):
            yield from _texts(f"{name}.{key}", part, depth + 1)


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if hasattr(value, "_asdict"):
        return list(value._asdict().items())
    if isinstance(value, tuple | list):
        return enumerate(value)
    if type(value).__module__.startswith(PACKAGES):
        names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
        return [(name, getattr(value, name, None)) for name in names]
    return ()


def main(folder: Path) -> None:
    """Print what is found: each text once."""
    names: dict[str, str] = {}
    for module in _modules(folder):
        for key, value in sorted(vars(module).items()):
            for name, text in _texts(f"{module.__name__}.{key}", value):
                names.setdefault(text, name)
    json.dump({name: text for text, name in names.items()}, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
