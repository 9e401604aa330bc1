"""Make password hashing cheap in the programs that tests start, as `conftest` does in the tests' own process.

Python imports this module when it starts, since its folder is in PYTHONPATH.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

CHEAP = (2, 8, 1)
"""Argon2's passes, KiB of memory, and threads."""


class Argon2Finder(PathFinder):
    """Finds argon2, and changes its defaults once it is imported: most programs never import it."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return argon2's spec with a loader that changes the defaults, and None for every other module."""
        if fullname != "argon2":
            return None
        sys.meta_path.remove(cls)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_change(module: ModuleType) -> None:
                execute(module)
                make_cheap(module)

            spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


def make_cheap(argon2: ModuleType) -> None:
    """Change the defaults of new hashers."""
    defaults = argon2.PasswordHasher.__init__.__defaults__
    argon2.PasswordHasher.__init__.__defaults__ = (*CHEAP, *defaults[len(CHEAP) :])


sys.meta_path.insert(0, Argon2Finder)
