"""Faults of a body: in document order, at most 50, with paths of limited length; and forbidden characters."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from paydesk.core.errors import Fault
from paydesk.core.text import characters as text
from paydesk.engine.device.schemas import HelloRequest
from paydesk.engine.orders.schemas import OrderRequest
from paydesk.platform.http.validation import (
    _OTHER_BYTES,
    FAULTS_MAX,
    LOGGED_FAULTS_MAX,
    PATH_CHARACTERS_MAX,
    json_path,
    refused,
    validate,
)

BOOT_ID = "0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51"
LEASE = {"lease_id": "01J67CQQH5904WDBVZEM4JMEP3"}


def found(document: Any, model: Any = HelloRequest) -> list[Fault]:
    """The faults of the document."""
    return validate(model, document, json.dumps(document, ensure_ascii=False).encode(), {"currency": "BRL"})[1]


def paths(document: Any, model: Any = HelloRequest) -> list[str]:
    """The paths of the faults of the document."""
    return [fault.detail.split("'")[1] for fault in found(document, model)]


def test_faults_of_every_kind_are_in_document_order() -> None:
    """Unknown, missing, null, of another type, with a forbidden character: sorted together, the missing ones last."""
    document = {
        "zzz": 1,
        "journal": [
            {**LEASE, "b": 1, "last_step": "\u200b", "a": None},
            {"c": [1, {"d": None}], "result": {"x": {"y": "\x00"}}},
            {},
            {**LEASE, "last_step": 7},
        ],
        "app_version": "\ufeff",
    }
    assert paths(document) == [
        "$.zzz",
        "$.journal[0].b",
        "$.journal[0].last_step",
        "$.journal[0].a",
        "$.journal[1].c",
        "$.journal[1].c[1].d",
        "$.journal[1].result.x.y",
        "$.journal[1].lease_id",
        "$.journal[2]",
        "$.journal[3].last_step",
        "$.app_version",
        "$.boot_id",
    ]


def test_of_many_faults_the_first_fifty_are_listed() -> None:
    """Unknown fields, which the model finds, and nulls, which the walk through the document finds."""
    unknown = [{**LEASE, **{f"k{number}": 1 for number in range(9)}, "last_step": None} for _ in range(90)]
    listed = paths({"boot_id": BOOT_ID, "journal": unknown})
    expected = [
        f"$.journal[{entry}].{name}" for entry in range(5) for name in (*(f"k{n}" for n in range(9)), "last_step")
    ]
    assert listed == expected
    assert len(listed) == FAULTS_MAX


def test_a_null_or_a_forbidden_character_replaces_the_model_s_fault() -> None:
    """Each field has one fault."""
    (fault,) = found({"boot_id": None})
    assert (fault.kind.code, fault.detail) == ("property_type", "'$.boot_id' - must not be null")
    (fault,) = found({"boot_id": f"{BOOT_ID}\u2029"})
    assert (fault.kind.code, fault.detail) == ("property_value", f"'$.boot_id' - {text.RULE}")


@pytest.mark.parametrize("joiner", ["\u200c", "\u200d"])
def test_joiners_are_allowed(joiner: str) -> None:
    """Emoji of several characters have one."""
    order = {
        "type": "point",
        "description": f"a{joiner}b",
        "transactions": {"payments": [{"amount": "1.00"}]},
        "config": {"point": {"terminal_id": "T"}},
    }
    assert found(order, OrderRequest) == []


def test_every_forbidden_character_triggers_the_walk() -> None:
    """In UTF-8 and as an escape each has a byte that starts the walk through the document."""
    for point in range(sys.maxunicode + 1):
        character = chr(point)
        if not 0xD800 <= point <= 0xDFFF and text.has_forbidden(character):
            assert character.encode().translate(None, _OTHER_BYTES) or point < 0x20, hex(point)
            assert json.dumps(character).encode().translate(None, _OTHER_BYTES) or point == 0x7F, hex(point)


def test_a_path_has_a_bounded_length() -> None:
    """At most 300 characters, however long the keys and their escapes are and however deep they are nested."""
    document: Any = [None] * 60
    for _ in range(20):
        document = {"\U0001f600" * 64: document}
    faults = found(document)
    assert len(faults) == FAULTS_MAX
    assert max(len(fault.detail) for fault in faults) < PATH_CHARACTERS_MAX + 100
    assert json_path(("a", 0, "b c")) == '$.a[0]["b c"]'
    assert json_path(("k" * 65,)) == f'$["{"k" * 64}"]'


def test_the_reason_for_the_log_has_five_faults() -> None:
    """A log line has a limited length however many faults the body has."""
    faults = found({f"k{number}": 1 for number in range(60)})
    refusal = refused(faults)
    assert len(refusal.faults) == FAULTS_MAX
    assert refusal.reason.count(";") == LOGGED_FAULTS_MAX
    assert refusal.reason.endswith("; and 45 more")
    assert refused(faults[:1]).reason == "'$.k0' - is not known here"
