"""The fields of operators: request bodies with what people see of them, closed to unknown properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from paydesk.core.model import Model
from paydesk.operators.schemas import Change, Email, Name, Role
from paydesk.operators.words import Shown

MEANINGS: Mapping[str, str] = {
    "owner": "everything, operators too",
    "operator": "everything but operators",
    "support": "reads, and sends notifications again",
    "viewer": "reads",
}
"""The permissions of each role."""

_ROLE = Shown(
    "Role",
    labels={role: f"{role}: {meaning}" for role, meaning in reversed(list(MEANINGS.items()))},
    help="owner (everything), operator (everything but operators), support (reads, and sends notifications again) or"
    " viewer (reads).",
)


class OperatorRequest(Model):
    """`POST /operator/v1/operators`: a person if `email` is sent, else a program."""

    name: Name = Field(examples=["Ana"])
    role: Role = Field(examples=["operator"])
    email: Email | None = Field(None, description="With which a person signs in to the console.")


class Person(Model):
    """The fields of the form for a new person."""

    name: Name
    email: Email
    role: Annotated[Role, _ROLE] = "operator"


class Program(Model):
    """The fields of the form for a new program."""

    name: Annotated[Name, Shown("Name", "Such as the script or the server.")]
    role: Annotated[Role, _ROLE] = "operator"


_NewEmail = Annotated[
    Email,
    Shown(
        "E-mail address",
        "With one, a link to set a password for the console can be made. No e-mail is sent to it.",
        widget="email",
        optional=True,
        help="The new e-mail address for signing in.",
    ),
]


class OperatorChange(Change):
    """`PATCH /operator/v1/operators/{operator_id}`."""

    name: Annotated[Name, Shown("Name", help="The operator's name.")] | None = None
    role: Annotated[Role, _ROLE] | None = None
    email: _NewEmail | None = None
