"""The Jinja environment of every HTML page: autoescaped, and an undefined name is an error."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

SHARED = "paydesk.web"
"""The package with the templates that all pages share."""


@cache
def environment(package: str = SHARED) -> Environment:
    """Return the environment that finds the `templates` of `package` and then the shared ones."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, SHARED))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
