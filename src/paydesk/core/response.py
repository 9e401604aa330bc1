"""Responses as msgspec structs: one declaration gives the JSON, its schema and the field's documentation.

A field with the default None is omitted while it is None. A field that may be null and is always present has no
default. Constants have no default either, because defaults are omitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


Count = Annotated[int, Meta(ge=0)]
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""An RFC 3339 time, as `core.clock.rfc3339` formats it."""
JsonObject = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]
"""A JSON object that is stored as text."""
JsonArray = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "array"})]
"""A JSON array that is stored as text."""


def time_or_none(instant_ms: int | None) -> str | None:
    """Return the instant as a `Time`, or None."""
    return None if instant_ms is None else rfc3339(instant_ms)


def one_of(values: Iterable[str], description: str | None = None) -> Meta:
    """Return the annotation of a text that is one of `values`, documented in this order."""
    return Meta(description=description, extra_json_schema={"enum": list(values)})


def constant(value: str) -> Meta:
    """Return the annotation of a text that is always `value`."""
    return Meta(extra_json_schema={"const": value})


def encoded(body: Any) -> Meta:
    """Return the annotation of raw JSON that was encoded earlier: it has the schema of `body`."""
    return Meta(extra_json_schema=schema_of(body))


@cache
def schema_of(body: Any) -> dict[str, Any]:
    """Return the JSON schema of a response's type, without references."""
    (schema,), named = msgspec.json.schema_components([body], ref_template="{name}")
    found: dict[str, Any] = _inlined(schema, named)
    return found


def _inlined(schema: Any, named: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(item, named) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        # The title and the description of a struct are its name and docstring: for developers, not for clients.
        struct = {key: value for key, value in named[schema["$ref"]].items() if key not in ("title", "description")}
        schema = {**struct, **{key: value for key, value in schema.items() if key != "$ref"}}
    if schema.get("default", ...) is None:
        # Omitted while None, so it is never null.
        choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        return _inlined({**choices[0], **rest} if len(choices) == 1 else {"anyOf": choices, **rest}, named)
    if "enum" in schema:
        values = schema["enum"]
        fixed = {"const": values[0]} if len(values) == 1 else {"enum": values}
        return {**{key: value for key, value in schema.items() if key not in ("enum", "type")}, **fixed}
    return {key: _inlined(value, named) for key, value in schema.items()}
