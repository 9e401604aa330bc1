"""Request bodies about operators and their passwords, closed to unknown fields."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from paydesk.core.model import Model
from paydesk.operators.schemas import PASSWORD_CHARACTERS_MAX, Change, Email, Name, Password

Role = Literal["owner", "operator", "support", "viewer"]
ROLES: tuple[str, ...] = get_args(Role)


class OperatorRequest(Model):
    """`POST /operator/v1/operators`: a person if `email` is sent, else a program."""

    name: Name = Field(examples=["Ana"])
    role: Role = Field(examples=["operator"])
    email: Email | None = Field(None, description="With which a person signs in to the console.")


class OperatorChange(Change):
    """`PATCH /operator/v1/operators/{operator_id}`."""

    name: Name | None = None
    role: Role | None = None
    email: Email | None = None


class OwnPasswordRequest(Model):
    """`POST /operator/v1/password`."""

    current_password: Annotated[str, Field(min_length=1, max_length=PASSWORD_CHARACTERS_MAX, repr=False)]
    password: Password = Field(repr=False)
