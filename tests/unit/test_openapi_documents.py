"""The four OpenAPI documents as input of tools: names, schemas, patterns, examples, and what is in which."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from conftest import skip_unless_ci
from described import resolved
from every_operation import API
from paydesk.platform.http.openapi import documents
from paydesk.platform.http.openapi.documents import DOCUMENTS
from paydesk.platform.http.openapi.named_schemas import AT
from paydesk.service.api import OWN
from paydesk.service.serve import CLIENT_SURFACES, OPERATOR_SURFACES
from tables import each

NAMES = tuple(name for name in DOCUMENTS if any(documents.name_of(row) == name for row in API.documented))
IDS = Path(__file__).with_name("operation_ids.json")
BYTES_MAX = 150_000
METHODS = {"get", "post", "put", "patch", "delete"}
IN_SCHEMAS = ("items", "additionalProperties", "not")


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """Each document as it is served."""
    return {name: json.loads(API.openapi_json(name)) for name in NAMES}


def operations(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield each operation and each notification with its place."""
    for part in ("paths", "webhooks"):
        for path, methods in document[part].items():
            yield from ((f"{method} {path}", row) for method, row in methods.items() if method in METHODS)


def places(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value in the document with its place."""
    yield place, value
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield from places(child, f"{place}/{key}")


def schemas(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield each schema and each part of one with its place."""
    for place, value in places({key: document[key] for key in ("paths", "webhooks", "components")}):
        if isinstance(value, dict) and "schema" in value and not place.endswith(("/properties", "/value")):
            yield from _parts(value["schema"], f"{place}/schema")
    for name, schema in document["components"]["schemas"].items():
        yield from _parts(schema, name)


def _parts(schema: Any, place: str) -> Iterator[tuple[str, Any]]:
    yield place, schema
    if isinstance(schema, dict):
        children = [(key, schema[key]) for key in IN_SCHEMAS if key in schema]
        children += [(name, child) for name, child in schema.get("properties", {}).items()]
        children += [(key, child) for key in ("anyOf", "oneOf", "allOf") for child in schema.get(key, ())]
        for key, child in children:
            yield from _parts(child, f"{place}/{key}")


def shape(schema: Any) -> Any:
    """Return the schema without what is for people."""
    if isinstance(schema, list):
        return [shape(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    for_people = {key for key in ("description", "examples") if not isinstance(schema.get(key), dict)}
    return {key: shape(value) for key, value in schema.items() if key not in for_people}


def test_no_schema_is_named_after_a_module(described: Any) -> None:
    """Two classes of one name would be, and clients are generated with these names."""
    names = {name for document in described.values() for name in document["components"]["schemas"]}
    assert [name for name in names if not re.fullmatch("[A-Z][A-Za-z]*", name)] == []
    assert {"Order", "Payment", "Refund", "Terminal", "Token", "Event", "Error"} <= names


@each("name", NAMES)
def test_equal_shapes_have_one_name(described: Any, name: str) -> None:
    """A generator makes one class of them."""
    by_shape = defaultdict(list)
    for one, schema in described[name]["components"]["schemas"].items():
        by_shape[json.dumps(shape(schema), sort_keys=True)].append(one)
    assert [names for names in by_shape.values() if len(names) > 1] == []


def test_a_name_is_the_same_object_in_every_document(described: Any) -> None:
    """Clients of two documents share its class."""
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for document in described.values():
        for one, schema in document["components"]["schemas"].items():
            if schema not in found[one]:
                found[one].append(schema)
    assert [one for one, different in found.items() if len(different) > 1] == []


@each("name", NAMES)
def test_every_json_body_is_a_named_schema(described: Any, name: str) -> None:
    """Of requests and of answers; only a body that may be anything has none."""
    unnamed = {
        f"{place} {part}"
        for place, row in operations(described[name])
        for part, one in (("request", row.get("requestBody", {})), *row["responses"].items())
        for media_type, content in resolved(described[name], one).get("content", {}).items()
        if media_type == "application/json"
        and not {"$ref", "allOf"} & content["schema"].keys()
        and content["schema"].get("additionalProperties") != {}
    }
    assert unnamed == set()


@each("name", NAMES)
def test_no_schema_is_empty_or_a_boolean(described: Any, name: str) -> None:
    """Of what may be anything there is a description, and an object without members says that it may have any."""
    faults = []
    for place, schema in schemas(described[name]):
        if place.endswith("/additionalProperties") and schema in (False, {}):
            continue
        if place.endswith("/not") and schema == {}:
            continue
        bare = isinstance(schema, dict) and schema.get("type") == "object" and len(schema.keys() - {"description"}) == 1
        if schema in ({}, True, False) or bare:
            faults.append(place)
        if isinstance(schema, dict) and "default" in schema and not place.endswith("/schema"):
            faults.append(f"{place}: generators take a member with a default for a required one")
    assert faults == []


@each("name", NAMES)
def test_patterns_are_ascii_and_valid_in_ecmascript(described: Any, name: str) -> None:
    """With the flag u and without it, so that generated code compiles."""
    if (node := shutil.which("node")) is None:
        skip_unless_ci("node is missing")
    patterns = sorted(
        {one["pattern"] for _, one in schemas(described[name]) if isinstance(one, dict) and "pattern" in one}
    )
    assert [one for one in patterns if not one.isascii()] == []
    program = "for (const one of JSON.parse(process.argv[1])) { new RegExp(one); new RegExp(one, 'u') }"
    checked = subprocess.run([node, "-e", program, json.dumps(patterns)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


@each("name", NAMES)
def test_every_operation_has_a_description(described: Any, name: str) -> None:
    """More than its summary where there is more to say; each tag and parameter has one too."""
    for place, row in operations(described[name]):
        assert row["summary"], place
        assert row["description"].endswith((".", ")")), place
    assert all(tag["description"] for tag in described[name]["tags"])
    assert described[name]["servers"]


@each("name", NAMES)
def test_every_example_satisfies_its_schema(described: Any, name: str) -> None:
    """Of requests, answers, errors, parameters, and within schemas; each parameter of a path has one."""
    document, faults = described[name], []
    components = {"components": document["components"]}
    for place, value in places({key: document[key] for key in ("paths", "webhooks", "components")}):
        if not isinstance(value, dict) or not isinstance(value.get("schema"), dict):
            continue
        given = [value["example"]] if "example" in value else []
        given += [resolved(document, one)["value"] for one in value.get("examples", {}).values()]
        validator = jsonschema_rs.validator_for({**components, **value["schema"]}, validate_formats=True)
        faults += [f"{place}: {fault}" for one in given for fault in validator.iter_errors(one)]
        if value.get("in") == "path" and not given:
            faults.append(f"{place}: no example")
    for place, schema in schemas(document):
        if isinstance(schema, dict) and isinstance(schema.get("examples"), list):
            validator = jsonschema_rs.validator_for({**components, **schema}, validate_formats=True)
            faults += [f"{place}: {fault}" for one in schema["examples"] for fault in validator.iter_errors(one)]
    assert faults == []


def test_rules_that_a_schema_can_say(described: Any) -> None:
    """An amount above zero, no terminal twice, and of each grant type its own parameters."""
    named = described["applications"]["components"]["schemas"]
    amount = jsonschema_rs.validator_for(named["RefundPartRequest"]["properties"]["amount"])
    assert [one for one in ("0", "0.00", "5", "0.01", "24.90", "1.999") if amount.is_valid(one)] == [
        "5",
        "0.01",
        "24.90",
    ]
    assert named["SetupRequest"]["properties"]["terminals"]["uniqueItems"] is True
    token = jsonschema_rs.validator_for(named["TokenRequest"])
    client = {"client_id": "1", "client_secret": "s"}
    refresh = {**client, "grant_type": "refresh_token", "refresh_token": "TG-1"}
    code = {**client, "grant_type": "authorization_code", "code": "TG-1", "redirect_uri": "https://till.example"}
    assert token.is_valid(refresh)
    assert token.is_valid(code)
    assert not token.is_valid({**code, "refresh_token": "TG-1"})
    assert not token.is_valid({**client, "grant_type": "client_credentials"})


def test_documents_of_production_have_nothing_of_development() -> None:
    """No operation, and no document."""
    for name in DOCUMENTS:
        document = json.loads(OWN.openapi_json(name))
        assert not re.search("x-development|/dev/|/demo/|/virtual/", json.dumps(document["paths"]))
        assert bool(document["paths"]) is (name != "development")
    assert "/openapi/development.json" not in {row.path for row in OWN.operations}


def test_the_operators_document_is_at_their_listener_alone() -> None:
    """The others are at that of clients."""
    (operators,) = (row for row in OWN.operations if row.path == "/openapi/operators.json")
    assert operators.surface in OPERATOR_SURFACES
    assert operators.surface not in CLIENT_SURFACES
    assert all(
        row.surface in CLIENT_SURFACES
        for row in OWN.operations
        if row.path in ("/openapi.json", "/openapi/terminals.json")
    )


def test_pages_are_in_no_document(described: Any) -> None:
    """A document is for programs."""
    assert all('"text/html' not in json.dumps(document["paths"]) for document in described.values())


def test_every_operation_for_programs_is_in_one_document(described: Any) -> None:
    """Only documents, pages and their assets are in none."""
    there = [row["operationId"] for document in described.values() for _, row in operations(document)]
    assert len(there) == len(set(there))
    beside = ("/docs", "/openapi", "/pages/assets/", "/demo/callback")
    missing = [row for row in API.documented if row.name not in there and not row.path.startswith(beside)]
    assert {row.surface for row in missing} == {"page"}


def test_the_document_of_applications_is_small() -> None:
    """As it is sent, uncompressed."""
    assert len(API.openapi_json(indent=None).encode()) < BYTES_MAX


def test_operation_ids_stay(described: Any) -> None:
    """Generated clients have functions of these names. A new one is added to the file; none is changed or removed."""
    assert {
        name: sorted(row["operationId"] for _, row in operations(one)) for name, one in described.items()
    } == json.loads(IDS.read_text())


def test_every_reference_to_a_schema_resolves(described: Any) -> None:
    """And each schema is used."""
    for document in described.values():
        used = {value for place, value in places(document) if place.endswith("/$ref") and value.startswith(AT)}
        assert used == {AT + name for name in document["components"]["schemas"]}
