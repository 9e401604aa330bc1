"""Compare an OpenAPI document with that of the last release: within a version a document only gains something.

Requests that were valid stay valid, and answers keep their members and types. `released` makes the file of a release,
`python -m tests.openapi_additions` writes it; see CONTRIBUTING.md, A version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paydesk import __version__
from paydesk.core.text.characters import ascii_pattern

FOLDER = Path(__file__).with_name("openapi")
LOWER, UPPER = ("minLength", "minimum", "minItems", "minProperties"), ("maxLength", "maximum", "maxItems")
METHODS = ("get", "post", "put", "patch", "delete")


def released(document: Any) -> dict[str, Any]:
    """Return what the comparison reads of a document: its operations for programs, without references."""
    kept = {}
    for path, methods in document["paths"].items():
        for method, row in methods.items():
            answers = {status: _body(document, answer) for status, answer in row["responses"].items() if status < "300"}
            is_page = row["tags"] == ["page"] or path.startswith(("/docs", "/openapi", "/pages/", "/demo/"))
            if is_page or row.get("x-development") or row.get("deprecated"):
                continue
            parameters = [_resolved(document, one) for one in row.get("parameters", ())]
            kept[f"{method.upper()} {path}"] = {
                "operationId": row["operationId"],
                "parameters": {
                    f"{one['in']} {one['name']}": {
                        "required": one.get("required", False),
                        "schema": _essence(document, one["schema"]),
                    }
                    for one in parameters
                },
                "request": _body(document, row.get("requestBody", {})),
                "needs_body": _resolved(document, row.get("requestBody", {})).get("required", False),
                "answers": answers,
            }
    return kept


def losses(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return what the later document lost or demands beside the earlier one, each with its place."""
    found = []
    for name, earlier in before.items():
        if (later := after.get(name)) is None:
            found.append(f"{name}: removed")
            continue
        if earlier["operationId"] != later["operationId"]:
            found.append(f"{name}: operationId {later['operationId']}")
        found += [f"{name} {loss}" for loss in _lost_in_operation(earlier, later)]
    return found


def _lost_in_operation(before: Any, after: Any) -> Iterator[str]:
    for place, one in before["parameters"].items():
        if place not in after["parameters"]:
            yield f"{place}: removed"
        else:
            yield from _narrowed(one["schema"], after["parameters"][place]["schema"], place)
    for place, one in after["parameters"].items():
        if one["required"] and not before["parameters"].get(place, {}).get("required", False):
            yield f"{place}: newly required"
    if after["needs_body"] and not before["needs_body"]:
        yield "request: newly required"
    yield from _narrowed(before["request"], after["request"], "request")
    for status, body in before["answers"].items():
        if status not in after["answers"]:
            yield f"{status}: removed"
        else:
            yield from _lost(body, after["answers"][status], status)


def _narrowed(before: Any, after: Any, place: str) -> Iterator[str]:
    """Yield what the later schema of a request refuses that the earlier one accepts."""
    yield from _changed_types(after, before, place)
    if "enum" in after and not set(map(str, before.get("enum", [after]))) <= set(map(str, after["enum"])):
        yield f"{place}: fewer values"
    yield from (f"{place}: {key}" for key in LOWER if after.get(key, 0) > before.get(key, 0))
    yield from (f"{place}: {key}" for key in UPPER if after.get(key, 2**64) < before.get(key, 2**64))
    if after.get("pattern", before.get("pattern")) != before.get("pattern"):
        yield f"{place}: pattern"
    if after.get("uniqueItems") and not before.get("uniqueItems"):
        yield f"{place}: uniqueItems"
    yield from (
        f"{place}.{name}: newly required"
        for name in after.get("required", ())
        if name not in before.get("required", ())
    )
    for name, one in before.get("properties", {}).items():
        if name in after.get("properties", {}):
            yield from _narrowed(one, after["properties"][name], f"{place}.{name}")
        elif after.get("closed"):
            yield f"{place}.{name}: removed"
    if "items" in before and "items" in after:
        yield from _narrowed(before["items"], after["items"], f"{place}[]")


