"""The two bodies of errors: with a list of errors, and the flat one of the token endpoints.

Official clients keep only `message`, `error`, `status` and `cause` of a body, and print only `message`. So that has the
first detail too, and `cause` has every detail.
"""

from __future__ import annotations

import re
from typing import Any

from paydesk.core.errors import UNAUTHORIZED, Refusal

Json = dict[str, Any]
Error = tuple[str, str, tuple[str, ...]]
"""The code, the message and the details of an error."""

_FIELD = re.compile(r"('.+') - (.+)", re.DOTALL)
_SAID_BY_MESSAGE = frozenset({"is required", "is not known here"})
"""Rules that a message such as "A required property is missing." already states."""


def listed(refusal: Refusal) -> Json:
    """Return an error's body with a list of errors."""
    errors: list[Error] = [
        (fault.kind.code, fault.message or fault.kind.message, (fault.detail,)) for fault in refusal.faults
    ]
    if not errors:
        errors = [(refusal.kind.code, refusal.public_message, refusal.details)]
    cause = [
        {"code": code, "description": description}
        for code, message, details in errors
        for description in [described(message, detail) for detail in details if detail] or [message]
    ]
    body: Json = {
        "errors": [{"code": code, "message": message, "details": list(details)} for code, message, details in errors],
        "error": errors[0][0],
        "message": cause[0]["description"],
        "status": refusal.kind.status,
        "cause": cause,
    }
    if refusal.kind is UNAUTHORIZED:
        # Clients compare this message, so it has no detail.
        body |= {"message": refusal.public_message, "code": refusal.kind.code}
    return {**body, **refusal.extra}


def flat(refusal: Refusal) -> Json:
    """Return an error's body in the format of RFC 6749 section 5.2 and of official clients."""
    message = refusal.public_message
    return {
        "message": message,
        "error": refusal.kind.code,
        "error_description": message,
        "status": refusal.kind.status,
        "cause": [],
    }


def described(message: str, detail: str) -> str:
    """Return the message with one detail, for example: A required property is missing: '$.type'."""
    field = _FIELD.fullmatch(detail)
    if field is not None:
        path, rule = field.groups()
        detail = path if rule in _SAID_BY_MESSAGE else f"{path} {rule}"
    if not detail.endswith("."):
        detail += "."
    stem = message.removesuffix(".")
    if ". " not in stem and ": " not in stem:
        return f"{stem}: {detail}"
    # The name of a field stays as it is.
    is_word = detail.partition(" ")[0].rstrip(",:;.").isalpha()
    return f"{stem}. {detail[0].upper() + detail[1:] if is_word else detail}"
