"""The nouns of the operator endpoints, and builders of their rows: list, create, read, change, delete, and actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from paydesk.core.errors import MINIMUM_PROPERTIES, PROPERTY_VALUE, ErrorKind
from paydesk.operators.lists import Pages
from paydesk.operators.noun_data import NounData
from paydesk.operators.words import Action, Words
from paydesk.platform.operation import Handler, Operation, ThreePhase
from paydesk.platform.rows import Rows

Kinds = tuple[ErrorKind, ...]
BASE = "/operator/v1"
ROWS = Rows("operator", f"{BASE}/")
"""Builds the rows of `/operator/v1`."""
_DID = {
    "create": "Added",
    "change": "Changed",
    "delete": "Deleted",
    "suspend": "Suspended",
    "pause": "Paused",
    "resume": "Resumed",
    "revoke": "Revoked",
}
"""The words of the audit trail for an action, by its verb; an action's own words have precedence."""


@dataclass(frozen=True, slots=True, eq=False)
class Noun(NounData):
    """A kind of object that actions are about, and the builders of its endpoints."""

    def listing(self, pages: Pages, *errors: ErrorKind, words: Words) -> Operation:
        """Return `GET` of the list. It has no form."""
        return ROWS.get(
            self.collection,
            f"operator_list_{self.collection}",
            pages.handler,
            summary=f"List {'points of sale' if self.name == 'pos' else self.collection}",
            description=pages.description,
            answer=pages.answer,
            transaction="heavy",
            query=pages.query,
            errors=(PROPERTY_VALUE, *errors),
            action=Action(self, "list", replace(words, form=None)),
        )

    def creating(
        self, handler: Handler, body: type[BaseModel], answer: Any, *, words: Words | None = None, **more: Any
    ) -> Operation:
        """Return `POST` of the list, which creates one."""
        path = self.path.rpartition("/")[0]
        action, more = self._action("create", words), {"name": f"operator_create_{path}", "status": 201, **more}
        return ROWS.post(path, handler=handler, body=body, answer=answer, action=action, **more)

    def reading(self, handler: Handler, *, words: Words | None = None, **more: Any) -> Operation:
        """Return `GET` of one. With words it has the command `show`."""
        if words:
            examples = words.examples or (f"{self.example} --json",)
            words = replace(words, form=None, command=f"{self.group} show", examples=examples)
        return self._row(ROWS.get, "get", handler, words=words, **{"transaction": "heavy", **more})

    def changing(self, handler: Handler, body: type[BaseModel], *, errors: Kinds = (), **more: Any) -> Operation:
        """Return `PATCH` of one."""
        given = {"description": "Only the fields that are sent change.", **more}
        return self._row(ROWS.patch, "change", handler, body=body, errors=(MINIMUM_PROPERTIES, *errors), **given)

    def setting(self, handler: Handler, body: type[BaseModel], **more: Any) -> Operation:
        """Return `PUT` of one, which creates or replaces it."""
        return self._row(ROWS.put, "set", handler, body=body, **more)

    def acting(self, verb: str, handler: Handler | ThreePhase, **more: Any) -> Operation:
        """Return `POST …/{verb}`, an action on one."""
        return self._row(ROWS.post, verb, handler, tail=f"/{verb}", **more)

    def deleting(self, handler: Handler, **more: Any) -> Operation:
        """Return `DELETE` of one. It is answered without a body unless `answer` is given."""
        given = more if "answer" in more else {"status": 204, "answer": None, **more}
        return self._row(ROWS.delete, "delete", handler, **given)

    def _row(
        self,
        build: Callable[..., Operation],
        verb: str,
        handler: Handler | ThreePhase,
        *,
        tail: str = "",
        errors: Kinds = (),
        words: Words | None = None,
        **more: Any,
    ) -> Operation:
        return build(
            f"{self.path}{tail}",
            handler=handler,
            path_pattern=self.pattern,
            errors=(self.unknown, *errors),
            action=self._action(verb, words),
            **{"name": f"operator_{verb}_{self.name}", "answer": self.document, **more},
        )

    def _action(self, verb: str, words: Words | None) -> Action | None:
        """Return the action, with what its words leave to the noun and the verb."""
        if words is None:
            return None
        examples = words.examples or ((self.example,) if self.example else ())
        return Action(self, verb, replace(words, did=words.did or _DID.get(verb, ""), examples=examples))
