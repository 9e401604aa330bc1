"""What Schemathesis needs beside the document: existing accounts, and rules that a schema cannot express.

It is loaded by Schemathesis itself, in a process of its own; `known.json` in its folder says who exists.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis.openapi.checks import RejectedPositiveData

KNOWN = json.loads(Path("known.json").read_text())
TERMINALS = itertools.cycle(KNOWN["terminals"])

# How the details of a refusal begin or go on that a request may get which the schema allows: anywhere, by operation.
UNDOCUMENTED_ANYWHERE = (
    "must be a valid integer",  # JSON Schema counts 4.0 among the integers; here it is none.
    "must be the `next` of",  # What it has to be is the service's secret.
    "must not contain control characters or invisible characters",  # Patterns say it up to U+FFFF.
)
AMOUNT = ("must be a decimal string",)  # More decimals than the seller's currency has.
ADDRESS = ("must be", "must not", "must name", "must have a host")  # What an address may be is a page of rules.
OTHER_STORE = "the store of the point of sale"
OF_ORDERS = ("'status' - must be one of", "must be an e-mail address", "must not be sent with status", "must be a date")
UNDOCUMENTED_DETAILS: dict[str, tuple[str, ...]] = {
    "create_order": (
        *AMOUNT,
        "must not contain a card number",
        "is only for the default_type credit_card",
        "must be 1, as the type is not credit_card",
        "from PT30S to PT3H",
    ),
    # What the content may be depends on the subtype, and is a grammar or a format.
    "create_action": ("'$.content' - must", "'$.content' - the tag", "'$.content' - the {"),
    "refund_order": AMOUNT,
    "simulate_order": (
        "with this status",
        "is only for the statuses processed and failed",
        "is only for the payment_method_type credit_card",
    ),
    "search_orders": (
        "must not be sent with page or page_size",
        "must be a date",
        "must not be before begin_date",
        "must be at most one month before end_date",
        "'status' - must be one of",  # Extended statuses add two.
    ),
    "operator_list_orders": OF_ORDERS,
    "operator_export_orders": OF_ORDERS,
    "operator_list_requests": ("must be an order's id",),
    "operator_list_deliveries": ("must be a date",),
    "operator_replay_deliveries": ("must be a date",),
    "setup_terminals": ("is named before",),
    # Whatever was written down.
    "device_hello": ("must not contain control characters", "must not be null", "must have at most 20 digits"),
    "device_authorize": ("must be base64",),
    "acquirer_authorize": ("must be an amount of",),
    "create_scene": (*ADDRESS, "is required with the country"),
    "clock_move": ("at most ten years", "must not lead beyond"),
    "operator_create_applications": (*ADDRESS, "separated by single spaces"),
    "operator_change_application": (*ADDRESS, "separated by single spaces"),
    "operator_create_subscriptions": ADDRESS,
    "operator_create_operator_subscription": ADDRESS,
    "operator_change_subscription": (*ADDRESS, "must have"),
    "operator_create_codes": ("separated by single spaces", "must be within", "must come with", *ADDRESS),
    "operator_create_secret": ("at most 90d",),
    "operator_change_terminal": ("'$.script' - must", "must have each percentage once", OTHER_STORE),
    "operator_approve_pairing": (OTHER_STORE,),
    # What is said of a payment depends on the outcome.
    "operator_resolve_order": ("must not contain a card number", "must not have", "must have"),
    "operator_resolve_refund": ("must not contain a card number", "must not have"),
}
# Refusals with a code of their own: what is presented isn't good, or doesn't fit what there is.
UNDOCUMENTED_CODES = {
    "create_token": {"invalid_client", "invalid_grant", "invalid_scope"},
    "revoke_token": {"invalid_client"},
    "introspect_token": {"invalid_client", "forbidden"},  # Earlier steps may have suspended the application.
    "device_pairing_token": {"authorization_pending", "slow_down", "expired_token", "access_denied"},
    "simulate_order": {"bad_request"},
    "setup_terminals": {"precondition_failed"},
    "refund_order": {"refund_amount_exceeds"},
    "read_events": {"events_no_longer_kept"},
}


@schemathesis.hook
def before_call(context: Any, case: Any, _kwargs: Any) -> None:
    """A valid request comes from an existing caller and is about an existing object."""
    name = _operation_id(context.operation)
    if case.meta is None or not case.meta.generation.mode.is_positive or not isinstance(case.body, dict):
        return
    for field, value in KNOWN["bodies"].get(name, {}).items():
        if case.body.get(field):
            case.body[field] = value
    if name in MADE_TO_FIT:
        MADE_TO_FIT[name](case.body)


def _order(body: Any) -> None:
    body["config"]["point"]["terminal_id"] = next(TERMINALS)
    if "total_amount" in body:
        body["total_amount"] = body["transactions"]["payments"][0]["amount"]
    if "currency" in body:
        body["currency"] = "BRL"


def _refund(body: Any) -> None:
    for part in body.get("transactions", ()):
        part["id"] = KNOWN["payment_id"]


def _setup(body: Any) -> None:
    body["terminals"] = [{**one, "id": next(TERMINALS)} for one in body["terminals"][: len(KNOWN["terminals"])]]


def _action(body: Any) -> None:
    body["config"]["point"]["terminal_id"] = next(TERMINALS)


MADE_TO_FIT = {"create_order": _order, "create_action": _action, "refund_order": _refund, "setup_terminals": _setup}


@schemathesis.hook
def filter_failure(context: Any, failure: Any, _case: Any, response: Any) -> bool:
    """A request that the schema allows may be refused only for a rule that a schema cannot express."""
    return not (
        isinstance(failure, RejectedPositiveData) and _is_undocumented(_operation_id(context.operation), response)
    )


def _is_undocumented(name: str, response: Any) -> bool:
    if not response.headers["content-type"][0].startswith("application/json"):
        return False
    answer = response.json()
    if answer["error"] in UNDOCUMENTED_CODES.get(name, ()):
        return True
    details = [detail for error in answer.get("errors", ()) for detail in error["details"]]
    rules = (*UNDOCUMENTED_ANYWHERE, *UNDOCUMENTED_DETAILS.get(name, ()))
    return bool(details) and all(any(re.search(re.escape(rule), detail) for rule in rules) for detail in details)


def _operation_id(operation: Any) -> str:
    name: str = operation.definition.raw["operationId"]
    return name
