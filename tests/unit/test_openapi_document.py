"""The OpenAPI document: what a row of the interface table becomes."""

from __future__ import annotations

from typing import Any, Literal

import jsonschema_rs
import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field

from described import resolved
from every_operation import OPERATIONS
from paydesk.core.errors import BODY_FAULTS, ErrorKind
from paydesk.core.response import Response
from paydesk.core.text import characters as text
from paydesk.platform.http.openapi import document as openapi
from paydesk.platform.http.openapi.documents import described
from paydesk.platform.operation import Answer, Call, Operation, Query
from tables import each

TAKEN = ErrorKind("seat_taken", 409, "The seat is taken.")
THROTTLED = ErrorKind("local_rate_limited", 429, "Too many calls.")


class Seat(BaseModel):
    """A place."""

    model_config = ConfigDict(extra="forbid", strict=True)

    row: str = Field(pattern="^[A-Z]$", examples=["C"])
    number: int = Field(ge=1)


class Booking(BaseModel):
    """A request with what requests have: a nested object, a choice, an optional field."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["adult", "child"]
    seats: list[Seat] = Field(min_length=1)
    note: str | None = None


class Booked(Response, frozen=True):
    """An answer."""

    id: str


async def nothing(_: Call) -> Answer:
    """Answer nothing."""
    return Answer(204)


BOOK = Operation(
    "POST",
    "/v1/bookings",
    "book",
    "application",
    nothing,
    "Book a seat",
    status=201,
    answer=Booked,
    example=Booked("B1"),
    scope="write",
    body=Booking,
    idempotent=True,
    errors=(TAKEN,),
)
UNBOOK = Operation(
    "DELETE",
    "/v1/bookings/{booking_id}",
    "unbook",
    "operator",
    nothing,
    "Give a seat back",
    status=204,
    path_pattern="B[0-9]+",
    query=(Query("reason", {"type": "string"}, "Why."),),
    headers=(Query("X-Loud", {"type": "string"}, "Whether it is said aloud.", required=True),),
    development=True,
)
MINT = Operation("POST", "/oauth/seat", "mint", "token", nothing, "Mint", body=Booking, errors=(THROTTLED,))
ROWS = (BOOK, UNBOOK, MINT)


@pytest.fixture(scope="module")
def document() -> Any:
    """The document of the rows above."""
    return openapi.document(ROWS)


def test_it_is_openapi_3_1(document: Any) -> None:
    """The document satisfies the meta-schema of each schema in it, and says its version."""
    assert document["openapi"] == "3.1.0"
    for schema in document["components"]["schemas"].values():
        assert jsonschema_rs.meta.is_valid({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def test_every_reference_resolves(document: Any) -> None:
    """No reference dangles, and an answer is one."""

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                assert resolved(document, value) is not None
            for child in value.values():
                walk(child)
        elif isinstance(value, list):
            for child in value:
                walk(child)

    walk(document)
    answer = document["paths"]["/v1/bookings"]["post"]["responses"]["201"]["content"]["application/json"]
    assert answer["schema"] == {"$ref": "#/components/schemas/Booked"}
    assert resolved(document, answer["schema"]) == {
        "description": "An answer.",
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": "string"}},
    }


def test_an_idempotent_operation_requires_the_key(document: Any) -> None:
    """The key is a required header with its bounds, and a header marks a replay."""
    described = document["paths"]["/v1/bookings"]["post"]
    (key,) = (resolved(document, one) for one in described["parameters"])
    assert (key["name"], key["in"], key["required"], key["schema"]["maxLength"]) == (
        "X-Idempotency-Key",
        "header",
        True,
        64,
    )
    assert "x-idempotent-replayed" in described["responses"]["201"]["headers"]


def test_the_security_requirement_has_the_scope(document: Any) -> None:
    """An application's operation names its scope, an operator's its own credential, the token endpoint none."""
    assert document["paths"]["/v1/bookings"]["post"]["security"] == [{"application": ["write"]}]
    assert document["paths"]["/v1/bookings/{booking_id}"]["delete"]["security"] == [{"operator": []}]
    assert document["paths"]["/oauth/seat"]["post"]["security"] == []


def test_parameters_of_path_query_and_header(document: Any) -> None:
    """A path parameter has its pattern, and a row's own parameters stand where they belong."""
    described = document["paths"]["/v1/bookings/{booking_id}"]["delete"]
    assert [(one["name"], one["in"], one.get("required", False)) for one in described["parameters"]] == [
        ("booking_id", "path", True),
        ("reason", "query", False),
        ("X-Loud", "header", True),
    ]
    assert described["parameters"][0]["schema"]["pattern"] == "^B[0-9]+$"
    assert described["x-development"] is True


