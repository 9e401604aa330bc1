"""The names, paths and errors of a kind of object of `/operator/v1`, such as an order or a terminal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paydesk.core.errors import ErrorKind
from paydesk.operators.documents import Document, Reader


@dataclass(frozen=True, slots=True, eq=False)
class NounData:
    """A kind of object that actions are about.

    `path` ends with the parameter that names it; `unknown` is its 404 error.
    """

    path: str
    name: str
    pattern: str
    document: Any
    unknown: ErrorKind
    title: str = ""
    """Its name in sentences, by default the name: "point of sale"."""
    key: str = ""
    """The property of the document that has its id, if it is not named like the parameter."""
    section: str = ""
    """The section of the console that has its forms; by default the first part of their addresses."""
    page: str = ""
    """The address of its page below `/console`, with the parameters of the path; by default its path."""
    pages: str = ""
    """The address of the page with the list; by default that of the page without the last id."""
    forms: str = ""
    """The start of the addresses of its forms, by default the page."""
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
    """The arguments of its commands in examples, if their words have none."""
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
