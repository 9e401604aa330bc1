"""Builders for the operator endpoints: list, create, read, change, delete, and an action on one resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from paydesk.core.errors import MINIMUM_PROPERTIES, PROPERTY_VALUE, ErrorKind
from paydesk.core.response import Response
from paydesk.operation import Handler, Operation, ThreePhase
from paydesk.operators.lists import Pages

Kinds = tuple[ErrorKind, ...]
BASE = "/operator/v1"


def listing(noun: str, pages: Pages, *errors: ErrorKind) -> Operation:
    """Return `GET …/{noun}`, a paged list."""
    return Operation(
        method="GET",
        path=f"{BASE}/{noun}",
        name=f"operator_list_{noun}",
        summary=f"List {'points of sale' if noun == 'pos' else noun}",
        description=pages.description,
        surface="operator",
        handler=pages.handler,
        answer=pages.answer,
        transaction="heavy",
        query=pages.query,
        errors=(PROPERTY_VALUE, *errors),
    )


def creating(
    noun: str, handler: Handler, body: type[BaseModel], answer: type[Response] | None, *, name: str = "", **more: Any
) -> Operation:
    """Return `POST …/{noun}`, which creates a resource."""
    return Operation(
        method="POST",
        path=f"{BASE}/{noun}",
        name=name or f"operator_create_{noun}",
        surface="operator",
        handler=handler,
        answer=answer,
        body=body,
        **{"status": 201, **more},
    )


@dataclass(frozen=True, slots=True)
class Resource:
    """The endpoints of one resource. `path` ends with the parameter that names it; `unknown` is its 404 error."""

    path: str
    noun: str
    pattern: str
    answer: Any
    unknown: ErrorKind

    def reading(self, handler: Handler, summary: str, **more: Any) -> Operation:
        """Return `GET` of the resource."""
        return self._row("GET", "get", handler, summary, **{"transaction": "heavy", **more})

    def changing(
        self, handler: Handler, body: type[BaseModel], summary: str, *errors: ErrorKind, **more: Any
    ) -> Operation:
        """Return `PATCH` of the resource."""
        return self._row(
            "PATCH",
            "change",
            handler,
            summary,
            body=body,
            errors=(MINIMUM_PROPERTIES, *errors),
            description="Only the fields that are sent change.",
            **more,
        )

    def setting(self, handler: Handler, body: type[BaseModel], summary: str, **more: Any) -> Operation:
        """Return `PUT` of the resource, which creates or replaces it."""
        return self._row("PUT", "set", handler, summary, body=body, **more)

    def acting(self, verb: str, handler: Handler | ThreePhase, summary: str, **more: Any) -> Operation:
        """Return `POST …/{verb}`, an action on the resource."""
        return self._row("POST", verb, handler, summary, tail=f"/{verb}", **more)

    def deleting(self, handler: Handler, summary: str, **more: Any) -> Operation:
        """Return `DELETE` of the resource."""
        return self._row("DELETE", "delete", handler, summary, **more)

    def _row(
        self,
        method: str,
        verb: str,
        handler: Handler | ThreePhase,
        summary: str,
        *,
        tail: str = "",
        errors: Kinds = (),
        **more: Any,
    ) -> Operation:
        fields: dict[str, Any] = {"name": f"operator_{verb}_{self.noun}", "answer": self.answer, **more}
        return Operation(
            method=method,
            path=f"{BASE}/{self.path}{tail}",
            summary=summary,
            surface="operator",
            handler=handler,
            path_pattern=self.pattern,
            errors=(self.unknown, *errors),
            **fields,
        )
