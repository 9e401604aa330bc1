"""The roles of operators, and what each may use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from paydesk.core.errors import FORBIDDEN

Required = Literal["every", "resend", "change", "owner"]
"""The operators who may use an operation: all · those who may send notifications again · those who may change things ·
owners."""

_MAY: Mapping[str, tuple[Required, ...]] = {
    "viewer": ("every",),
    "support": ("every", "resend"),
    "operator": ("every", "resend", "change"),
    "owner": ("every", "resend", "change", "owner"),
}


def permits(role: str, required: Required) -> bool:
    """Return whether an operator of this role may use what requires `required`."""
    return required in _MAY.get(role, ())


def lowest(required: Required) -> str:
    """Return the role with the fewest rights that may use it."""
    return next(role for role in _MAY if permits(role, required))


def check(role: str, required: Required) -> None:
    """Refuse an operator whose role does not permit it. Raises `FORBIDDEN`."""
    if permits(role, required):
        return
    if required == "owner":
        raise FORBIDDEN.with_reason("not an owner", message=f"Your role, {role}, may not do this; an owner may.")
    raise FORBIDDEN.with_reason(f"{role} may only read", message=f"Your role, {role}, may only read.")
