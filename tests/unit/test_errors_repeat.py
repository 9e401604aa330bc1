"""When a request that got an error may be repeated with the same idempotency key: declared, described, published."""

from __future__ import annotations

import json
import re

from tools.docs import error_codes

from every_operation import API, DOCUMENTED
from paydesk.core import errors
from paydesk.platform.http.openapi import document as openapi

KINDS = {kind for row in DOCUMENTED for kind in openapi.errors_in_order(row)}
UNKNOWN = {"internal_error", "request_timeout", "resource_locked", "service_unavailable"}


def test_an_unknown_outcome_is_repeated_at_once() -> None:
    """Exactly the errors after which a request may have had its effect."""
    assert {kind.code for kind in KINDS if kind.repeat == "now"} == UNKNOWN


def test_a_limit_and_a_busy_terminal_are_repeated_later() -> None:
    """Every 429, and what keeps a sale of its terminal waiting."""
    later = {kind.code for kind in KINDS if kind.repeat == "later"}
    assert {kind.code for kind in KINDS if kind.status == 429} <= later
    assert {"already_queued_order_on_terminal", "refund_in_progress", "terminal_not_in_pdv_mode"} <= later


def test_a_wrong_request_is_never_repeated() -> None:
    """Neither a body or a token that is refused, nor a thing that does not exist, nor a key of another request."""
    wrong = {*errors.BODY_FAULTS, errors.UNAUTHORIZED, errors.IDEMPOTENCY_KEY_ALREADY_USED}
    wrong |= {kind for kind in KINDS if kind.status in (401, 403, 404, 410)}
    assert {kind.code for kind in wrong if kind.repeat != "never"} == set()


def test_every_error_of_the_document_has_it() -> None:
    """As `x-repeat` of its example."""
    examples = json.loads(API.openapi_json())["components"]["examples"]
    shown = {(one["value"]["error"], one["x-repeat"]) for one in examples.values() if "error" in one["value"]}
    assert shown <= {(kind.code, kind.repeat) for kind in KINDS}
    assert {code for code, _ in shown} >= {kind.code for kind in KINDS if kind.repeat == "now"}


def test_the_page_has_it_beside_every_error() -> None:
    """In the table of all errors."""
    rows = re.findall(r"^\| \d{3} (`.*?) \| (\w+) \|", error_codes.page_of_errors(), re.MULTILINE)
    shown = {(code, repeat) for codes, repeat in rows for code in re.findall(r"`(\w+)`", codes)}
    assert {(kind.code, kind.repeat) for kind in KINDS} <= shown
