"""Builders for the operator endpoints: list, create, read, change, delete, and an action on one resource."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from paydesk.core.errors import MINIMUM_PROPERTIES, PROPERTY_VALUE, ErrorKind
from paydesk.core.response import Response
from paydesk.operation import Handler, Operation, Query
from paydesk.operators.lists import Key, paging

Kinds = tuple[ErrorKind, ...]
BASE = "/operator/v1"


def listing(
    noun: str, handler: Handler, answer: Any, *query: Query, key: Key = (0, ""), errors: Kinds = ()
) -> Operation:
    """Return `GET …/{noun}`, a paged list; `key` is an example of its rows' keys."""
    return Operation(
        method="GET",
        path=f"{BASE}/{noun}",
        name=f"operator_list_{noun}",
        summary=f"List {'points of sale' if noun == 'pos' else noun}",
        surface="operator",
        handler=handler,
        answer=answer,
        transaction="heavy",
        query=(*query, *paging(key)),
        errors=(PROPERTY_VALUE, *errors),
    )


def creating(noun: str, handler: Handler, body: type[BaseModel], answer: type[Response], **more: Any) -> Operation:
    """Return `POST …/{noun}`, which creates a resource."""
    return Operation(
        method="POST",
        path=f"{BASE}/{noun}",
        name=more.pop("name", f"operator_create_{noun}"),
        summary=more.pop("summary"),
        surface="operator",
        handler=handler,
        status=201,
        answer=answer,
        body=body,
        errors=tuple(more.pop("errors", ())),
        **more,
    )


class Resource:
    """The endpoints of one resource. `path` ends with the parameter that names it; `unknown` is its 404 error."""

    def __init__(self, path: str, noun: str, pattern: str, answer: type[Response], unknown: ErrorKind) -> None:
        self._path, self._noun, self._unknown = f"{BASE}/{path}", noun, unknown
        self._shared: dict[str, Any] = {"surface": "operator", "answer": answer, "path_pattern": pattern}

    def reading(self, handler: Handler, summary: str) -> Operation:
        """Return `GET` of the resource."""
        return self._row("GET", "", handler, f"operator_get_{self._noun}", summary, transaction="heavy")

    def changing(self, handler: Handler, body: type[BaseModel], summary: str, errors: Kinds = ()) -> Operation:
        """Return `PATCH` of the resource."""
        return self._row(
            "PATCH",
            "",
            handler,
            f"operator_change_{self._noun}",
            summary,
            body=body,
            errors=(MINIMUM_PROPERTIES, *errors),
            description="Only the fields that are sent change.",
        )

    def acting(self, verb: str, handler: Handler, summary: str, **more: Any) -> Operation:
        """Return `POST …/{verb}`, an action on the resource."""
        return self._row("POST", f"/{verb}", handler, f"operator_{verb}_{self._noun}", summary, **more)

    def deleting(self, handler: Handler, summary: str, **more: Any) -> Operation:
        """Return `DELETE` of the resource."""
        return self._row("DELETE", "", handler, f"operator_delete_{self._noun}", summary, **more)

    def _row(self, method: str, tail: str, handler: Handler, name: str, summary: str, **more: Any) -> Operation:
        errors = (self._unknown, *more.pop("errors", ()))
        return Operation(
            method=method,
            path=self._path + tail,
            name=name,
            summary=summary,
            handler=handler,
            errors=errors,
            **self._shared | more,
        )
