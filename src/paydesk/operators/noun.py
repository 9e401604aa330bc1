"""The nouns of the operator endpoints, and builders of their rows: list, create, read, change, delete, and actions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from paydesk.core.errors import MINIMUM_PROPERTIES, PROPERTY_VALUE, ErrorKind
from paydesk.operation import Handler, Operation, ThreePhase
from paydesk.operators.lists import Pages
from paydesk.operators.words import Action, Document, Reader, Words
from paydesk.rows import Rows

Kinds = tuple[ErrorKind, ...]
BASE = "/operator/v1"
ROWS = Rows("operator", f"{BASE}/")
"""Those of no noun."""
_DID = {
    "create": "Added",
    "change": "Changed",
    "delete": "Deleted",
    "suspend": "Suspended",
    "pause": "Paused",
    "resume": "Resumed",
    "revoke": "Revoked",
}
"""What the audit trail says of an action by its verb, if its words don't say it."""


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """What actions are about, and the endpoints of one of them.

    `path` ends with the parameter that names it; `unknown` is its 404 error.
    """

    path: str
    name: str
    pattern: str
    document: Any
    unknown: ErrorKind
    title: str = ""
    """In sentences, if it is not the name: "point of sale"."""
    key: str = ""
    """The property of the document that has its id, if it is not named like the parameter."""
    section: str = ""
    """The section of the console that has its forms; by default the first part of their addresses."""
    page: str = ""
    """The address of its page below `/console`, with the parameters of the path; by default its path."""
    pages: str = ""
    """The address of the page with the list; by default that of the page without the last id."""
    forms: str = ""
    """What the addresses of its forms begin with, if it is not the page."""
    read: str = ""
    """The path of the document that its forms are about, if not its own: a secret is shown with its subscription."""
    find: Callable[[Reader, Mapping[str, str]], Awaitable[Document | None]] | None = None
    """Reads the document, by the parameters of the address, of what has no `GET` of its own; None if it is gone."""
    selects: Mapping[str, str] = field(default_factory=dict)
    """Parameters of all its requests, filled in with its properties: stores are named with their seller."""
    group: str = ""
    """The group of its commands; by default the first part of the path."""
    argument: Mapping[str, str] = field(default_factory=dict)
    """The help of the arguments of commands, by the parameters of the path."""
    example: str = ""
    """What follows the name of its commands in their examples, if their words have none."""
    generic: Mapping[str, str] = field(default_factory=dict)
    """Words for a sentence without an object, as in the help of a command: `{"name": "the seller"}`."""
    facts: Callable[[Document], Document] | None = None
    """Values that sentences and fields of its actions name besides its properties."""

    def __post_init__(self) -> None:
        """Set what follows from the path."""
        object.__setattr__(self, "key", self.key or self.parameter)
        object.__setattr__(self, "title", self.title or self.name)
        object.__setattr__(self, "page", self.page or f"/{self.path}")
        object.__setattr__(self, "pages", self.pages or self.page.rpartition("/")[0])
        object.__setattr__(self, "forms", self.forms or self.page)
        object.__setattr__(self, "group", self.group or self.collection)

    @property
    def parameter(self) -> str:
        """The last parameter of the path, which names it."""
        return self.path.rpartition("{")[2].partition("}")[0]

    @property
    def collection(self) -> str:
        """The first part of the path: the path of the list, and of what is recorded in the audit trail."""
        return self.path.partition("/")[0]

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
