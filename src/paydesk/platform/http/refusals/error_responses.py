"""The errors that all operations of a surface share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel

from paydesk.core import errors
from paydesk.core.errors import ErrorKind
from paydesk.platform.http.surfaces import POLICIES
from paydesk.platform.operation import Operation


def shared_errors(operation: Operation) -> tuple[ErrorKind, ...]:
    """Return the errors that the endpoint itself answers for this operation, in the order of its checks."""
    policy, has_body = POLICIES[operation.surface], takes_body(operation)
    has_caller = policy.credential is not None
    # A page checks its forms itself.
    checks_origin = operation.development and operation.surface not in ("page", "console")
    # Otherwise two requests with one path and one key are the same request.
    requests_differ = bool(operation.headers) or operation.body is None or bool(operation.body.model_fields)
    checks: tuple[tuple[object, tuple[ErrorKind, ...]], ...] = (
        (True, (errors.BAD_REQUEST,)),
        (not operation.is_health_check, (errors.MISDIRECTED_REQUEST,)),
        (has_body, (errors.PAYLOAD_TOO_LARGE, errors.UNSUPPORTED_MEDIA_TYPE, errors.REQUEST_TIMEOUT)),
        (True, (errors.UNSUPPORTED_HEADER,)),
        (has_caller, (errors.UNAUTHORIZED,)),
        (checks_origin or policy.may_forbid(operation), (errors.FORBIDDEN,)),
        (has_caller, (errors.TOO_MANY_REQUESTS,)),
        (operation.scope, (errors.INSUFFICIENT_SCOPE,)),
        (operation.idempotent, (errors.EMPTY_REQUIRED_HEADER, errors.INVALID_IDEMPOTENCY_KEY_LENGTH)),
        ("{" in operation.path, (errors.INVALID_PATH_PARAM,)),
        (has_body and not operation.raw_body, (errors.JSON_SYNTAX_ERROR,)),
        (True, body_faults(operation.body) if operation.body is not None else ()),
        (operation.idempotent and requests_differ, (errors.IDEMPOTENCY_KEY_ALREADY_USED,)),
        (operation.idempotent, (errors.RESOURCE_LOCKED,)),
        (not operation.is_constant, (errors.INTERNAL_ERROR,)),
        # Health checks report an unavailable database in their own format.
        (not (operation.is_constant or operation.is_health_check), (errors.SERVICE_UNAVAILABLE,)),
    )
    declared = dict.fromkeys(kind for applies, kinds in checks if applies for kind in kinds)
    return tuple(kind for kind in declared if kind not in policy.replaced)


def takes_body(operation: Operation) -> bool:
    """Return whether the operation reads a body."""
    return operation.method in ("POST", "PUT", "PATCH")


@cache
def body_faults(model: type[BaseModel]) -> tuple[ErrorKind, ...]:
    """Return the kinds of fault that a body of this model can have."""
    keywords = set(_keywords(model.model_json_schema()))
    keyword_of = {
        errors.REQUIRED_PROPERTIES: "required",
        errors.MINIMUM_PROPERTIES: "required",
        errors.MINIMUM_ITEMS: "minItems",
        errors.MAXIMUM_ITEMS: "maxItems",
    }
    return tuple(kind for kind in errors.BODY_FAULTS if kind not in keyword_of or keyword_of[kind] in keywords)


def _keywords(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _keywords(part)


def may_answer(operation: Operation) -> frozenset[ErrorKind]:
    """Return every error that is declared for this operation."""
    return frozenset((*shared_errors(operation), *operation.errors))
