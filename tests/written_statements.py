"""The SQL that stands in the modules, as it stands there."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import paydesk
import paydesk_dev
from paydesk.engine.sellers.accounts import Accounts
from paydesk.operators.newest import Newest
from paydesk.platform.jobs import Job
from paydesk.platform.storage.statements import without_comments

ALLOWED_MODULES = "paydesk.engine.invariants."
"""They hold the whole database against the rules."""
VERB = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\s")
"""In capitals, as in all our SQL: a sentence may begin with one of these words."""


def _modules() -> Iterator[ModuleType]:
    for package in (paydesk, paydesk_dev):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Newest):
        yield from ((f"{name}.{field}", text) for field, text in value._asdict().items())
    elif isinstance(value, dict):
        yield from (text for one in value.values() for text in _texts(name, one))
    elif isinstance(value, tuple | list):
        yield from (text for one in value for text in _texts(name, one))
    elif isinstance(value, Job | Accounts):
        yield from ((f"{name}.{key}", text) for key, text in vars(value).items() if isinstance(text, str))


def written_statements() -> dict[str, str]:
    """Every statement that is a constant of a module, by its name."""
    return {
        f"{module.__name__.removeprefix('paydesk.')}.{place}": text
        for module in _modules()
        if not f"{module.__name__}.".startswith(ALLOWED_MODULES)
        for name, value in vars(module).items()
        for place, text in _texts(name, value)
        if VERB.match(without_comments(text)) and "{" not in text
    }
