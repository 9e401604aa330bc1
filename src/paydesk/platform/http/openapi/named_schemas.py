"""The schemas of the OpenAPI document, under the names of their objects, as generators of clients understand them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from paydesk.core.response import components
from paydesk.core.text import characters as text
from paydesk.platform.http.openapi import fields
from paydesk.platform.http.openapi.components import ERROR_SCHEMAS, Json
from paydesk.platform.operation import Operation

AT = "#/components/schemas/"
ANY_OBJECT: Json = {"type": "object", "additionalProperties": {}}
_WITHIN = {"items", "additionalProperties", "not"}
_EACH = {"anyOf", "oneOf", "allOf"}
_TYPES = {str: "string", bool: "boolean", int: "integer"}


class Schemas:
    """The schemas of these operations and of the bodies of notifications; equal names are equal objects."""

    def __init__(self, rows: Sequence[Operation], notifications: Sequence[Any]) -> None:
        models = tuple(dict.fromkeys(body for row in rows for body in (row.body, row.described_body) if body))
        by_key, made = models_json_schema([(model, "validation") for model in models], ref_template="{model}")
        requests: dict[str, Json] = made.get("$defs", {})
        titles = {name: schema.get("title", name) for name, schema in requests.items()}
        assert len(set(titles.values())) == len(titles), f"two requests have one name: {sorted(titles.values())}"
        self._requests = {model: titles[by_key[model, "validation"]["$ref"]] for model in models}
        named = {
            titles[name]: _tidy(_renamed(schema, titles), in_request=True)
            for name, schema in fields.plain(requests).items()
        }
        types = [row.answer for row in rows if row.answer is not None] + list(notifications)
        schemas, of_answers = components(types)
        self._answers = list(zip(types, map(_tidy, schemas), strict=True))
        answers = {name: _tidy(schema) for name, schema in of_answers.items()}
        taken = [name for name in named if answers.get(name, named[name]) != named[name]]
        assert not taken, f"a request and an answer have one name: {', '.join(taken)}"
        self.named: dict[str, Json] = named | answers | ERROR_SCHEMAS

    def of_request(self, model: type[BaseModel]) -> Json:
        """Return the reference to the schema of a request's body."""
        return {"$ref": f"{AT}{self._requests[model]}"}

    def of_answer(self, answer: Any) -> Json:
        """Return the schema of an answer's body: for an object the reference to it, for None that of any object."""
        return next((schema for one, schema in self._answers if one == answer), ANY_OBJECT)

    def used(self, described: Any) -> dict[str, Json]:
        """Return the schemas to which a part of the document refers, and those to which these refer."""
        found: dict[str, Json] = {}
        names = list(references(described))
        for name in names:
            if name not in found:
                found[name] = self.named[name]
                names += references(found[name])
        return {name: found[name] for name in self.named if name in found}


def references(described: Any) -> Iterator[str]:
    """Yield the names of the schemas to which a part of the document refers."""
    for child in described.values() if isinstance(described, dict) else described:
        if isinstance(child, str) and child.startswith(AT):
            yield child.removeprefix(AT)
        elif isinstance(child, dict | list):
            yield from references(child)


def portable(schema: Json) -> Json:
    """Return the schema of a parameter as generators of clients understand it."""
    return _tidy(schema, keeps_default=True)


def _renamed(schema: Any, names: Json) -> Any:
    if isinstance(schema, list):
        return [_renamed(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: names[value] if key == "$ref" else _renamed(value, names) for key, value in schema.items()}


def _tidy(schema: Json, *, in_request: bool = False, keeps_default: bool = False) -> Json:
    """Return the schema with patterns in ASCII, a type for each value, and references into the document.

    In a request each text has the pattern of all texts.
    """
    tidy = _open(_typed(schema))
    if in_request and tidy.get("type") == "string" and not tidy.keys() & {"enum", "const"}:
        tidy.setdefault("pattern", text.PATTERN)
    if "pattern" in tidy:
        tidy["pattern"] = text.ascii_pattern(tidy["pattern"])
    if "$ref" in tidy:
        tidy["$ref"] = AT + tidy["$ref"].removeprefix(AT)
    if "default" in tidy and not keeps_default:
        tidy["description"] = _with_default(tidy.get("description", ""), tidy.pop("default"))
    for key in _EACH & tidy.keys():
        tidy[key] = [_tidy(one, in_request=in_request) for one in tidy[key]]
    for key in _WITHIN & tidy.keys():
        tidy[key] = _tidy(tidy[key], in_request=in_request) if isinstance(tidy[key], dict) else tidy[key]
    if "properties" in tidy:
        tidy["properties"] = {name: _tidy(one, in_request=in_request) for name, one in tidy["properties"].items()}
    return {key: value for key, value in tidy.items() if value or key not in ("required", "description")}


def _typed(schema: Json) -> Json:
    """Return the schema with the type of its values."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    kinds = sorted({_TYPES[type(value)] for value in values})
    return {**schema, "type": kinds[0] if len(kinds) == 1 else kinds} if kinds and "type" not in schema else {**schema}


def _open(schema: Json) -> Json:
    """Return the schema; an object without declared members may have any, which generators do not assume."""
    is_any = schema.get("type") == "object" and not schema.keys() & {"properties", "additionalProperties", *_EACH}
    return {**schema, "additionalProperties": {}} if is_any or schema.get("additionalProperties") is True else schema


def _with_default(description: str, default: Any) -> str:
    """Return the description with the default: a member that has one is not optional to generators."""
    if default in ("", []):
        return description
    shown = default if isinstance(default, str) else json.dumps(default)
    return f"{description} Default: `{shown}`.".strip()