def test_204_has_no_content(document: Any) -> None:
    """An answer 204 describes no body."""
    assert "content" not in document["paths"]["/v1/bookings/{booking_id}"]["delete"]["responses"]["204"]


def test_requests_do_not_allow_null(document: Any) -> None:
    """An optional field may be left out; its schema lets no null through, because the service refuses it."""
    schema = resolved(document, document["components"]["schemas"]["Booking"])
    assert schema["properties"]["note"] == {"type": "string", "pattern": text.ascii_pattern(text.PATTERN)}


def test_the_example_of_a_request_is_one_the_model_accepts(document: Any) -> None:
    """The example has what is required, and only stands there because the model takes it."""
    example = document["paths"]["/v1/bookings"]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert example == {"kind": "adult", "seats": [{"row": "C", "number": 1}]}


def test_every_declared_error_has_an_example_in_its_shape(document: Any) -> None:
    """Each error stands under its status with an example: flat on the token surface, a list elsewhere."""
    for row in ROWS:
        responses = document["paths"][openapi.path_template(row)][row.method.lower()]["responses"]
        for kind in openapi.errors_in_order(row):
            content = resolved(document, responses[str(kind.status)])["content"]["application/json"]
            body = resolved(document, content["examples"][kind.code])["value"]
            jsonschema_rs.validate({"components": document["components"], **content["schema"]}, body)
            assert (body["error"], body["status"]) == (kind.code, kind.status)
            assert ("errors" in body) == (row.surface != "token")
            if kind in BODY_FAULTS:
                assert body["errors"][0]["details"]


def test_a_created_object_links_to_its_operations() -> None:
    """An order leads to its own operations by its id, an application to those by client_id; all of them exist."""
    documents = [described(name, OPERATIONS) for name in ("applications", "operators")]
    document = {"components": {"parameters": {**documents[0]["components"]["parameters"]}}}
    operations = {
        one["operationId"]: one
        for one_document in documents
        for path in one_document["paths"].values()
        for one in path.values()
    }
    links = {name: one["responses"].get("201", {}).get("links", {}) for name, one in operations.items()}
    assert {"get_order", "cancel_order"} <= set(links["create_order"])
    assert links["create_order"]["get_order"]["parameters"] == {"order_id": "$response.body#/id"}
    of_application = links["operator_create_applications"]["operator_get_application"]
    assert of_application["parameters"] == {"client_id": "$response.body#/client_id"}
    for link in (link for of_one in links.values() for link in of_one.values()):
        given = (resolved(document, one) for one in operations[link["operationId"]]["parameters"])
        parameters = {one["name"] for one in given if one["in"] == "path"}
        assert set(link["parameters"]) == parameters


@each("operation", [row for row in OPERATIONS if row.example is not None and row.answer], ids=lambda row: row.name)
def test_the_example_of_an_answer_is_one(operation: Operation) -> None:
    """What the document shows as an answer has the shape that the document says answers have."""
    schema = openapi.answer_schema(operation)
    jsonschema_rs.validator_for(schema, validate_formats=True).validate(msgspec.to_builtins(operation.example))


def test_headers_of_errors(document: Any) -> None:
    """401 says which credential is wanted, 429 how long to wait."""
    unauthorized = document["paths"]["/v1/bookings"]["post"]["responses"]["401"]
    throttled = document["paths"]["/oauth/seat"]["post"]["responses"]["429"]
    assert "www-authenticate" in resolved(document, unauthorized)["headers"]
    assert "retry-after" in resolved(document, throttled)["headers"]


def test_errors_are_in_the_order_of_the_checks() -> None:
    """The adapter's checks come first, then the operation's own; what may strike at any time comes last."""
    codes = [kind.code for kind in openapi.errors_in_order(BOOK)]
    assert codes.index("unauthorized") < codes.index("empty_required_header") < codes.index("seat_taken")
    assert codes[-2:] == ["internal_error", "service_unavailable"]


def test_the_token_surface_takes_forms_too(document: Any) -> None:
    """The description says so: of two media types some generators make code that is invalid."""
    token, booking = document["paths"]["/oauth/seat"]["post"], document["paths"]["/v1/bookings"]["post"]
    assert list(token["requestBody"]["content"]) == ["application/json"]
    assert "`application/x-www-form-urlencoded`" in token["description"]
    assert "form" not in booking["description"]


def test_every_operation_has_a_name_of_its_own() -> None:
    """Names are the document's operationIds, and idempotency keys are kept under them."""
    names = [operation.name for operation in OPERATIONS]
    assert len(set(names)) == len(names)
