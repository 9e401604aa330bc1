"""Builders of operations: what the rows of one surface below a path have in common stands once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paydesk.platform.operation import Handler, Operation, Surface, ThreePhase


class Rows:
    """The rows of one surface below a path, each built by its method: `rows.get("/{order_id}", "get_order", get)`."""

    def __init__(self, surface: Surface, base: str = "", **shared: Any) -> None:
        """Take the fields of `Operation` that all rows have. A row may replace them; it adds its errors to theirs."""
        self._base, self._shared = base, {"surface": surface, **shared}

    def below(self, path: str = "", **shared: Any) -> Rows:
        """Return the rows below a path of these, which have more in common."""
        return Rows(base=self._base + path, **self._fields(shared))

    def get(self, path: str, name: str, handler: Handler, **own: Any) -> Operation:
        """Return `GET` of a path."""
        return self._row("GET", path, name, handler, own)

    def post(self, path: str, name: str, handler: Handler | ThreePhase, **own: Any) -> Operation:
        """Return `POST` of a path."""
        return self._row("POST", path, name, handler, own)

    def put(self, path: str, name: str, handler: Handler, **own: Any) -> Operation:
        """Return `PUT` of a path."""
        return self._row("PUT", path, name, handler, own)

    def patch(self, path: str, name: str, handler: Handler, **own: Any) -> Operation:
        """Return `PATCH` of a path."""
        return self._row("PATCH", path, name, handler, own)

    def delete(self, path: str, name: str, handler: Handler, **own: Any) -> Operation:
        """Return `DELETE` of a path."""
        return self._row("DELETE", path, name, handler, own)

    def _row(
        self, method: str, path: str, name: str, handler: Handler | ThreePhase, own: Mapping[str, Any]
    ) -> Operation:
        return Operation(method, self._base + path, name, handler=handler, **self._fields(own))

    def _fields(self, own: Mapping[str, Any]) -> dict[str, Any]:
        errors = (*self._shared.get("errors", ()), *own.get("errors", ()))
        return {**self._shared, **own, "errors": errors}
