"""The language of a page, chosen by Accept-Language, and its texts."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

LANGUAGES = ("pt", "es", "en")
DEFAULT = "en"


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of one language, each under a name like `sign_in.title`."""

    language: str
    texts: dict[str, str]
    months: tuple[str, ...]

    def __call__(self, name: str, **values: object) -> str:
        """Return the text with its values filled in."""
        return self.texts[name].format(**values)

    def __contains__(self, name: str) -> bool:
        return name in self.texts

    def date(self, year: int, month: int, day: int) -> str:
        """Return a date in words."""
        return self("date", day=day, month=self.months[month - 1], year=year)


@cache
def texts(language: str) -> Texts:
    """Return the texts of one of the `LANGUAGES`."""
    document = tomllib.loads(files("paydesk.platform.web").joinpath("texts", f"{language}.toml").read_text("utf-8"))
    months = tuple(document.pop("months"))
    return Texts(language, dict(_flat(document)), months)


def _flat(document: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    flat: list[tuple[str, str]] = []
    for name, value in document.items():
        flat += _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)]
    return flat


def choose(accept_language: str) -> str:
    """Return the language of `LANGUAGES` that an Accept-Language header prefers (RFC 9110 section 12.5.4)."""
    weights: dict[str, float] = {}
    for part in accept_language.split(",")[:50]:
        tag, _, parameters = part.partition(";")
        primary = tag.strip().lower().partition("-")[0]
        if primary:
            # `pt-BR, pt;q=0.9` counts with its higher weight.
            weights[primary] = max(weights.get(primary, 0.0), _weight(parameters))
    others = weights.get("*", 0.0)
    order = (DEFAULT, *(language for language in LANGUAGES if language != DEFAULT))
    best = max(order, key=lambda language: weights.get(language, others))
    return best if weights.get(best, others) > 0 else DEFAULT


def _weight(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        weight = float(value)
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0
