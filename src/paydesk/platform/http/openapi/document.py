"""The API as an OpenAPI 3.1 document, generated from the table of operations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from itertools import count

import msgspec

from paydesk import __version__
from paydesk.core import errors
from paydesk.core.errors import ErrorKind, Fault, Refusal
from paydesk.core.response import schema_of
from paydesk.core.text import characters as text
from paydesk.platform.http.error_body import listed
from paydesk.platform.http.openapi import fields, notifications
from paydesk.platform.http.openapi.components import (
    HEADERS,
    IDEMPOTENCY_KEY,
    SECURITY_SCHEMES,
    SURFACES,
    TOO_LONG,
    Json,
)
from paydesk.platform.http.openapi.named_schemas import ANY_OBJECT, AT, Schemas
from paydesk.platform.http.openapi.notifications import Webhook
from paydesk.platform.http.openapi.parameters import PARAMETER, parameter, parameters
from paydesk.platform.http.refusals.error_responses import shared_errors, takes_body
from paydesk.platform.http.surfaces import FORM, JSON, POLICIES
from paydesk.platform.operation import Operation
from paydesk.platform.roles import lowest

_FORM = f"A form (`{FORM}`) with the same parameters is accepted too."
_ABOUT = (
    "Paydesk is a self-hosted service for in-person payments. Within a version documents only gain operations, members"
    " and values: clients ignore those that they do not know."
)


def document(
    operations: Iterable[Operation],
    webhooks: Sequence[Webhook] = (),
    *,
    summary: str = "",
    server: str | None = None,
) -> Json:
    """Return the OpenAPI 3.1 document of these operations, in their order, and of notifications.

    Without the address of a `server`, it is the one that serves the document.
    """
    rows = tuple(operations)
    shared = _Shared(rows, Schemas(rows, [webhook.body for webhook in webhooks]))
    surfaces = {row.surface for row in rows}
    tags = {name: text for name, text in SURFACES.items() if name in surfaces} | (
        notifications.TAGS if webhooks else {}
    )
    paths: dict[str, Json] = {}
    for row in rows:
        paths.setdefault(path_template(row), {})[row.method.lower()] = _operation(row, shared)
    sent = notifications.documents(webhooks, shared.schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Paydesk",
            "version": __version__,
            "summary": summary,
            "description": _ABOUT,
            "contact": {"name": "The operator of this service"},
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": server or "/", "description": "This service."}],
        "tags": [{"name": name, "description": text} for name, text in tags.items()],
        "paths": paths,
        "webhooks": sent,
        "components": {
            "securitySchemes": {name: one for name, one in SECURITY_SCHEMES.items() if name in surfaces},
            "headers": {name: one for name, one in HEADERS.items() if name in shared.headers},
            "parameters": _shared_parameters(rows) | notifications.headers(webhooks),
            "responses": shared.responses | (notifications.RESPONSES if webhooks else {}),
            "schemas": shared.schemas.used([paths, sent, shared.responses]),
            "examples": shared.examples,
        },
    }


def as_json(described: Json, *, indent: int | None = None) -> str:
    """Return the document as JSON, without an indent as short as it can be."""
    return json.dumps(described, indent=indent, separators=None if indent else (",", ":"), ensure_ascii=False)


def path_template(operation: Operation) -> str:
    """Return the path as in OpenAPI: parameters without a converter."""
    return PARAMETER.sub(r"{\1}", operation.path)


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


def _shared_parameters(rows: Iterable[Operation]) -> Json:
    is_used = any(row.idempotent for row in rows)
    return {IDEMPOTENCY_KEY.name: parameter(IDEMPOTENCY_KEY, "header")} if is_used else {}


class _Shared:
    """What several operations refer to: the other operations, schemas, headers, and the examples of errors."""

    def __init__(self, rows: Sequence[Operation], schemas: Schemas) -> None:
        self.rows, self.schemas = rows, schemas
        self.examples: dict[str, Json] = {}
        self.responses: dict[str, Json] = {}
        self.headers: set[str] = set()

    def header(self, name: str) -> Json:
        """Return a reference to that header."""
        self.headers.add(name)
        return {"$ref": f"#/components/headers/{name}"}

    def error(self, row: Operation, kind: ErrorKind) -> Json:
        """Return a reference to the example of that error."""
        if kind in errors.BODY_FAULTS and kind.code in self.examples:
            # It differs in the name of a member alone, and is long.
            return {"$ref": f"#/components/examples/{kind.code}"}
        example = {"value": error_example(row, kind), "x-repeat": kind.repeat}
        is_listed = POLICIES[row.surface].error_body is listed
        return _referred("examples", self.examples, kind.code if is_listed else f"{row.surface}_{kind.code}", example)

    def answer(self, row: Operation) -> Json:
        """Return a reference to the example of the operation's answer."""
        name = self.schemas.of_answer(row.answer)["$ref"].removeprefix(AT) if row.answer else row.name
        return _referred("examples", self.examples, name, {"value": msgspec.to_builtins(row.example)})

    def response(self, status: int, response: Json) -> Json:
        """Return a reference to the response of an error."""
        return _referred("responses", self.responses, HTTPStatus(status).phrase.replace(" ", ""), response)


