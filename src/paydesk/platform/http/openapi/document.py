"""The API as an OpenAPI 3.1 document, generated from the table of operations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from paydesk import __version__
from paydesk.core import errors
from paydesk.core.errors import GONE, ErrorKind, Fault, Refusal
from paydesk.core.response import schema_of
from paydesk.core.text import characters as text
from paydesk.platform.http.error_body import listed
from paydesk.platform.http.openapi import fields, notifications
from paydesk.platform.http.openapi.components import (
    ERROR_SCHEMAS,
    HEADERS,
    IDEMPOTENCY_KEY,
    SECURITY_SCHEMES,
    SURFACES,
    TOO_LONG,
    Json,
)
from paydesk.platform.http.openapi.notifications import Webhook
from paydesk.platform.http.refusals.error_responses import shared_errors, takes_body
from paydesk.platform.http.refusals.retired import Retired
from paydesk.platform.http.surfaces import JSON, POLICIES
from paydesk.platform.operation import Operation, Query

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


def document(
    operations: Iterable[Operation], retired: Iterable[Retired] = (), webhooks: Sequence[Webhook] = ()
) -> Json:
    """Return the OpenAPI 3.1 document of these operations, in their order, of retired ones, and of notifications."""
    rows = tuple(operations)
    models = tuple(dict.fromkeys(row.body for row in rows if row.body is not None))
    by_key, schema = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    references = {model: by_key[model, "validation"] for model in models}
    schemas = fields.with_text_rule(fields.plain(schema.get("$defs", {})))
    shared = _Shared(rows)
    surfaces = {row.surface for row in rows}
    tags = (*((name, text) for name, text in SURFACES.items() if name in surfaces), *notifications.TAGS.items())
    paths: dict[str, Json] = {}
    for row in rows:
        paths.setdefault(path_template(row), {})[row.method.lower()] = _operation(row, references, shared)
    for earlier in retired:
        paths.setdefault(earlier.path, {})[earlier.method.lower()] = _retired(earlier)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Paydesk",
            "version": __version__,
            "summary": "Tokens, in-person orders for card terminals, webhooks.",
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": name, "description": text} for name, text in tags],
        "paths": paths,
        "webhooks": notifications.documents(webhooks),
        "components": {
            "securitySchemes": {name: one for name, one in SECURITY_SCHEMES.items() if name in surfaces},
            "headers": HEADERS,
            "schemas": schemas | ERROR_SCHEMAS | notifications.schemas(webhooks),
            "examples": shared.examples,
        },
    }


def as_json(described: Json, *, indent: int | None = None) -> str:
    """Return the document as JSON in ASCII, because its patterns contain invisible characters."""
    return json.dumps(described, indent=indent)


def path_template(operation: Operation) -> str:
    """Return the path as in OpenAPI: parameters without a converter."""
    return _PARAMETER.sub(r"{\1}", operation.path)


def errors_in_order(operation: Operation) -> tuple[ErrorKind, ...]:
    """Return every error of the operation in the order of the checks; 5xx errors come last."""
    shared = shared_errors(operation)
    any_time = [kind for kind in shared if kind.status >= 500]
    return tuple(dict.fromkeys((*(kind for kind in shared if kind.status < 500), *operation.errors, *any_time)))


def _is_html(operation: Operation, kind: ErrorKind) -> bool:
    """Return whether this error is an HTML page; the server answers a late body before any page."""
    return POLICIES[operation.surface].error_page is not None and kind is not errors.REQUEST_TIMEOUT


def error_example(operation: Operation, kind: ErrorKind) -> Json | str:
    """Return the body of that error, or a description of the page."""
    if _is_html(operation, kind):
        return "An HTML page with the message, in the browser's language."
    refusal = kind.with_reason("an example")
    if kind in errors.BODY_FAULTS and operation.body is not None:
        path = f"$.{next(iter(operation.body.model_fields), 'field')}"
        details = {
            errors.REQUIRED_PROPERTIES: f"'{path}' - is required",
            errors.UNSUPPORTED_PROPERTIES: "'$.surprise' - is not known here",
            errors.PROPERTY_TYPE: f"'{path}' - must not be null",
            errors.MINIMUM_ITEMS: f"'{path}' - must have more items",
            errors.MAXIMUM_ITEMS: f"'{path}' - must have fewer items",
            errors.MINIMUM_PROPERTIES: f"'$' - must have {path[2:]}",
        }
        fault = Fault(kind, details.get(kind, f"'{path}' - {text.RULE}"))
        refusal = Refusal(kind, "an example", faults=(fault,))
    return POLICIES[operation.surface].error_body(refusal)


class _Shared:
    """What several operations refer to: the other operations, and the examples of errors."""

    def __init__(self, rows: Sequence[Operation]) -> None:
        self.rows = rows
        self.examples: dict[str, Json] = {}

    def error(self, row: Operation, kind: ErrorKind) -> Json:
        """Return a reference to the example of that error."""
        example = {"summary": kind.message, "value": error_example(row, kind), "x-repeat": kind.repeat}
        is_listed = POLICIES[row.surface].error_body is listed
        prefix = kind.code if is_listed else f"{row.surface}_{kind.code}"
        names = (prefix if number == 1 else f"{prefix}_{number}" for number in count(1))
        name = next(name for name in names if self.examples.setdefault(name, example) == example)
        return {"$ref": f"#/components/examples/{name}"}


def _operation(row: Operation, references: dict[type[BaseModel], Json], shared: _Shared) -> Json:
    described: Json = {"operationId": row.name, "summary": row.summary, "tags": [row.surface]}
    if row.description:
        described["description"] = row.description
    scopes = [row.scope] if row.scope else []
    described["security"] = [{row.surface: scopes}] if row.surface in SECURITY_SCHEMES else []
    if parameters := _parameters(row):
        described["parameters"] = parameters
    if row.body is not None and takes_body(row):
        schema = {"schema": references[row.body]}
        content: Json = {media_type: dict(schema) for media_type in POLICIES[row.surface].media_types}
        example = fields.example(row.body)
        if example and JSON in content:
            content[JSON]["example"] = example
        # A missing body is read as an empty object.
        is_required = not row.body.model_json_schema().keys().isdisjoint(("required", "minProperties"))
        described["requestBody"] = {"required": is_required, "content": content}
    elif row.raw_body:
        described["requestBody"] = {"required": False, "content": {"application/json": {}}}
    by_status: dict[int, list[ErrorKind]] = {}
    for kind in errors_in_order(row):
        by_status.setdefault(kind.status, []).append(kind)
    described["responses"] = {
        **{str(status): _success(row, status, shared) for status in (row.status, *row.further_statuses)},
        **{str(status): _refusals(row, kinds, shared) for status, kinds in sorted(by_status.items())},
        **({"414": TOO_LONG} if row.query else {}),
    }
    if row.development:
        described["x-development"] = True
    return described


def _retired(row: Retired) -> Json:
    headers = {"x-request-id": _header("RequestId"), "link": _header("Successor")}
    example = listed(GONE.with_reason("an example", message=row.message))
    schema = {"$ref": "#/components/schemas/Error"}
    described: Json = {
        "operationId": row.name,
        "summary": f"Retired: replaced by {row.successor}",
        "tags": ["public"],
        "deprecated": True,
        "security": [],
        "responses": {
            "410": {
                "description": f"`{GONE.code}`",
                "x-repeat": GONE.repeat,
                "headers": headers,
                "content": {"application/json": {"schema": schema, "example": example}},
            }
        },
    }
    if names := _PARAMETER.findall(row.path):
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    return described


def _parameters(row: Operation) -> list[Json]:
    names = _PARAMETER.findall(row.path)
    described: list[Json] = []
    for name in names:
        schema: Json = {"type": "string", "minLength": 1}
        if row.path_pattern and name == names[-1]:
            pattern = row.path_pattern.removeprefix("^").removesuffix("$")
            schema = {"type": "string", "pattern": f"^{pattern}$"}
        described.append({"name": name, "in": "path", "required": True, "schema": schema})
    described += [_parameter(query, "query") for query in row.query]
    if POLICIES[row.surface].has_strict_query:
        for one in described:
            if one["schema"].get("type") == "string" and not one["schema"].keys() & {"pattern", "enum"}:
                one["schema"].setdefault("minLength", 1)
    if row.idempotent:
        described.append(_parameter(IDEMPOTENCY_KEY, "header"))
    described += [_parameter(header, "header") for header in row.headers]
    return described


def _parameter(given: Query, where: str) -> Json:
    described: Json = {"name": given.name, "in": where, "description": given.description, "schema": dict(given.schema)}
    if given.required:
        described["required"] = True
    return described


def _success(row: Operation, status: int, shared: _Shared) -> Json:
    success: Json = {"description": row.summary, "headers": {"x-request-id": _header("RequestId")}}
    if row.idempotent:
        success["headers"]["x-idempotent-replayed"] = _header("Replayed")
    if 300 <= status < 400:
        success["headers"]["location"] = _header("Location")
    elif status != 204:
        is_text = row.answer is None and row.media_type != JSON
        media: Json = {"schema": {"type": "string"} if is_text else answer_schema(row)}
        if row.example is not None:
            media["example"] = msgspec.to_builtins(row.example)
        success["content"] = dict.fromkeys((row.media_type, *row.further_media_types), media)
    if links := dict(_links(row, shared.rows)) if status == 201 else {}:
        success["links"] = links
    return success


def answer_schema(row: Operation) -> Json:
    """Return the JSON schema of the body of a success."""
    return {} if row.answer is None else schema_of(row.answer)


def _links(row: Operation, rows: Sequence[Operation]) -> Iterator[tuple[str, Json]]:
    """Yield links from a created object to the operations below its path."""
    made = answer_schema(row).get("properties", {})
    for other in rows:
        names = _PARAMETER.findall(other.path)
        if other.surface == row.surface and other.path.startswith(f"{row.path}/{{") and len(names) == 1:
            name = names[0] if names[0] in made else "id"
            if name in made:
                parameters = {names[0]: f"$response.body#/{name}"}
                link = {"operationId": other.name, "parameters": parameters, "description": other.summary}
                yield other.name, link


def _refusals(row: Operation, kinds: Sequence[ErrorKind], shared: _Shared) -> Json:
    schema = POLICIES[row.surface].error_schema
    headers = {"x-request-id": _header("RequestId")}
    if kinds[0].status == 401 or POLICIES[row.surface].refused_secret in kinds:
        headers["www-authenticate"] = _header("Challenge")
    if kinds[0].status in (429, 503):
        headers["retry-after"] = _header("RetryAfter")
    content: Json = {
        "application/json": {
            "schema": {"$ref": f"#/components/schemas/{schema}"},
            "examples": {kind.code: shared.error(row, kind) for kind in kinds},
        }
    }
    if _is_html(row, kinds[0]):
        content = {"text/html; charset=utf-8": {"schema": {"type": "string"}}}
    return {"description": " · ".join(f"`{kind.code}`" for kind in kinds), "headers": headers, "content": content}


def _header(name: str) -> Json:
    return {"$ref": f"#/components/headers/{name}"}
