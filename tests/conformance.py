"""Whether an answer keeps to what its operation declares: each that a test gets is compared with the document."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import jsonschema_rs

from described import resolved
from every_operation import API, OPERATIONS
from paydesk.platform.http.openapi import documents
from paydesk.platform.http.openapi.document import path_template
from paydesk.platform.http.refusals.error_responses import may_answer
from paydesk.platform.operation import Operation

DOCUMENT = "urn:document"
# Made here, where no case waits for it.
_DOCUMENTS = {name: json.loads(API.openapi_json(name, indent=None)) for name in documents.DOCUMENTS}
_REGISTRIES = {
    name: jsonschema_rs.Registry([(DOCUMENT, {"components": {"schemas": document["components"]["schemas"]}})])
    for name, document in _DOCUMENTS.items()
}
_ROUTES = [
    (operation.method, re.compile(re.sub(r"\{\w+\}", "[^/]+", operation.path)), operation) for operation in OPERATIONS
]


def check(method: str, path: str, status: int, body: Any) -> None:
    """Fail where the answer's status is not declared, or its body has not the shape that the OpenAPI document says."""
    operation = _operation(method, path.partition("?")[0])
    is_elsewhere = operation is not None and (operation.development or operation.surface == "operators_public")
    if operation is None or (is_elsewhere and status in (404, 405)):
        return  # Nothing is declared for what is not there.
    if operation.surface == "console" and 400 <= status < 500:
        return  # A page has the status of the error of `/operator/v1` that it shows.
    if status == 304:
        assert operation.is_constant, f"{operation.name} is not the same for everyone"
        return
    if status not in (operation.status, *operation.further_statuses):
        assert status in {kind.status for kind in may_answer(operation)}, f"{operation.name} does not declare {status}"
    if status == 204:
        assert body is None, "204 has no body"
    elif body is not None and (validator := _validator(operation.name, str(status))) is not None:
        validator.validate(body)


def _operation(method: str, path: str) -> Operation | None:
    found = (operation for of, pattern, operation in _ROUTES if of == method and pattern.fullmatch(path))
    return next(found, None)


@cache
def _validator(name: str, status: str) -> jsonschema_rs.Validator | None:
    """Return the validator of the JSON of that answer; None if no document has the operation."""
    operation = next(row for row in OPERATIONS if row.name == name)
    if (of_document := documents.name_of(operation)) is None:
        return None
    document, registry = _DOCUMENTS[of_document], _REGISTRIES[of_document]
    answers = document["paths"][path_template(operation)][operation.method.lower()]["responses"]
    if status not in answers:
        return None  # The server's own answer to what it could not read.
    schema = resolved(document, answers[status])["content"]["application/json"]["schema"]
    if "$ref" in schema:
        schema = {"$ref": f"{DOCUMENT}{schema['$ref']}"}
    return jsonschema_rs.validator_for(schema, validate_formats=True, registry=registry)
