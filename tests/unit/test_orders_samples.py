"""Sample notifications: complete, valid and reproducible for every action."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from paydesk.core.response import schema_of
from paydesk.engine.orders import samples, status
from paydesk.engine.orders.presentation import NotifiedOrder
from paydesk.engine.orders.samples import InvalidSample
from paydesk.engine.orders.status import State
from paydesk.engine.orders.status_labels import EXTENDED
from paydesk.engine.webhooks.schemas import ACTIONS, ACTIONS_OF, CONNECT_TOPIC, Notification
from tables import each

NOW_MS = 1_769_869_602_109
EVERY = [(action, detail) for action in ACTIONS for detail in samples.status_details(action)]


def body_of(action: str, **options: Any) -> dict[str, Any]:
    """Return the parsed body of a sample."""
    body: dict[str, Any] = json.loads(samples.sample(action, now_ms=NOW_MS, **options).body)
    return body


def test_every_action_has_samples() -> None:
    """Of both topics, and every detail of a failed payment has one."""
    assert set(samples.actions()) == {action for of_topic in ACTIONS_OF.values() for action in of_topic}
    assert all(samples.status_details(action) for action in ACTIONS)
    assert samples.status_details("order.failed") == status.FAILED_DETAILS


def test_every_move_to_every_state_has_a_sample() -> None:
    """No state of the table of moves is missing."""
    assert {detail for _, detail in EVERY} == {state.payment_detail for state in status.STATES}


@each("action, detail", EVERY)
def test_sample_is_a_valid_notification(action: str, detail: str) -> None:
    """Its state exists, and it has the schema of the real ones."""
    body = body_of(action, status_detail=detail)
    data = body["data"]
    (payment,) = data["transactions"]["payments"]
    assert (body["action"], payment["status_detail"], payment["status"]) == (action, detail, data["status"])
    jsonschema_rs.validator_for(schema_of(NotifiedOrder)).validate(data)
    jsonschema_rs.validator_for(schema_of(Notification)).validate(body)
    plain = {label: detail for detail, label in EXTENDED.extended.items()}
    if data["status"] not in plain:
        detail_of_order = "processed" if data["status_detail"] == "accredited" else data["status_detail"]
        assert State(data["status"], detail_of_order, detail) in status.STATES
    assert (payment.get("paid_amount") is not None) == (data["status"] in ("processed", "refunded"))
    assert data.get("total_paid_amount") == payment.get("paid_amount")


def test_default_details_are_the_usual_ones() -> None:
    """An order that is refunded is refunded as a whole, unless a detail says otherwise."""
    assert body_of("order.refunded")["data"]["status"] == "refunded"
    assert body_of("order.refunded", status_detail="partially_refunded")["data"]["status"] == "processed"
    assert body_of("order.canceled")["data"]["transactions"]["payments"][0]["status_detail"] == "canceled_by_api"


def test_refunds_are_those_of_the_state() -> None:
    """The processed ones add up to the refunded amount, and a failed one is shown as failed."""
    for detail in ("refunded", "partially_refunded"):
        transactions = body_of("order.refunded", amount="10.00", status_detail=detail)["data"]["transactions"]
        (refund,) = transactions["refunds"]
        assert refund["amount"] == transactions["payments"][0]["refunded_amount"]
        assert refund["transaction_id"] == transactions["payments"][0]["id"]
    failed = body_of("order.refund_failed", status_detail="partially_refunded")["data"]["transactions"]["refunds"]
    assert [refund["status"] for refund in failed] == ["processed", "failed"]
    assert len({refund["id"] for refund in failed}) == 2


def test_version_counts_the_moves_of_the_shortest_way() -> None:
    """A receiver that compares versions sees increasing ones of the samples of one order."""
    versions = [
        body_of(action)["data"]["version"]
        for action in ("order.created", "order.at_terminal", "order.processed", "order.refund_failed")
    ]
    assert versions == [1, 2, 3, 4]


def test_parameters_appear_in_the_sample() -> None:
    """Amount, currency's decimals, reference, ids and the mode; the same arguments give the same bytes."""
    given = {
        "amount": "1500",
        "currency": "CLP",
        "external_reference": "table-7",
        "order_id": "ORD01J67CQQH5904WDBVZEM4JMEP9",
        "event_id": "11111111-1111-4111-8111-111111111111",
        "seller_id": 42,
        "application_id": 43,
        "live": True,
    }
    made = samples.sample("order.processed", now_ms=NOW_MS, **given)  # type: ignore[arg-type]  # a row of a table
    assert made == samples.sample("order.processed", now_ms=NOW_MS, **given)  # type: ignore[arg-type]  # the same
    body = json.loads(made.body)
    assert (body["id"], body["user_id"], body["application_id"], body["live_mode"]) == (
        given["event_id"],
        "42",
        "43",
        True,
    )
    assert (body["data"]["id"], body["data"]["external_reference"]) == (given["order_id"], "table-7")
    assert body["data"]["total_paid_amount"] == "1500"
    assert (made.source_id, made.event_id, made.seller_id) == (given["order_id"], given["event_id"], 42)


def test_consents_are_about_the_seller() -> None:
    """Their ids are numbers, as the real ones have them."""
    for action in ACTIONS_OF[CONNECT_TOPIC]:
        made = samples.sample(action, now_ms=NOW_MS, seller_id=42, application_id=43)
        body = json.loads(made.body)
        assert (body["type"], body["user_id"], body["data"]) == ("mp-connect", 42, {"id": "42"})
        assert (str(body["id"]), made.source_id) == (made.event_id, "43")


@each(
    "action, options, message",
    [
        ("order.paid", {}, "order.paid is no action. The actions are order.created, "),
        ("order.failed", {"status_detail": "nonsense"}, "Use one of rejected_by_issuer, "),
        ("order.created", {"amount": "0"}, "not an amount above zero"),
        ("order.created", {"amount": "-1"}, "not an amount above zero"),
        ("order.created", {"amount": "1.001"}, "2 decimals"),
        ("order.created", {"amount": "1.5", "currency": "CLP"}, "0 decimals"),
        ("order.created", {"amount": "9" * 13}, "not an amount above zero"),
        ("order.created", {"amount": "\N{ARABIC-INDIC DIGIT ONE}"}, "not an amount above zero"),
        ("order.created", {"currency": "XXX"}, "XXX is not a supported currency. Use one of BRL, "),
        ("order.created", {"external_reference": ""}, "1 to 64 letters"),
        ("order.created", {"external_reference": "a" * 65}, "1 to 64 letters"),
        ("order.created", {"external_reference": "a\n"}, "1 to 64 letters"),
        ("order.created", {"order_id": "ord01j67cqqh5904wdbvzem4jmep3"}, "is no order's id"),
        ("order.refunded", {"amount": "0.01", "status_detail": "partially_refunded"}, "Use a larger one"),
    ],
)
def test_invalid_sample_names_what_is_valid(action: str, options: dict[str, str], message: str) -> None:
    """Nothing that no order can have is made."""
    with pytest.raises(InvalidSample, match=message.replace(".", r"\.")):
        samples.sample(action, now_ms=NOW_MS, **options)  # type: ignore[arg-type]  # a row of a table
