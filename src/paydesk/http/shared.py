"""What every operation of a surface may answer beside its own errors, and the shapes in which errors go out."""

from __future__ import annotations

from typing import Any

from paydesk import errors
from paydesk.errors import ErrorKind, Refusal
from paydesk.oauth.errors import INVALID_REQUEST
from paydesk.operation import Operation

_TOKEN_KINDS = {errors.PAYLOAD_TOO_LARGE, errors.UNSUPPORTED_MEDIA_TYPE, errors.JSON_SYNTAX_ERROR}


def shared_errors(operation: Operation) -> tuple[ErrorKind, ...]:
    """The errors that the adapter itself answers for this operation, in the order of its checks."""
    kinds: list[ErrorKind] = [errors.BAD_REQUEST, errors.MISDIRECTED_REQUEST]
    if operation.surface == "token":
        return (*kinds, errors.REQUEST_TIMEOUT, errors.INTERNAL_ERROR, errors.SERVICE_UNAVAILABLE)
    has_body = takes_body(operation)
    if has_body:
        kinds += [errors.PAYLOAD_TOO_LARGE, errors.UNSUPPORTED_MEDIA_TYPE, errors.REQUEST_TIMEOUT]
    kinds.append(errors.UNSUPPORTED_HEADER)
    if operation.surface != "public":
        kinds.append(errors.UNAUTHORIZED)
    if operation.surface != "public" or operation.development:
        kinds.append(errors.FORBIDDEN)
    if operation.scope is not None:
        kinds.append(errors.INSUFFICIENT_SCOPE)
    if operation.idempotent:
        kinds += [errors.EMPTY_REQUIRED_HEADER, errors.INVALID_IDEMPOTENCY_KEY_LENGTH]
    if "{" in operation.path:
        kinds.append(errors.INVALID_PATH_PARAM)
    if has_body:
        kinds.append(errors.JSON_SYNTAX_ERROR)
    if operation.body is not None:
        kinds += errors.BODY_FAULTS
    if operation.strict_query:
        kinds.append(errors.UNSUPPORTED_PROPERTIES)
    if operation.idempotent:
        kinds += [errors.IDEMPOTENCY_KEY_ALREADY_USED, errors.RESOURCE_LOCKED]
    return (*dict.fromkeys(kinds), errors.INTERNAL_ERROR, errors.SERVICE_UNAVAILABLE)


def takes_body(operation: Operation) -> bool:
    """Whether a body is read at all."""
    return operation.method in ("POST", "PUT", "PATCH")


def may_answer(operation: Operation) -> frozenset[ErrorKind]:
    """Every error that is declared for this operation."""
    return frozenset((*shared_errors(operation), *operation.errors))


def error_body(surface: str, refusal: Refusal) -> dict[str, Any]:
    """The body of an error: flat on the token endpoints, a list of errors elsewhere."""
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
            {"code": fault.kind.code, "message": fault.message or fault.kind.sentence, "details": [fault.detail]}
            for fault in refusal.faults
        ]
    else:
        listed = [{"code": refusal.kind.code, "message": message, "details": list(refusal.details)}]
    first = listed[0]
    body = {"errors": listed, "error": first["code"], "message": first["message"], "status": refusal.kind.status}
    if refusal.kind is errors.UNAUTHORIZED:
        body["code"] = refusal.kind.code
    return body


def in_token_dialect(refusal: Refusal) -> Refusal:
    """What is wrong with a request's form is `invalid_request` on the token endpoints."""
    if refusal.kind in _TOKEN_KINDS or refusal.kind in (errors.UNSUPPORTED_HEADER, *errors.BODY_FAULTS):
        return INVALID_REQUEST.because(refusal.reason)
    return refusal
