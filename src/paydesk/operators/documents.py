"""The documents of `/operator/v1` that forms and commands read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Document = dict[str, Any]
Choices = Sequence[tuple[str, str]]
"""The values of a choice, each with its label."""


class Reader(Protocol):
    """A client that reads `/operator/v1` as the operator of a request; paths have `{}` for each id."""

    async def get(self, path: str, *ids: object, **query: object) -> Any:
        """Return the document at a path. Parameters that are None or empty are not sent."""