def _referred(kind: str, known: dict[str, Json], prefix: str, one: Json) -> Json:
    """Return a reference to a component, which is added under a free name if it is new."""
    names = (prefix if number == 1 else f"{prefix}_{number}" for number in count(1))
    name = next(name for name in names if known.setdefault(name, one) == one)
    return {"$ref": f"#/components/{kind}/{name}"}


def _description(row: Operation) -> str:
    """Return what the operation does, and who may call it."""
    facts = (
        row.description or f"{row.summary}.",
        _FORM if FORM in POLICIES[row.surface].media_types and takes_body(row) else "",
        f"Needs the scope `{row.scope}`." if row.scope else "",
        f"Needs the role `{lowest(row.role)}` or a higher one." if row.surface == "operator" and row.role else "",
    )
    return " ".join(filter(None, facts))


def _operation(row: Operation, shared: _Shared) -> Json:
    described: Json = {"operationId": row.name, "summary": row.summary, "description": _description(row)}
    described["tags"] = [row.surface]
    scopes = [row.scope] if row.scope else []
    described["security"] = [{row.surface: scopes}] if row.surface in SECURITY_SCHEMES else []
    if described_parameters := parameters(row):
        described["parameters"] = described_parameters
    if row.body is not None and takes_body(row):
        # Generators make invalid code of a body with several media types: the others are in the description.
        media_type = POLICIES[row.surface].media_types[0]
        content: Json = {media_type: {"schema": shared.schemas.of_request(row.body)}}
        if example := fields.example(row.body):
            content[media_type]["example"] = example
        # A missing body is read as an empty object.
        is_required = not row.body.model_json_schema().keys().isdisjoint(("required", "minProperties", "oneOf"))
        described["requestBody"] = {"required": is_required, "content": content}
    elif row.raw_body:
        model = row.described_body
        raw: Json = {"schema": shared.schemas.of_request(model) if model else ANY_OBJECT}
        if model and (example := fields.example(model)):
            raw["example"] = example
        described["requestBody"] = {"required": False, "content": {JSON: raw}}
    by_status: dict[int, list[ErrorKind]] = {}
    for kind in errors_in_order(row):
        by_status.setdefault(kind.status, []).append(kind)
    described["responses"] = {
        **{str(status): _success(row, status, shared) for status in (row.status, *row.further_statuses)},
        **{str(status): _refusals(row, kinds, shared) for status, kinds in sorted(by_status.items())},
        **({"414": shared.response(414, TOO_LONG)} if row.query else {}),
    }
    if row.development:
        described["x-development"] = True
    return described


def _success(row: Operation, status: int, shared: _Shared) -> Json:
    success: Json = {"description": row.summary, "headers": {"x-request-id": shared.header("RequestId")}}
    if row.idempotent:
        success["headers"]["x-idempotent-replayed"] = shared.header("Replayed")
    if 300 <= status < 400:
        success["headers"]["location"] = shared.header("Location")
    elif status != 204:
        is_text = row.answer is None and row.media_type != JSON
        media: Json = {"schema": {"type": "string"} if is_text else shared.schemas.of_answer(row.answer)}
        if row.example is not None:
            media["examples"] = {"answer": shared.answer(row)}
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
        names = PARAMETER.findall(other.path)
        if other.surface == row.surface and other.path.startswith(f"{row.path}/{{") and len(names) == 1:
            name = names[0] if names[0] in made else "id"
            if name in made:
                parameters = {names[0]: f"$response.body#/{name}"}
                link = {"operationId": other.name, "parameters": parameters, "description": other.summary}
                yield other.name, link


def _refusals(row: Operation, kinds: Sequence[ErrorKind], shared: _Shared) -> Json:
    schema = POLICIES[row.surface].error_schema
    headers = {"x-request-id": shared.header("RequestId")}
    if kinds[0].status == 401 or POLICIES[row.surface].refused_secret in kinds:
        headers["www-authenticate"] = shared.header("Challenge")
    if kinds[0].status in (429, 503):
        headers["retry-after"] = shared.header("RetryAfter")
    content: Json = {
        "application/json": {
            "schema": {"$ref": f"{AT}{schema}"},
            "examples": {kind.code: shared.error(row, kind) for kind in kinds},
        }
    }
    if _is_html(row, kinds[0]):
        content = {"text/html; charset=utf-8": {"schema": {"type": "string"}}}
    codes = " · ".join(f"`{kind.code}`" for kind in kinds)
    return shared.response(kinds[0].status, {"description": codes, "headers": headers, "content": content})
