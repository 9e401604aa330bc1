"""The pages of operations and webhooks, read from their rows and from the OpenAPI document that is made of these."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paydesk.core.errors import ErrorKind
from paydesk.platform.docs.sections import Section, section_at, section_of
from paydesk.platform.http.openapi import document as openapi
from paydesk.platform.http.openapi import fields
from paydesk.platform.http.openapi.notifications import Webhook
from paydesk.platform.http.refusals.error_responses import shared_errors
from paydesk.platform.operation import Operation

Json = Mapping[str, Any]
EXAMPLE_CHARACTERS_MAX = 60


@dataclass(frozen=True, slots=True)
class Member:
    """A parameter, or a member of a body: its path, type and rules, and the value that it has in the example."""

    path: str
    type: str
    required: bool
    rules: str
    example: str = ""

    @property
    def depth(self) -> int:
        """The number of objects around it."""
        return self.path.count(".")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Success:
    """A successful answer: its status, and its body with an example, if it has one."""

    status: str
    text: str
    members: tuple[Member, ...] = ()
    example: Any = None


@dataclass(frozen=True, slots=True)
class Page:
    """The page of an operation, or of a webhook, which has no `row`."""

    name: str
    """The last part of its address: the operation's id with hyphens."""
    title: str
    section: Section
    method: str
    path: str
    description: str
    parameters: tuple[tuple[str, tuple[Member, ...]], ...]
    """Those of the path, the query and the headers, each kind under its name."""
    body: tuple[Member, ...]
    example: Any
    """A body that is valid; None without one."""
    successes: tuple[Success, ...]
    own_errors: tuple[ErrorKind, ...] = ()
    common_errors: tuple[ErrorKind, ...] = ()
    row: Operation | None = None

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"/docs/{self.name}"

    @property
    def required_parameters(self) -> Iterator[tuple[str, Member]]:
        """The parameters that a request must have, and headers with an example, each with the name of its kind."""
        for where, members in self.parameters:
            yield from ((where, one) for one in members if one.required or (where == "header" and one.example))


def pages_of(rows: Iterable[Operation], document: Json, webhooks: Sequence[Webhook]) -> Iterator[Page]:
    """Yield the page of each operation that has a section, then of each webhook."""
    for row in rows:
        described = document["paths"].get(openapi.path_template(row), {}).get(row.method.lower())
        if described is not None and (section := section_of(row)) is not None:
            yield _page(row, _expanded(described, document), section, document)
    for webhook in webhooks:
        described = _expanded(document["webhooks"][webhook.action]["post"], document)
        section = section_at("webhook ")
        assert section is not None, "webhooks have a section"
        yield _described(
            webhook.name,
            described,
            document,
            title=webhook.summary,
            section=section,
            method="POST",
            path=f"{webhook.action} → your URL",
            description=webhook.description,
            successes=tuple(Success(code, one["description"]) for code, one in described["responses"].items()),
        )


def _page(row: Operation, described: Json, section: Section, document: Json) -> Page:
    kinds = openapi.errors_in_order(row)
    common = set(shared_errors(row)) - set(row.errors)
    return _described(
        row.name,
        described,
        document,
        title=row.summary,
        section=section,
        method=row.method,
        path=openapi.path_template(row),
        description=row.description,
        successes=tuple(_successes(described, document)),
        own_errors=tuple(one for one in kinds if one not in common),
        common_errors=tuple(one for one in kinds if one in common),
        row=row,
    )


def _described(name: str, described: Json, document: Json, **own: Any) -> Page:
    """Return a page with what the OpenAPI document says about the request."""
    kinds = ("path", "query", "header")
    parameters = [(kind, tuple(_parameters(kind, described))) for kind in kinds]
    schema, example = _body(described.get("requestBody", {}), document)
    return Page(
        name=name.replace("_", "-"),
        parameters=tuple((kind, members) for kind, members in parameters if members),
        body=members_of(schema, document, example),
        example=example,
        **own,
    )


def _parameters(kind: str, described: Json) -> Iterator[Member]:
    for one in described["parameters"]:
        if one["in"] == kind:
            schema = {"description": one.get("description", ""), **one["schema"]}
            is_required = one.get("required", False)
            properties = {"properties": {one["name"]: schema}, "required": [one["name"]] if is_required else []}
            (row,) = fields.rows_of(properties)
            examples = [one["example"]] if "example" in one else schema.get("examples", [""])
            yield Member(one["name"], row.type, row.required, row.rules, str(examples[0]))


def _successes(described: Json, document: Json) -> Iterator[Success]:
    for code, response in described["responses"].items():
        if code.startswith(("2", "3")):
            schema, example = _body(response, document)
            kinds = ", ".join(response.get("content", {"no body": {}}))
            yield Success(code, kinds, members_of(schema, document, example), example)


def _body(described: Json, document: Json) -> tuple[Json, Any]:
    """Return the schema of a request or a response, and its example."""
    media: Json = next(iter(described.get("content", {}).values()), {})
    first: Json = next(iter(media.get("examples", {}).values()), {})
    return media.get("schema", {}), media.get("example", _resolved(first, document).get("value"))


def _expanded(described: Json, document: Json) -> Json:
    """Return an operation with the components to which its parameters and answers refer."""
    return {
        **described,
        "parameters": [_resolved(one, document) for one in described.get("parameters", ())],
        "responses": {code: _resolved(one, document) for code, one in described["responses"].items()},
    }


def _resolved(part: Json, document: Json) -> Json:
    """Return a part of the document, or the component that it refers to."""
    if "$ref" not in part:
        return part
    kind, name = part["$ref"].split("/")[2:]
    component: Json = document["components"][kind][name]
    return component


def members_of(schema: Json, document: Json, example: Any = None) -> tuple[Member, ...]:
    """Return the members of a body in document order, including those of objects and arrays in it."""
    named = document["components"]["schemas"]
    rows = fields.rows_of({**schema, "$defs": named})
    return tuple(
        Member(row.path, row.type, row.required, row.rules, _at(example, row.path)) for row in rows if row.path
    )


def _at(example: Any, path: str) -> str:
    """Return the value at a path such as `payments[].amount`, as short JSON; empty if there is none."""
    for part in path.split("."):
        example = example.get(part.removesuffix("[]")) if isinstance(example, Mapping) else None
        if part.endswith("[]"):
            example = example[0] if isinstance(example, Sequence) and example else None
    if example is None or isinstance(example, Mapping | list | tuple):
        return ""
    text = json.dumps(example, ensure_ascii=False)
    return text if len(text) <= EXAMPLE_CHARACTERS_MAX else ""
