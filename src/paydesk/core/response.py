"""Responses as msgspec structs: one declaration gives the JSON, its schema and the field's documentation.

A field with the default None is omitted while it is None. A field that may be null and is always present has no
default. Constants have no default either, because defaults are omitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta

from paydesk.core.clock import rfc3339


class Response(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The body of a response, or an object in one. Its fields are encoded in the order of their declaration.

    A struct with a required field after an optional one says `kw_only=True`; such fields follow those of subclasses.
    Responses have no reference cycles, so the garbage collector does not track them.
    """

    @classmethod
    def of(cls, source: object, **fields: Any) -> Self:
        """Return the response with these fields, and all others from the attributes of `source`.

        Names are the same, but a field `…_date` can also be made from an attribute `…_ms`. None counts as missing.
        """
        for name in cls.__struct_fields__:
            value = getattr(source, name, None)
            if value is None and name.endswith("_date"):
                value = time_or_none(getattr(source, f"{name.removesuffix('_date')}_ms", None))
            if value is not None:
                fields.setdefault(name, value)
        return cls(**fields)


class Closed(Response, frozen=True, forbid_unknown_fields=True):
    """A response whose schema excludes other fields."""


def named(columns: str, row: Sequence[Any]) -> SimpleNamespace:
    """Return a source for `Response.of`: the values of a row by the names of its columns, separated by spaces."""
    return SimpleNamespace(**dict(zip(columns.split(), row, strict=True)))


Schema = dict[str, Any]

Count = Annotated[int, Meta(ge=0)]
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""An RFC 3339 time, as `core.clock.rfc3339` formats it."""
JsonObject = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]
"""A JSON object that is stored as text."""


def time_or_none(instant_ms: int | None) -> str | None:
    """Return the instant as a `Time`, or None."""
    return None if instant_ms is None else rfc3339(instant_ms)


def one_of(values: Iterable[str], description: str | None = None) -> Meta:
    """Return the annotation of a text that is one of `values`, documented in this order."""
    return Meta(description=description, extra_json_schema={"enum": list(values)})


def constant(value: str) -> Meta:
    """Return the annotation of a text that is always `value`."""
    return Meta(extra_json_schema={"const": value})


_ENCODED = "$encoded"
_encoded_types: list[Any] = []
"""A schema refers to what is encoded in it by a position here."""
_NAME = re.compile(r"(?:.*\.)?(?:Page_(?P<item>\w+?)|(?P<one>\w+?))(?:Document|Answer)?_?")


def encoded(body: Any) -> Meta:
    """Return the annotation of raw JSON that was encoded earlier: it has the schema of `body`."""
    # Annotations are evaluated again with each look at their class.
    if body not in _encoded_types:
        _encoded_types.append(body)
    return Meta(extra_json_schema={_ENCODED: _encoded_types.index(body)})


def components(bodies: Iterable[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """Return the JSON schemas of these types, and by their names those of the objects to which they refer.

    The name of an object is its class's without `Document` and `Answer`, and of a page of them that and `List`.
    """
    types = list(bodies)
    count, numbers = len(types), list[int]()
    while True:
        schemas, found = msgspec.json.schema_components(types, ref_template="{name}")
        further = [number for number in _encoded([*schemas, found]) if number not in numbers]
        if not further:
            break
        numbers += dict.fromkeys(further)
        types = [*types[:count], *(_encoded_types[number] for number in numbers)]
    of_encoded = dict(zip(numbers, schemas[count:], strict=True))
    named = {_name(name): _present(schema, of_encoded) for name, schema in found.items()}
    assert len(named) == len(found), "two objects have one name"
    return [_present(schema, of_encoded) for schema in schemas[:count]], named


@cache
def schema_of(body: Any) -> Schema:
    """Return the JSON schema of a response's type, without references."""
    (schema,), named = components([body])
    found: Schema = _inlined(schema, named)
    return found


def _encoded(schema: Any) -> list[int]:
    """Return the positions of the types of what is encoded in the schema."""
    if isinstance(schema, list):
        return [one for item in schema for one in _encoded(item)]
    if not isinstance(schema, dict):
        return []
    return [one for key, value in schema.items() for one in ([value] if key == _ENCODED else _encoded(value))]


def _name(qualified: str) -> str:
    match = _NAME.fullmatch(qualified)
    assert match is not None
    return match["one"] or f"{match['item']}List"


def _present(schema: Any, of_encoded: Mapping[int, Schema]) -> Any:
    """Return the schema with its references by name, and with what clients see of optional fields and choices."""
    if isinstance(schema, list):
        return [_present(item, of_encoded) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if _ENCODED in schema:
        rest = {key: value for key, value in schema.items() if key not in (_ENCODED, "$ref")}
        return _present({**of_encoded[schema[_ENCODED]], **rest}, of_encoded)
    if "$ref" in schema:
        schema = {**schema, "$ref": _name(schema["$ref"].rpartition("/")[2])}
    if schema.get("default", ...) is None:
        # Omitted while None, so it is never null.
        choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        return _present({"anyOf": choices, **rest} if len(choices) > 1 else dict(*choices, **rest), of_encoded)
    if "enum" in schema:
        values = schema["enum"]
        fixed = {"const": values[0]} if len(values) == 1 else {"enum": values}
        return {**{key: value for key, value in schema.items() if key not in ("enum", "type")}, **fixed}
    # The title of a struct is the name of its class: for developers, not for clients.
    titles = {"title"} if isinstance(schema.get("title"), str) else set()
    return {key: _present(value, of_encoded) for key, value in schema.items() if key not in titles}


def _inlined(schema: Any, named: dict[str, Schema]) -> Any:
    if isinstance(schema, list):
        return [_inlined(item, named) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        struct = {key: value for key, value in named[schema["$ref"]].items() if key != "description"}
        schema = {**struct, **{key: value for key, value in schema.items() if key != "$ref"}}
    return {key: _inlined(value, named) for key, value in schema.items()}
