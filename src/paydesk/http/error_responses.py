"""The errors that all operations of a surface share, and the format of error responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from paydesk.core import errors
from paydesk.core.errors import ErrorKind, Refusal
from paydesk.oauth.errors import INVALID_REQUEST
from paydesk.operation import Operation

_TOKEN_KINDS = {errors.PAYLOAD_TOO_LARGE, errors.UNSUPPORTED_MEDIA_TYPE, errors.JSON_SYNTAX_ERROR}


def shared_errors(operation: Operation) -> tuple[ErrorKind, ...]:
    """Return the errors that the endpoint itself answers for this operation, in the order of its checks."""
    has_body, is_page = takes_body(operation), operation.surface == "page"
    if operation.surface == "token":
        timeout = (errors.REQUEST_TIMEOUT,) if has_body else ()
        return (errors.BAD_REQUEST, errors.MISDIRECTED_REQUEST, *timeout, *_any_time(operation))
    has_caller = operation.surface != "public" and not is_page
    checks: tuple[tuple[object, tuple[ErrorKind, ...]], ...] = (
        (True, (errors.BAD_REQUEST,)),
        (not operation.is_health_check, (errors.MISDIRECTED_REQUEST,)),
        (has_body, (errors.PAYLOAD_TOO_LARGE, errors.UNSUPPORTED_MEDIA_TYPE, errors.REQUEST_TIMEOUT)),
        (True, (errors.UNSUPPORTED_HEADER,)),
        (has_caller, (errors.UNAUTHORIZED,)),
        (operation.development or _may_forbid(operation), (errors.FORBIDDEN,)),
        (has_caller, (errors.TOO_MANY_REQUESTS,)),
        (operation.scope, (errors.INSUFFICIENT_SCOPE,)),
        (operation.idempotent, (errors.EMPTY_REQUIRED_HEADER, errors.INVALID_IDEMPOTENCY_KEY_LENGTH)),
        ("{" in operation.path, (errors.INVALID_PATH_PARAM,)),
        (has_body and not operation.raw_body and not is_page, (errors.JSON_SYNTAX_ERROR,)),
        (not is_page, body_faults(operation.body) if operation.body is not None else ()),
        (operation.idempotent, (errors.IDEMPOTENCY_KEY_ALREADY_USED, errors.RESOURCE_LOCKED)),
        (True, _any_time(operation)),
    )
    return tuple(dict.fromkeys(kind for applies, kinds in checks if applies for kind in kinds))


def _any_time(operation: Operation) -> tuple[ErrorKind, ...]:
    """Return the errors that any request can get; a constant answer has none."""
    if operation.is_constant:
        return ()
    # Health checks report an unavailable database in their own format.
    unavailable = () if operation.is_health_check else (errors.SERVICE_UNAVAILABLE,)
    return (errors.INTERNAL_ERROR, *unavailable)


def _may_forbid(operation: Operation) -> bool:
    """Return whether an authenticated caller may be forbidden: if suspended, or an operator with a read-only role.

    A terminal never is, because its order must be finished.
    """
    return operation.surface == "application" or (operation.surface == "operator" and operation.method != "GET")


def takes_body(operation: Operation) -> bool:
    """Return whether the operation reads a body."""
    return operation.method in ("POST", "PUT", "PATCH")


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


def error_body(surface: str, refusal: Refusal) -> dict[str, Any]:
    """Return an error's body: flat on the token endpoints, a list of errors elsewhere."""
    return _flat(refusal) if surface == "token" else _listed(refusal)


def _flat(refusal: Refusal) -> dict[str, Any]:
    message = refusal.public_message
    return {
        "message": message,
        "error": refusal.kind.code,
        "error_description": message,
        "status": refusal.kind.status,
        "cause": [],
    }


def _listed(refusal: Refusal) -> dict[str, Any]:
    message = refusal.public_message
    if refusal.faults:
        listed = [
            {"code": fault.kind.code, "message": fault.message or fault.kind.message, "details": [fault.detail]}
            for fault in refusal.faults
        ]
    else:
        listed = [{"code": refusal.kind.code, "message": message, "details": list(refusal.details)}]
    first = listed[0]
    body = {"errors": listed, "error": first["code"], "message": first["message"], "status": refusal.kind.status}
    if refusal.kind is errors.UNAUTHORIZED:
        body["code"] = refusal.kind.code
    return {**body, **refusal.extra}


def in_token_format(refusal: Refusal) -> Refusal:
    """Replace a refusal of a malformed request by `invalid_request`, as RFC 6749 section 5.2 requires."""
    if refusal.kind in _TOKEN_KINDS or refusal.kind in (errors.UNSUPPORTED_HEADER, *errors.BODY_FAULTS):
        return INVALID_REQUEST.with_reason(refusal.reason)
    return refusal


def in_page_format(refusal: Refusal) -> Refusal:
    """Replace a refusal of a malformed form by `bad_request`: browsers do not send one."""
    if refusal.kind in (errors.JSON_SYNTAX_ERROR, *errors.BODY_FAULTS):
        return errors.BAD_REQUEST.with_reason(refusal.reason)
    return refusal