def _lost(before: Any, after: Any, place: str) -> Iterator[str]:
    """Yield what the later schema of an answer does not promise and the earlier one does."""
    yield from _changed_types(before, after, place)
    for name, one in before.get("properties", {}).items():
        if name not in after.get("properties", {}):
            yield f"{place}.{name}: removed"
        else:
            yield from _lost(one, after["properties"][name], f"{place}.{name}")
    required = set(before.get("required", ())) - set(after.get("required", ()))
    yield from (f"{place}.{name}: may be missing" for name in sorted(required) if name in after.get("properties", {}))
    if "items" in before and "items" in after:
        yield from _lost(before["items"], after["items"], f"{place}[]")


def _changed_types(narrow: Any, wide: Any, place: str) -> Iterator[str]:
    """Yield the place if values of the narrow schema have a type that the wide one excludes."""
    if wide.get("type") and not set(narrow.get("type", ["any"])) <= set(wide["type"]):
        yield f"{place}: type"


def _body(document: Any, described: Any) -> Any:
    content = _resolved(document, described).get("content", {})
    return _essence(document, content.get("application/json", {}).get("schema", {}))


def _resolved(document: Any, described: Any) -> Any:
    while "$ref" in described:
        target = document
        for step in described["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        described = {**target, **{key: value for key, value in described.items() if key != "$ref"}}
    return described


def _essence(document: Any, schema: Any) -> dict[str, Any]:
    """Return the schema without references and without what is for people; variants of it are one."""
    schema = _resolved(document, schema) if isinstance(schema, dict) else {}
    variants = [_essence(document, one) for key in ("anyOf", "oneOf") for one in schema.get(key, ())]
    kept = {key: schema[key] for key in (*LOWER, *UPPER, "required", "uniqueItems") if key in schema}
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if values:
        kept["enum"] = values
    types = schema.get("type", sorted({_TYPES[type(value)] for value in values}))
    if types:
        kept["type"] = [types] if isinstance(types, str) else types
    if "pattern" in schema:
        kept["pattern"] = ascii_pattern(schema["pattern"])
    if schema.get("additionalProperties") is False:
        kept["closed"] = True
    if "properties" in schema:
        kept["properties"] = {name: _essence(document, one) for name, one in schema["properties"].items()}
    if "items" in schema:
        kept["items"] = _essence(document, schema["items"])
    return _merged(kept, [one for one in variants if one])


_TYPES = {str: "string", bool: "boolean", int: "integer"}


def _merged(kept: dict[str, Any], variants: list[dict[str, Any]]) -> dict[str, Any]:
    if not variants:
        return kept
    members: dict[str, Any] = dict(kept.get("properties", {}))
    for one in variants:
        for name, schema in one.get("properties", {}).items():
            members.setdefault(
                name, {key: value for key, value in schema.items() if key in ("type", "items", "properties")}
            )
    if members:
        kept["properties"] = members
        required = set.intersection(*(set(one.get("required", ())) for one in variants)) | set(kept.get("required", ()))
        kept["required"] = sorted(required)
        if all(one.get("closed") for one in variants):
            kept["closed"] = True
    if types := sorted({kind for one in variants for kind in one.get("type", ())} | set(kept.get("type", ()))):
        kept["type"] = types
    return kept


def current() -> dict[str, Any]:
    """Return what the comparison reads of the documents of `paydesk serve`."""
    from paydesk.platform.http.openapi.documents import DOCUMENTS
    from paydesk.service.api import OWN

    return {
        name: row for document in DOCUMENTS for name, row in released(json.loads(OWN.openapi_json(document))).items()
    }


def as_text(kept: dict[str, Any]) -> str:
    """Return the file of a release: an operation a line."""
    lines = (f" {json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}" for name, row in kept.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    (FOLDER / f"released-{__version__}.json").write_text(as_text(current()))
