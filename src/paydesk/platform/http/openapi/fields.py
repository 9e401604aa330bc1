"""JSON schemas for documentation: a request's fields as flat rows, and an example of its required fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from paydesk.core.text import characters as text

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field of a request: its path, its type, whether it is required, and its rules."""

    path: str
    type: str
    required: bool
    rules: str


def plain(schema: Any) -> Any:
    """Return the schema without pydantic's titles and without the nulls of optional fields, which are refused."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    noise = {"title"} if isinstance(schema.get("title"), str) else set()
    if schema.get("default", ...) is None:
        noise.add("default")
    schema = {key: value for key, value in schema.items() if key not in noise}
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        schema = choices[0] | {key: value for key, value in schema.items() if key != "anyOf"}
    return {key: plain(value) for key, value in schema.items()}


def rows_of(schema: Schema) -> tuple[FieldRow, ...]:
    """Return every field of the schema of an object in document order, including those in objects and arrays."""
    return tuple(_rows(schema, schema.get("$defs", {}), "", required=True))


def _rows(schema: Schema, named: Schema, path: str, *, required: bool) -> Iterator[FieldRow]:
    schema = _merged(schema, named)
    if schema.get("properties"):
        if path:
            yield FieldRow(path, "object", required, _rules(schema))
        needed = schema.get("required", ())
        for name, child in schema["properties"].items():
            yield from _rows(child, named, f"{path}.{name}" if path else name, required=name in needed)
    elif schema.get("type") == "array" and _resolved(schema["items"], named).get("properties"):
        yield from _rows(dict(schema["items"]), named, f"{path}[]", required=required)
    else:
        yield FieldRow(path, _type(schema, named), required, _rules(schema))


def _merged(schema: Schema, named: Schema) -> Schema:
    """Return the schema of an object with the members of what it refers to, of all its parts and of all variants."""
    schema = _resolved(schema, named)
    parts = [_merged(one, named) for one in schema.get("allOf", ())]
    variants = [_merged(one, named) for one in schema.get("oneOf", schema.get("anyOf", ()))]
    if not any("properties" in one for one in (*parts, *variants)):
        return schema
    members: dict[str, Any] = {}
    for part in (*parts, *variants, schema):
        for name, child in part.get("properties", {}).items():
            members[name] = _either(members[name], child) if name in members else child
    needed = {name for part in (*parts, schema) for name in part.get("required", ())}
    if variants:
        needed |= set.intersection(*(set(one.get("required", ())) for one in variants))
    return {"type": "object", "properties": members, "required": sorted(needed)}


def _either(one: Any, other: Any) -> Any:
    """Return the schema of a member that two parts or variants have: constants become a choice."""
    if not isinstance(other, Mapping) or "not" in other:
        return one  # The other variant has no such member.
    if not isinstance(one, Mapping) or "not" in one:
        return other
    if "const" in one and "const" in other and one["const"] != other["const"]:
        return {"enum": [one["const"], other["const"]]}
    if "enum" in one and "const" in other:
        return one if other["const"] in one["enum"] else {"enum": [*one["enum"], other["const"]]}
    return {**one, **other}


def _resolved(schema: Schema, named: Schema) -> Schema:
    reference = schema.get("$ref")
    return {**named[reference.rpartition("/")[2]], **schema} if reference else schema


def _type(schema: Schema, named: Schema) -> str:
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(_type(_resolved(choice, named), named) for choice in choices)
    if schema.get("type") == "array":
        return f"array of {_type(_resolved(schema['items'], named), named)}"
    if "type" not in schema:
        values = [schema["const"]] if "const" in schema else schema.get("enum", [None])
        return _TYPES.get(type(values[0]), "any")
    return str(schema["type"])


_TYPES: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer"}


_BOUNDS = (
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("exclusiveMinimum", "above {}"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("pattern", "`{}`"),
    ("default", "default `{}`"),
)


def _rules(schema: Schema) -> str:
    rules = [schema["description"].rstrip(".")] if schema.get("description") and "properties" not in schema else []
    if "const" in schema:
        rules.append(f"`{str(schema['const']).lower() if isinstance(schema['const'], bool) else schema['const']}`")
    if "enum" in schema:
        rules.append(", ".join(f"`{value}`" for value in schema["enum"]))
    if text.CONTROL_CLASS in schema.get("pattern", ""):
        # The pattern of forbidden characters is long and the same everywhere.
        schema = {key: value for key, value in schema.items() if key != "pattern"}
    values = {bound: str(value).lower() if isinstance(value, bool) else value for bound, value in schema.items()}
    rules += [phrase.format(values[bound]) for bound, phrase in _BOUNDS if values.get(bound) not in (None, "")]
    return "; ".join(rules).replace("at least 1 characters", "not empty")


def example(model: type[BaseModel]) -> Any:
    """Return a valid request of the required fields; without any, of the first one that says more than yes.

    None if the schema does not give one.
    """
    schema = plain(model.model_json_schema())
    named = schema.get("$defs", {})
    made = _example(schema, named)
    if made == {}:
        optional = ({name: _example(child, named)} for name, child in schema.get("properties", {}).items())
        made = next((one for one in optional if True not in one.values() and _is_valid(model, one)), made)
    return made if _is_valid(model, made) else None


def _is_valid(model: type[BaseModel], body: Any) -> bool:
    try:
        model.model_validate(body)
    except ValidationError:
        return False
    return True


def _example(schema: Schema, named: Schema) -> Any:
    schema = _resolved(schema, named)
    if "const" in schema:
        return schema["const"]
    for keyword in ("examples", "enum"):
        if schema.get(keyword):
            return schema[keyword][0]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return _example(choices[0], named)
    if schema.get("type") == "array":
        return [_example(schema["items"], named)]
    if schema.get("type") == "object":
        needed = schema.get("required", ())
        return {name: _example(child, named) for name, child in schema.get("properties", {}).items() if name in needed}
    return {"string": "text", "integer": 1, "number": 1, "boolean": True}.get(schema.get("type", ""))
