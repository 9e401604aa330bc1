"""The objects that the requests to a listener share, found by their type: no list names all of them."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


class Objects:
    """Objects by their type, at most one of each; a subclass is another type."""

    def __init__(self, *objects: object) -> None:
        self._by_type: dict[type, Any] = {type(one): one for one in objects}

    def __getitem__(self, kind: type[T]) -> T:
        """Return the object of exactly this type. Raises `LookupError`."""
        try:
            one: T = self._by_type[kind]
        except KeyError:
            raise LookupError(f"The process has no {kind.__module__}.{kind.__qualname__}.") from None
        return one

    def get(self, kind: type[T]) -> T | None:
        """Return the object of exactly this type, or None: for what only some processes have."""
        return self._by_type.get(kind)

    def including(self, *objects: object) -> Objects:
        """Return these objects with others, which replace those of the same type."""
        return Objects(*self._by_type.values(), *objects)
