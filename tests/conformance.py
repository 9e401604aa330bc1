"""Whether an answer keeps to what its operation declares; every answer that a test gets is looked at."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import jsonschema_rs

from every_operation import OPERATIONS
from paydesk.platform.http.openapi.document import answer_schema
from paydesk.platform.http.refusals.error_responses import may_answer
from paydesk.platform.operation import Operation

_ROUTES = [
    (operation.method, re.compile(re.sub(r"\{\w+\}", "[^/]+", operation.path)), operation) for operation in OPERATIONS
]


def check(method: str, path: str, status: int, body: Any) -> None:
    """Fail where the answer's status is not declared, or the body of a success has not the declared shape."""
    operation = _operation(method, path.partition("?")[0])
    if operation is None or (operation.development and status in (404, 405)):
        return  # Nothing is declared for what is not there.
    if operation.surface == "console" and 400 <= status < 500:
        return  # A page has the status of the error of `/operator/v1` that it shows.
    if status == 304:
        assert operation.is_constant, f"{operation.name} is not the same for everyone"
        return
    if status in (operation.status, *operation.further_statuses):
        if status == 204:
            assert body is None, "204 has no body"
        elif operation.answer is not None:
            _validator(operation.name, operation.surface).validate(body)
        return
    assert status in {kind.status for kind in may_answer(operation)}, f"{operation.name} does not declare {status}"


def _operation(method: str, path: str) -> Operation | None:
    found = (operation for of, pattern, operation in _ROUTES if of == method and pattern.fullmatch(path))
    return next(found, None)


@cache
def _validator(name: str, surface: str) -> jsonschema_rs.Validator:
    operation = next(row for row in OPERATIONS if (row.name, row.surface) == (name, surface))
    return jsonschema_rs.validator_for(answer_schema(operation), validate_formats=True)
