"""The words of an operator's action: one declaration for its form, its command and the audit trail.

Sentences are literals, never made by code, so that they can be listed, checked and translated. In braces they name
properties of the object, facts of the noun, parameters of the path and, under `answer`, the answer. In forms also `now`
and `caller_id`, the operator's id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

from paydesk.core.text.sentences import Lines
from paydesk.operators.documents import Choices, Document, Reader
from paydesk.operators.noun_data import NounData
from paydesk.platform.roles import Required

Widget = Literal[
    "text", "lines", "number", "numbers", "decimal", "checkbox", "select", "choices", "words", "email", "password",
    "hidden", "date",
]  # fmt: skip
"""`lines` is a text of several lines, `numbers` a list as a text; `choices` and `words` have one checkbox a value."""


@dataclass(frozen=True, slots=True)
class Once:
    """A property of the answer that is shown once, on a page of its own. An answer without it is an ordinary notice."""

    name: str
    label: str
    warning: Lines = "This is shown once. Store it now."
    beside: Mapping[str, str] = field(default_factory=dict)
    """Values that are needed with it and are no secrets: the path of each by its label."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list: of its page, of the table of its command, or of both."""

    path: str
    """The path of the value in the document of a row."""
    head: str = ""
    """The head on the page. Empty: only the command has the column."""
    cell: str = ""
    """The macro of the page's cells that shows it; by default the value as a text."""
    style: str = ""
    """The classes of the page's cells; the head has those that place it, `wide` and `r`."""
    label: str = ""
    """The name of the value, where a narrow page has no heads."""
    at: int = 0
    """The place in the table of the command, from 1, which scripts rely on. 0: only the page has the column."""

    @property
    def head_style(self) -> str:
        """The classes of the head."""
        return " ".join(one for one in self.style.split() if one in ("wide", "r"))


def columns(*paths: str, first: int = 1) -> tuple[Column, ...]:
    """Return the columns of a list that only commands have, in their order. `first` is the place of the first one."""
    return tuple(Column(path, at=at) for at, path in enumerate(paths, first))


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one action. Hooks are lambdas or short functions that return values, never sentences."""

    title: str
    """The title of the form: "Suspend {name}"."""
    says: Lines = ()
    """The effect, above the form. The sentences without a condition are the help of the command."""
    done: Lines = ()
    """The result: the notice of the form, and the note of the command."""
    next: Lines = ()
    """The advice that the command prints then."""
    did: str = ""
    """The verb in the audit trail, before the noun: "Suspended"."""
    audit: str = ""
    """The name in the audit trail, if it is not that of the noun and the verb."""
    submit: str = ""
    """The label of the button; by default the title."""
    impossible: Lines = ()
    """The reason why it cannot be done now. The form is then that sentence."""
    once: Once | None = None
    gone: str = "deleted"
    """The word that the command prints for an object that no longer exists."""
    role: Required | None = None
    """The operators who have the form, if fewer than those who may send the request."""
    danger: bool = False
    repeatable: bool = False
    """Whether sending it twice has one effect."""
    form: str | None = ""
    """The end of the form's address, by default the verb. None: it has no form, or one that is written by hand."""
    command: str | None = ""
    """The command, such as `webhooks replay`; by default the noun's group and the verb. None: written by hand."""
    examples: tuple[str, ...] = ()
    """The arguments of the command in examples."""
    fields: tuple[str, ...] | None = None
    """The properties of the form in their order; by default all of the body that are `Shown`."""
    asks: type[BaseModel] | None = None
    """The fields of the form, where people type something else than what is sent."""
    headers: Mapping[str, Lines] = field(default_factory=dict)
    """The headers of the request; one with an empty value is not sent."""
    reads: NounData | str = ""
    """The noun whose document the form is about, or its path, if it is not its own: `terminals/{terminal_id}/queue`."""
    back: str = ""
    """The page that the form belongs to, if it is not the noun's."""
    columns: tuple[Column, ...] = ()
    """The columns of a list."""
    limit: int = 0
    """The rows that the command of a list asks for by default, if not 200."""
    forms: tuple[Words, ...] = ()
    """Further forms of the same operation: the mode, the tips and the place of a terminal are one `PATCH`."""
    facts: Callable[[Document], Document] | None = None
    """Returns values that sentences and fields name besides properties: of the object, and then also of the answer."""
    sends: Callable[[Document, Document], Document] | None = None
    """Returns the body, from what was typed and the object with its facts."""
    checks: Callable[[Reader, Document, Document], Awaitable[str]] | None = None
    """Returns the detail of a refusal of what the interface would accept, such as "'name' - is taken"; else ""."""


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The look of a property of a body: in its `Annotated` type, where pydantic and OpenAPI ignore it.

    Without equality, so that it can stand inside `X | None`, which compares its parts by hash.
    """

    label: str
    hint: str = ""
    noun: str = ""
    """The name in sentences, by default the label."""
    group: str = ""
    """The heading above it and the fields after it with the same one."""
    optional: bool = False
    """Whether the form of a change may leave it empty."""
    widget: Widget | None = None
    """The kind of field, by default that of its type."""
    labels: Mapping[str, str] | Callable[[Reader, Document], Awaitable[Choices]] | None = None
    """The words of the values, or a function that reads them."""
    value: Callable[[Document], str] | None = None
    """Returns the text that the form shows at first, by default that of the property."""
    only: tuple[str, tuple[object, ...]] | None = None
    """A property or fact with values: the field is asked, or sent, only if it has one of these."""
    option: str = ""
    """The option of the command, such as `--live/--test`; by default the name of the property."""
    metavar: str | None = None
    """The placeholder of the option's value. With `on|off`, the value of a boolean is one of these."""
    help: str = ""
    """The help of the option, by default the hint or the label; of a filter by default the parameter's description."""
    none: str = ""
    """The option that sends an empty list, such as `--no-tips`."""
    default: str = ""
    """The value that the command sends without the option."""
    credential: str = ""
    """The name in the credentials file whose value the command sends without the option."""
    checked: str = ""
    """The function of `commands.checked` that refuses a wrong value of the option before anything is sent."""


@dataclass(frozen=True, slots=True)
class Action:
    """The noun and the verb of a row, with their words."""

    noun: NounData
    verb: str
    words: Words

    @property
    def audit(self) -> str:
        """The name in the audit trail, such as `sellers.suspend`."""
        return self.words.audit or f"{self.noun.collection}.{self.verb.replace('-', '_')}"

    @property
    def command(self) -> str | None:
        """The command, such as `sellers suspend`; None if there is none, or one that is written by hand."""
        command = self.words.command
        return f"{self.noun.group} {self.verb}" if command == "" else command
