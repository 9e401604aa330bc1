"""The part of the credentials file of `paydesk dev` that the development endpoints need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class KeptCredentials:
    """The credentials file of the running service."""

    texts: Callable[[], set[str]]
    """Returns every text in the file; its tokens are among them."""
    renew: Callable[[], Awaitable[str | None]]
    """Writes new tokens if those in the file are no longer valid; returns the file's path then, else None."""
    document: Callable[[], Mapping[str, Any]] = dict
    """Returns the file's content."""
