"""Compare an OpenAPI document with facts about another one: names, types, enumerations and what requests require.

Facts are trees. An operation, and each object in it, is a dictionary of its fields; `[]` is an item of an array, and
`required` the names that a request must have, in all its forms or in one. A field is a text with its types, or the
values of an enumeration, or the name of another tree. An object whose fields are not described is the text `object`.

`vendor_facts.json` has the facts of the vendor's OpenAPI description of 2026-06-24, revision f224df3 (Apache-2.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FACTS = json.loads(Path(__file__).with_name("vendor_facts.json").read_text("utf-8"))
_REQUIRED = "required"

Difference = tuple[str, str, str]
"""Where, and a word that is only in the facts, or else one that is only in the document."""


def differences(facts: dict[str, Any], document: Any) -> set[Difference]:
    """Return what differs in the operations of the facts: names and values one by one."""
    rows = {
        _anonymous(f"{method.upper()} {path}"): row
        for path, methods in document["paths"].items()
        for method, row in methods.items()
    }
    found: set[Difference] = set()
    for name, tree in facts.items():
        if row := rows.get(_anonymous(name)):
            _compare(name, tree, operation_tree(document, row), facts, found)
        elif "/" in name:
            found.add((name, "operation", ""))
    return found


def operation_tree(document: Any, row: Any) -> dict[str, Any]:
    """Return the operation as a tree of its statuses, parameters and request, and of the first answer and error."""
    parameters = [resolved(document, one) for one in row.get("parameters", ())]
    parameters = [one for one in parameters if one["in"] != "path"]
    tree: dict[str, Any] = {
        "statuses": " ".join(sorted(row["responses"])),
        "parameters": {one["name"]: _tree(document, one["schema"]) for one in parameters}
        | _requires(one["name"] for one in parameters if one.get("required")),
    }
    if "requestBody" in row:
        tree["request"] = _tree(document, _schema(row["requestBody"]), in_request=True)
    for status, response in sorted(row["responses"].items()):
        if schema := _schema(resolved(document, response)):
            tree.setdefault("answer" if status < "300" else "error", _tree(document, schema))
    return tree


def _compare(where: str, theirs: Any, ours: Any, facts: dict[str, Any], found: set[Difference]) -> None:
    if isinstance(theirs, str) and theirs in facts:
        where, theirs = theirs, facts[theirs]
    there, here = _words(theirs, ours), _words(ours, theirs)
    found.update((where, word, "") for word in there - here)
    found.update((where, "", word) for word in here - there)
    if isinstance(theirs, dict) and isinstance(ours, dict):
        # What the facts have directly may be in an envelope `data`: only the envelope is a difference then.
        within = ours["data"] | ours if isinstance(ours.get("data"), dict) else ours
        for name in (theirs.keys() & within.keys()) | ({_REQUIRED} & (theirs.keys() | ours.keys())):
            below = (
                f"{where}{name}" if name == "[]" else f"{where}{' ' if where in facts and '/' in where else '.'}{name}"
            )
            _compare(below, theirs.get(name, ""), within.get(name, ""), facts, found)


def _words(tree: Any, other: Any) -> set[str]:
    """Return the types and values, and the names of fields if the other tree has any."""
    if isinstance(tree, str):
        return set(tree.split())
    return ({"array"} if "[]" in tree else {"object"}) | (
        tree.keys() - {"[]", _REQUIRED} if isinstance(other, dict) else set()
    )


def _anonymous(name: str) -> str:
    """Return the name of an operation without those of its path parameters, which are never sent."""
    return re.sub(r"\{\w+\}", "{}", name)


def resolved(document: Any, described: Any) -> Any:
    """Return what is described, or what its reference leads to."""
    while "$ref" in described:
        target = document
        for step in described["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        described = target
    return described


def _schema(described: Any) -> Any:
    return described.get("content", {}).get("application/json", {}).get("schema")


def _requires(names: Iterable[str]) -> dict[str, str]:
    return {_REQUIRED: text} if (text := " ".join(names)) else {}


def _merged(trees: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the tree of an object in several forms."""
    merged = {name: tree[name] for tree in reversed(trees) for name in tree}
    for name in merged:
        of_each = [tree[name] for tree in trees if name in tree]
        if all(isinstance(one, str) for one in of_each):
            merged[name] = " ".join(dict.fromkeys(" ".join(of_each).split()))
    return merged


def _tree(document: Any, schema: Any, *, in_request: bool = False) -> Any:
    schema = resolved(document, schema)
    if "items" in schema:
        return {"[]": _tree(document, schema["items"], in_request=in_request)}
    if fields := schema.get("properties"):
        tree = {name: _tree(document, one, in_request=in_request) for name, one in fields.items()}
        forms = (schema, *schema.get("oneOf", ())) if in_request else ()
        return tree | _requires(name for form in forms for name in form.get("required", ()))
    if variants := schema.get("anyOf") or schema.get("oneOf"):
        trees = [_tree(document, one, in_request=in_request) for one in variants]
        return _merged(trees) if isinstance(trees[0], dict) else " ".join(trees)
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return " ".join(values) or schema.get("type", "any")
